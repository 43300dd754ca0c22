"""Where tasks run: in a job of Spark, or without Spark in processes of this machine.

A process reads tasks from its standard input, and ends with it: so it never outlives a driver that was killed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from minikafka.spark.pipelines.running import PipelineError, interrupted_by_sigterm, readable_errors, watched_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = TypeVar("S")
T = TypeVar("T")


class Run(Protocol):
    """Runs each piece of work in a task, ``parallel`` at once. Raises PipelineError, a line, for errors of tasks."""

    parallel: int

    def __call__(self, tasks: Sequence[S], work: Callable[[S], T]) -> list[T]: ...


@contextmanager
def running(spark: SparkSession | Callable[[], SparkSession] | None, processes: int) -> Iterator[Run]:
    """The place for tasks. SIGINT and SIGTERM end them, and raise KeyboardInterrupt."""
    if spark is not None:
        session = spark() if callable(spark) else spark
        with watched_jobs(session):
            yield _InSpark(session)
        return
    with interrupted_by_sigterm(), ExitStack() as stack:
        yield _InProcesses(stack, processes)


class _InSpark:
    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.parallel = self._context.defaultParallelism

    def __call__(self, tasks: Sequence[S], work: Callable[[S], T]) -> list[T]:
        with readable_errors():
            return self._context.parallelize(tasks, len(tasks)).map(work).collect()


class _InProcesses:
    """Starts a process when a task finds none idle."""

    def __init__(self, stack: ExitStack, processes: int) -> None:
        self.parallel = processes
        self._stack = stack
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(processes):
            self._idle.put(None)
        self._threads = stack.enter_context(ThreadPoolExecutor(processes))

    def __call__(self, tasks: Sequence[S], work: Callable[[S], T]) -> list[T]:
        return list(self._threads.map(lambda task: self._run((work, task)), tasks))

    def _run(self, what: Any) -> Any:
        process = self._idle.get() or self._started()
        goes_on = False
        try:
            pickle.dump(what, process.stdin)
            process.stdin.flush()
            is_done, result = pickle.load(process.stdout)  # noqa: S301 - its own process
            goes_on = True
        except (EOFError, OSError):
            raise PipelineError(f"a process that archives ended with {process.wait()}") from None
        finally:
            if not goes_on:
                process.kill()
            self._idle.put(process if goes_on else None)
        if not is_done:
            raise PipelineError(result)
        return result

    def _started(self) -> Any:
        command = [sys.executable, "-c", f"from {__name__} import work; work()"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


def work() -> None:
    """The program of a process."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    tasks: SimpleQueue[tuple[Callable[[Any], Any], Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    while True:
        function, task = tasks.get()
        try:
            answer = True, function(task)
        except Exception as error:
            answer = False, str(error) or type(error).__name__
        pickle.dump(answer, answers)
        answers.flush()


def _read(tasks: SimpleQueue[Any]) -> None:
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - its own driver
    finally:  # the driver has ended, or sends what is unknown here
        os._exit(0)
