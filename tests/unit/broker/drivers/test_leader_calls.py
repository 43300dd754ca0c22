"""Of a fetcher's calls: when a fetch is taken back. More is in ``test_replication``, with nodes."""

from __future__ import annotations

import pytest

from minikafka.broker.drivers import leader_calls


@pytest.mark.spec("R9")
def test_a_fetch_that_follows_an_abandoned_one_has_time_for_its_answer() -> None:
    """Finding: while 3,000 partitions were created one fetch after the other was abandoned, for ten seconds."""
    patience = leader_calls.Patience()
    assert patience.held_after_s == leader_calls.HELD_AFTER_S
    patience.on_abandoned(10.0)
    patience.on_abandoned(10.1)  # the answer did not come in time for the next one either
    assert patience.held_after_s == pytest.approx(0.4)
    patience.on_answer(10.3)
    assert patience.held_after_s == pytest.approx(1.2)
    patience.on_answer(10.4)
    assert patience.held_after_s == pytest.approx(0.6)
    for _ in range(5):
        patience.on_answer(10.5)
    assert patience.held_after_s == leader_calls.HELD_AFTER_S
