from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from minikafka.spark.pipelines.archive import archiving
from minikafka.spark.pipelines.archive.archiving import ATTEMPTS, attempted
from minikafka.spark.pipelines.running import PipelineError


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "_BACKOFF_S", 0.0)


def test_a_job_that_fails_is_tried_again() -> None:
    outcomes = iter([PySparkException("a broker is away"), PySparkException("and another"), 4711])

    def job() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, PySparkException):
            raise outcome
        return outcome

    assert attempted(job) == 4711


def test_in_the_end_the_reason_is_told_in_a_line() -> None:
    attempts = []

    def job() -> int:
        attempts.append(1)
        raise PySparkException(
            "Traceback:\nminikafka.errors.KafkaError: CORRUPT_MESSAGE: orders-0: batch at 5 is damaged"
        )

    with pytest.raises(PipelineError, match=r"^CORRUPT_MESSAGE: orders-0: batch at 5 is damaged$"):
        attempted(job)
    assert len(attempts) == ATTEMPTS
