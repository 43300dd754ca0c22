"""What people are told of a pipeline that runs."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from minikafka.spark.pipelines.running import Progress, explain, interrupted_by_sigterm, literally

OF_A_WORKER = """[PYTHON_DATA_SOURCE_ERROR] Failed when running Python data source: Traceback (most recent call last):
  File "worker.py", line 10, in main
    read()
minikafka.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic nowhere not found
 SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("said", "explained"),
    [
        (OF_A_WORKER, "UNKNOWN_TOPIC_OR_PARTITION: topic nowhere not found"),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] No column `x` can be found. SQLSTATE: 42703; line 1 pos 0;\n'Plan",
            "No column `x` can be found. line 1 pos 0",
        ),
        ("job aborted\njava.lang.IllegalStateException: the disk is full", "the disk is full"),
        (
            "An error occurred while calling o25.text.\n: java.io.IOException: no\n\tat a.b(C.java:1)\n"
            "Caused by: org.apache.hadoop.fs.ParentNotDirectoryException: not a directory: file:/a\n\tat a.b(C.java:2)",
            "not a directory: file:/a",
        ),
        (
            "Query [id = 7, runId = c] terminated with exception: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
            "Division by zero.",
        ),
        (
            "[STREAM_FAILED] Query [id = 7, runId = c] terminated with exception: [DIVIDE_BY_ZERO] Division by zero. "
            "SQLSTATE: 22012 SQLSTATE: XXKST",
            "Division by zero.",
        ),
        ("nothing to shorten", "nothing to shorten"),
        ("", "RuntimeError"),
    ],
)
def test_an_error_of_spark_becomes_a_line(said: str, explained: str) -> None:
    assert explain(RuntimeError(said)) == explained


def test_a_path_is_no_pattern() -> None:
    assert literally("/a b/c.d/{e}/[f]*?\\g") == r"/a b/c.d/\{e\}/\[f\]\*\?\\g"


@pytest.mark.parametrize(
    ("progress", "share"),
    [
        (Progress(), None),
        (Progress(rows=5), None),
        (Progress(rows=5, rows_total=10), 0.5),
        (Progress(rows=15, rows_total=10), 1.0),
        (Progress(rows_total=0), 1.0),
        (Progress(tasks=3, tasks_total=12, rows_total=1), 0.25),
    ],
)
def test_the_share_that_is_done(progress: Progress, share: float | None) -> None:
    assert progress.share == share


def _terminate_myself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)  # which is not slept to its end


def test_sigterm_is_like_ctrl_c_in_the_block_and_as_before_behind_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupted_by_sigterm():
        _terminate_myself()
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_signals_are_left_alone() -> None:
    seen: list[object] = []

    def look() -> None:
        with interrupted_by_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert seen == [signal.getsignal(signal.SIGTERM)]
