"""The order of an archive's work: what is tried again, and what is refused."""

from __future__ import annotations

import pytest

from minikafka.spark.pipelines.archive import archiving
from minikafka.spark.pipelines.archive.archiving import ATTEMPTS, attempted
from minikafka.spark.pipelines.archive.places import AnotherArchiveError
from minikafka.spark.pipelines.archive.writing import UNSEEN
from minikafka.spark.pipelines.running import PipelineError


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "_BACKOFF_S", 0.0)


def test_a_job_that_fails_is_tried_again() -> None:
    outcomes = iter([PipelineError("a broker is away"), PipelineError("and another"), 4711])

    def job() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, PipelineError):
            raise outcome
        return outcome

    assert attempted(job, lambda: None) == 4711


def test_in_the_end_the_reason_is_told_in_a_line() -> None:
    attempts = []

    def job() -> int:
        attempts.append(1)
        raise PipelineError("CORRUPT_MESSAGE: orders-0: batch at 5 is damaged")

    with pytest.raises(PipelineError, match=r"^CORRUPT_MESSAGE: orders-0: batch at 5 is damaged$"):
        attempted(job, lambda: None)
    assert len(attempts) == ATTEMPTS


def test_what_will_not_be_better_is_told_at_once() -> None:
    attempts = []

    def job() -> int:
        attempts.append(1)
        raise PipelineError("offsets 0 to 10 of orders-0 were to be read")

    def look_again() -> None:
        raise PipelineError("orders was deleted and created again")

    with pytest.raises(PipelineError, match="orders was deleted and created again"):
        attempted(job, look_again)
    assert len(attempts) == 1


@pytest.mark.parametrize("error", [AnotherArchiveError("was first"), PipelineError(f"host-7 {UNSEEN} /lake")])
def test_what_an_operator_must_change_is_told_at_once(error: PipelineError) -> None:
    attempts = []

    def job() -> int:
        attempts.append(1)
        raise error

    with pytest.raises(PipelineError, match=str(error)):
        attempted(job, lambda: None)
    assert len(attempts) == 1


def test_days_to_be_dropped() -> None:
    assert archiving._day("2026-11-21") == "2026-11-21"
    assert archiving._day(None) == ""  # no day is before that
    with pytest.raises(PipelineError, match="must be a date such as 2026-11-21, not yesterday"):
        archiving._day("yesterday")
    with pytest.raises(PipelineError, match="9999-01-01 lies in the future"):
        archiving._day("9999-01-01")
