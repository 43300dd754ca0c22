"""RaftConfig refuses what cannot work."""

from __future__ import annotations

import pytest

from minikafka.raft import RaftConfig


def test_the_defaults_fit_together() -> None:
    config = RaftConfig()
    assert config.check_quorum_timeout_ms == 1500
    assert config.begin_quorum_interval_ms == 500


def test_zero_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="election_timeout_ms must be at least 1"):
        RaftConfig(election_timeout_ms=0)


def test_a_fetch_may_not_be_parked_for_a_fetch_timeout() -> None:
    with pytest.raises(ValueError, match=r"fetch_max_wait_ms \(500\) must be below fetch_timeout_ms \(400\)"):
        RaftConfig(fetch_timeout_ms=400)
