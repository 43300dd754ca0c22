from __future__ import annotations

import itertools

import pytest
from replication_log import MemoryLog

from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.effects import SendFetch, Wait
from minikafka.replication.fetch_state import FetchPhase, FollowedPartition, PartitionFetchState
from minikafka.replication.fetch_states import FetchStates
from minikafka.replication.fetcher import FetcherSettings, ReplicaFetcher

WHERE = TopicPartition("t", 0)


def added() -> PartitionFetchState:
    return PartitionFetchState(FollowedPartition(WHERE, 3, MemoryLog()))


@pytest.mark.spec("R2")
def test_it_begins_by_truncating_in_the_epoch_it_was_added_in() -> None:
    state = added()
    assert (state.phase, state.current_leader_epoch, state.delayed_until_ms) == (
        FetchPhase.TRUNCATING,
        3,
        None,
    )


@pytest.mark.spec("R2")
def test_it_is_ready_for_fetch_only_when_fetching_and_nothing_keeps_it() -> None:
    kept_from = itertools.product(FetchPhase, (None, 100), (False, True), (False, True))
    for phase, delayed, throttled, out_of_range in kept_from:
        state = added()
        state.phase, state.delayed_until_ms = phase, delayed
        state.is_throttled, state.is_out_of_range = throttled, out_of_range
        nothing = delayed is None and not throttled and not out_of_range
        assert state.is_ready_for_fetch is (phase is FetchPhase.FETCHING and nothing)


@pytest.mark.spec("R2")
@pytest.mark.spec("R8")
def test_a_delayed_one_neither_truncates_nor_fetches_until_its_delay_ends() -> None:
    for phase in FetchPhase:
        states = FetchStates(1000)
        states.add(FollowedPartition(WHERE, 3, MemoryLog()))
        state = states.get(WHERE)
        assert state is not None
        state.phase = phase
        states.truncating.clear()
        states.delay(state, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
        states.enqueue(state)
        assert (states.truncating, states.changed) == ({}, {})
        until_ms = states.next_delay_ends_ms
        assert until_ms is not None
        states.end_delays(until_ms - 1)
        assert (states.truncating, states.changed) == ({}, {})
        states.end_delays(until_ms)
        due = states.truncating if phase is FetchPhase.TRUNCATING else states.changed
        assert due == {WHERE: state}


@pytest.mark.spec("R5")
def test_what_it_asks_is_its_own_end_start_epoch_and_a_limit() -> None:
    log = MemoryLog()
    fetcher = ReplicaFetcher(1, 2)
    fetcher.add_partitions([FollowedPartition(WHERE, 3, log)])
    fetcher.next(0)  # there is nothing to ask about an empty log
    fetcher.on_cut(WHERE)
    (send,) = fetcher.next(0)
    assert isinstance(send, SendFetch)
    (asked,) = send.request.topics[0].partitions
    assert (asked.fetch_offset, asked.log_start_offset) == (log.log_end_offset, log.log_start_offset)
    assert (asked.current_leader_epoch, asked.partition_max_bytes) == (3, 1 << 20)
    request = send.request
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)
    assert fetcher.next(0) == [], "one request at a time"


@pytest.mark.spec("R5")
def test_the_defaults_are_kafkas() -> None:
    config, settings = BrokerConfig(), FetcherSettings()
    assert (config.replica_fetch_wait_max_ms, config.replica_fetch_min_bytes) == (500, 1)
    assert (config.replica_fetch_response_max_bytes, config.replica_fetch_max_bytes) == (10 << 20, 1 << 20)
    assert config.replica_fetch_backoff_ms == 1000
    assert settings == FetcherSettings(
        config.replica_fetch_wait_max_ms,
        config.replica_fetch_min_bytes,
        config.replica_fetch_response_max_bytes,
        config.replica_fetch_max_bytes,
        config.replica_fetch_backoff_ms,
    )


@pytest.mark.spec("R3")
def test_it_truncates_before_it_fetches_again_and_again() -> None:
    fetcher = ReplicaFetcher(1, 2)
    assert fetcher.next(0) == [Wait(None)]
    for epoch in range(3):
        log = MemoryLog()
        fetcher.add_partitions([FollowedPartition(WHERE, epoch, log)])
        assert [type(effect).__name__ for effect in fetcher.next(0)] == ["TruncateTo"]
        fetcher.on_cut(WHERE)
        assert [type(effect).__name__ for effect in fetcher.next(0)] == ["SendFetch"]
        fetcher.on_request_abandoned()
