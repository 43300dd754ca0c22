"""Read-only views of the machines, for metrics and descriptions."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.model import TopicPartition


class ReplicaStatistics(NamedTuple):
    """One follower in the eyes of its leader."""

    replica_id: int
    broker_epoch: int
    log_end_offset: int
    log_start_offset: int
    last_caught_up_time_ms: int
    is_in_sync: bool


class LeaderStatistics(NamedTuple):
    """A led partition."""

    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    high_watermark: int
    log_end_offset: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_under_replicated: bool
    is_at_min_isr: bool
    is_under_min_isr: bool
    has_proposal_in_flight: bool
    followers: tuple[ReplicaStatistics, ...]


class FetcherStatistics(NamedTuple):
    """A fetcher and how its partitions fare."""

    source_id: int
    partitions: int
    truncating: int
    delayed: int
    throttled: int
    failed: int
    max_lag: int
