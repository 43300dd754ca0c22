"""Loggers of a node's code, apart from what structlog is configured with.

That is the application's, and a node may run in its process (``minikafka.testing``, ``in_process=True``). A line goes
where the context says that logs it: each node has its own, in its tasks and its threads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol, TextIO, cast

import structlog
from structlog.typing import Processor


class Lines(Protocol):
    """Where whole lines are written."""

    def write(self, text: str, /) -> object:
        """One line or more, with their ends."""
        ...


class _OfContext:
    """The file of structlog's logger."""

    def write(self, text: str) -> None:
        """To where the context says, or to standard error."""
        (_lines.get() or sys.stderr).write(text)

    def flush(self) -> None:
        """Nothing is buffered."""


_lines: Final[ContextVar[Lines | None]] = ContextVar("minikafka_lines", default=None)
_fields: Final[ContextVar[Mapping[str, object] | None]] = ContextVar("minikafka_fields", default=None)
_logger: Final = structlog.WriteLogger(cast(TextIO, _OfContext()))


def _with_fields(_logger: object, _method: str, event: Any) -> Any:
    return {**(_fields.get() or {}), **event}


BASE: Final[tuple[Processor, ...]] = (
    _with_fields,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.StackInfoRenderer(),
)


_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


def without_controls(text: str) -> str:
    r"""With ``\x1b`` for a control character: clients choose names, and give no orders to a terminal by them."""
    return text.translate(_CONTROLS)


def for_people(*, colors: bool = False) -> Processor:
    """Renders a line with key=value."""
    plain = structlog.dev.plain_traceback  # the other one prints local variables, secrets too
    render = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)

    def rendered(logger: object, method: str, event: Any) -> Any:
        shown = {name: without_controls(value) if isinstance(value, str) else value for name, value in event.items()}
        return render(logger, method, shown)

    return rendered


processors: Final[list[Processor]] = [*BASE, for_people()]
"""What becomes of an event. A process has its own put here; tests, something that keeps it."""


def get_logger() -> Any:
    """The logger of a module."""
    return structlog.wrap_logger(
        _logger,
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=True,
    )


def write_to(lines: Lines, **fields: object) -> None:
    """From now on, what this context logs goes there, with these fields in front."""
    _lines.set(lines)
    _fields.set(fields)
