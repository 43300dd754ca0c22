"""structlog for a node: one line per event on stderr, key=value for people or JSON for machines."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

import structlog


def configure_logging(*, node_id: int, level: str = "info", as_json: bool = False) -> None:
    """Set structlog up for this process and bind the node's id to every line."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,  # the other one prints local variables, secrets too
        )
    )
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.StackInfoRenderer(),
    ]
    if as_json:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(node=node_id)


def one_line(error: BaseException) -> str:
    """An exception as one readable line."""
    return "".join(traceback.format_exception_only(error)).strip().replace("\n", " | ")
