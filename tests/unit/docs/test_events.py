"""The page of events: complete, current, and made from what nodes really log."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GENERATOR = runpy.run_path(str(ROOT / "tools" / "generate_events.py"))


def test_each_warning_and_error_has_a_sentence_and_each_sentence_an_event() -> None:
    assert GENERATOR["problems"]() == []


def test_the_page_is_current() -> None:
    page = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    assert page == GENERATOR["render"](), "run: python tools/generate_events.py"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('log.info("moved", to="x", **more)', [("moved", "info", ("to", "more"), "m")]),
        ('logger.error("bad", exc_info=e)', [("bad", "error", ("traceback",), "m")]),
        ('log.info("in" if x else "out")', [("in", "info", (), "m"), ("out", "info", (), "m")]),
        ('task.exception("no logger")', []),
    ],
)
def test_the_events_of_a_logging_call_are_found_in_the_source(call: str, expected: list[tuple[object, ...]]) -> None:
    assert list(GENERATOR["_events_of"](ast.parse(call), "m")) == expected


def test_an_event_that_is_not_written_out_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"m\.py logs an event that is not written out: log\.info what"):
        list(GENERATOR["_events_of"](ast.parse("log.info(what)"), "m"))


def test_whatever_logs_is_seen() -> None:
    """A logger by another name would be missing from the page."""
    makers = [
        path
        for path in (ROOT / "minikafka").rglob("*.py")
        if "structlog.get_logger" in (text := path.read_text(encoding="utf-8"))
        and not any(f"\n{name} = structlog.get_logger" in text for name in GENERATOR["LOGGERS"])
    ]
    assert makers == []
