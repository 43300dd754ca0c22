"""Common parts of pipelines while Spark works: progress, a clean stop, errors of one readable line."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

POLL_S: Final = 0.25
_EXCEPTION: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt))(?:: (.*))?$")
_CONDITION: Final = re.compile(r"^\[([A-Z0-9_.]+)\] ")
_CAUSE: Final = re.compile(r"^(?:: |Caused by: )")
_OF_QUERY: Final = re.compile(r"^(?:\[STREAM_FAILED\] )?Query \[id = .*?\] terminated with exception: ")
_FEW: Final = 3
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}\b;?")


class PipelineError(Exception):
    """The reason why a pipeline cannot go on, with the remedy, in one line."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress: rows, or for batch jobs the tasks of the stages that have begun."""

    rows: int = 0
    rows_per_second: float = 0.0
    rows_total: int | None = None
    tasks: int = 0
    tasks_total: int = 0

    @property
    def share(self) -> float | None:
        """0.0 to 1.0, or None if the total is unknown."""
        done, total = (self.tasks, self.tasks_total) if self.tasks_total else (self.rows, self.rows_total)
        return None if total is None else min(done / total, 1.0) if total else 1.0


Show = Callable[[Progress], None]


def show_nothing(progress: Progress) -> None:
    """For callers without a display."""


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """In the block SIGTERM raises KeyboardInterrupt, like SIGINT, and py4j logs neither. No effect in threads other
    than
    the main one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    loggers = [logging.getLogger(), logging.getLogger("py4j.clientserver")]
    loggers = [logger for logger in loggers if _is_not_of_py4j not in logger.filters]  # in a block around this one
    for logger in loggers:
        logger.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for logger in loggers:
            logger.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """py4j logs an interruption as a page of tracebacks."""
    return "py4j" not in record.pathname


@contextmanager
def watched_jobs(spark: SparkSession, show: Show = show_nothing) -> Iterator[None]:
    """Shows the completed tasks of the batch jobs in the block. Raises PipelineError for Spark's errors.

    SIGINT and SIGTERM end these jobs, and raise KeyboardInterrupt.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    context, tag = spark.sparkContext, f"pipeline-{uuid4().hex}"
    watch = _JobWatch(spark, show)
    thread = threading.Thread(target=watch.run, name="pipeline-progress", daemon=True)
    thread.start()
    try:
        with interrupted_by_sigterm(), readable_errors():
            context.addJobTag(tag)
            yield
    except (KeyboardInterrupt, Py4JError) as error:
        if not is_interruption(error):
            raise
        with suppress(Py4JError):  # Spark itself may have got the signal, and ended
            context.cancelJobsWithTag(tag)
        raise KeyboardInterrupt from None
    finally:
        with suppress(Py4JError):
            context.removeJobTag(tag)
        watch.finished.set()
        thread.join()


def is_interruption(error: BaseException | None) -> bool:
    """True for KeyboardInterrupt, and for its consequences: an interrupted connection to Java is unusable."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def readable_errors(doing: str = "") -> Iterator[None]:
    """Raises PipelineError, a line that begins with ``doing``, for Spark's errors in the block."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:  # the latter is what PySpark knows no class for
        raise PipelineError(doing + explain(error)) from error


@dataclass(slots=True)
class _JobWatch:
    """Counts the tasks of every observed stage."""

    spark: SparkSession
    show: Show
    finished: threading.Event = field(default_factory=threading.Event)
    done: dict[int, int] = field(default_factory=dict)  # by stage
    total: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        from py4j.protocol import Py4JError

        tracker = self.spark.sparkContext.statusTracker()
        while not self.finished.wait(POLL_S):
            with suppress(Py4JError):  # the connection to Java was interrupted, or Spark is gone
                self._look(tracker)

    def _look(self, tracker: StatusTracker) -> None:
        active = set(tracker.getActiveStageIds())
        for stage in self.total.keys() - active:
            self.done[stage] = self.total[stage]
        for stage in active:
            if info := tracker.getStageInfo(stage):
                self.done[stage], self.total[stage] = info.numCompletedTasks, info.numTasks
        self.show(Progress(tasks=sum(self.done.values()), tasks_total=sum(self.total.values())))


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Changes the session's settings for the block: a query keeps the settings of its start."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def few(names: Sequence[str]) -> str:
    """The first three, and the number of others."""
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def explain(error: BaseException) -> str:
    """The one relevant line of a Spark error: in a Python traceback, the original exception."""
    lines = [_CAUSE.sub("", line.strip()) for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        if (found := _EXCEPTION.match(line)) and found.group(2) and not found.group(1).startswith("Py4J"):
            return _without_codes(found.group(2))
    return _without_codes(lines[0]) if lines else type(error).__name__


def _without_codes(line: str) -> str:
    return _SQL_STATE.sub("", _CONDITION.sub("", _OF_QUERY.sub("", line))).strip(" ;")


def literally(path: str) -> str:
    """A path for Spark's readers, which take it for a pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)
