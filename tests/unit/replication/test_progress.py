from __future__ import annotations

import pytest

from minikafka.replication.progress import NEVER_MS, ReplicaProgress


def fetch(replica, offset, leader_end, now_ms, epoch=1):
    replica.on_fetch(epoch, offset, 0, leader_end, now_ms)


@pytest.mark.spec("R17")
def test_caught_up_now_at_the_leaders_end():
    replica = ReplicaProgress(2)
    fetch(replica, 10, 10, 500)
    assert replica.last_caught_up_time_ms == 500
    assert (replica.log_end_offset, replica.broker_epoch) == (10, 1)


@pytest.mark.spec("R17")
def test_caught_up_as_of_the_previous_fetch_when_it_has_what_the_leader_had_then():
    replica = ReplicaProgress(2)
    fetch(replica, 5, 10, 500)
    assert replica.last_caught_up_time_ms == NEVER_MS
    fetch(replica, 10, 20, 600)
    assert replica.last_caught_up_time_ms == 500
    fetch(replica, 15, 30, 700)
    assert replica.last_caught_up_time_ms == 500


@pytest.mark.spec("R17")
def test_the_caught_up_time_never_goes_back():
    replica = ReplicaProgress(2)
    fetch(replica, 5, 10, 500)
    replica.last_caught_up_time_ms = 550
    fetch(replica, 10, 20, 600)
    assert replica.last_caught_up_time_ms == 550


@pytest.mark.spec("R19")
@pytest.mark.parametrize(("now_ms", "caught_up"), [(500, True), (530, True), (531, False)])
def test_lag_is_measured_from_the_caught_up_time(now_ms, caught_up):
    replica = ReplicaProgress(2)
    fetch(replica, 10, 10, 500)
    assert replica.is_caught_up(20, now_ms, 30) is caught_up


@pytest.mark.spec("R19")
def test_a_replica_at_the_leaders_end_never_lags():
    replica = ReplicaProgress(2)
    fetch(replica, 10, 10, 500)
    assert replica.is_caught_up(10, 1_000_000, 30)


def test_an_unknown_replica_is_not_caught_up_even_when_the_clock_starts_at_zero():
    assert not ReplicaProgress(2).is_caught_up(0, 0, 30)


@pytest.mark.spec("P5")
def test_what_is_sent_again_and_again_is_verified_ever_more_seldom():
    replica = ReplicaProgress(2)
    due = [count for count in range(300) if replica.on_records_sent(7)]
    assert due == [2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert not any(replica.on_records_sent(offset) for offset in (8, 9, 9, 10, 10, 7, 7)), "it goes on"
    assert replica.on_records_sent(7)
