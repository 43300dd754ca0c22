"""Waits grow, are bounded, and differ by chance; what may pass is tried again until its time is up."""

from __future__ import annotations

import random

import pytest

from minikafka.client.backoff import FAILOVER_BACKOFF, RETRY_BACKOFF, BackoffPolicy, retrying
from minikafka.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("backoff", [FAILOVER_BACKOFF, RETRY_BACKOFF])
def test_delays_grow_to_a_bound(backoff: BackoffPolicy) -> None:
    rng = random.Random(1)
    for failures in range(1, 10_000, 7):
        expected = min(backoff.last_s, backoff.first_s * backoff.factor ** min(failures - 1, 200))
        assert 0.8 * expected <= backoff.delay_s(failures, rng) <= 1.2 * expected


def test_a_failover_is_found_within_about_a_tenth_of_the_time_it_took() -> None:
    rng = random.Random(1)
    elapsed = 0.0
    for failures in range(1, 40):
        delay = FAILOVER_BACKOFF.delay_s(failures, rng)
        assert delay <= 0.03 + 0.2 * elapsed
        elapsed += delay


async def test_what_may_pass_is_tried_again() -> None:
    outcomes = [KafkaError(ErrorCode.NOT_CONTROLLER), KafkaError(ErrorCode.NETWORK_EXCEPTION), "done"]

    async def attempt() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    assert await retrying(attempt, timeout_s=60, rng=random.Random(1), doing="it") == "done"


async def test_what_will_not_pass_is_raised_at_once() -> None:
    async def attempt() -> None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name")

    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION: no such name"):
        await retrying(attempt, timeout_s=60, rng=random.Random(1), doing="it")


async def test_the_last_error_says_why_it_took_too_long() -> None:
    async def attempt() -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "it moved")

    with pytest.raises(KafkaError, match=r"NOT_COORDINATOR: it timed out after 0\.05 s: it moved"):
        await retrying(attempt, timeout_s=0.05, rng=random.Random(1), doing="it")
