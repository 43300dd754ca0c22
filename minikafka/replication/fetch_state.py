"""Fetch state of one followed partition: fetch offset, leader epoch, delay, truncating or fetching (row R2).

::

    (added) --> TRUNCATING --logs agree--> FETCHING --out of range--> (its ends are looked up) --> TRUNCATING
                    ^                          |                                              or FETCHING, restarted
                    +------ added in a later epoch

Four things take a partition out of fetching without a change of that state: a *delay* (back-off after an error), a
*throttle* (replication quota), the look-up of the leader's log start and end, and a *cut* of the log under way.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.model import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from minikafka.replication.epochs import ReplicaLog
from minikafka.wire.messages.fetch import FetchPartition

UNKNOWN_HIGH_WATERMARK: Final = (1 << 63) - 1
"""In a fetch that does not name the follower's high watermark (KIP-1166)."""


class FetchPhase(Enum):
    """Looking for the point of divergence from the leader's log, or fetching records."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"


class FollowedPartition(NamedTuple):
    """A partition to follow: its leader epoch, and the local log."""

    topic_partition: TopicPartition
    leader_epoch: int
    log: ReplicaLog
    topic_id: UUID = ZERO_TOPIC_ID


class PartitionFetchState:
    """One followed partition in one leader epoch. ``asked_epoch``: epoch of the last look-up, until the logs agree.

    ``contradicted_epoch``: epoch of records that came after later ones here, to be looked up.
    """

    __slots__ = (
        "asked_epoch",
        "contradicted_epoch",
        "current_leader_epoch",
        "delayed_until_ms",
        "failures",
        "fetch_offset",
        "has_agreed",
        "is_being_cut",
        "is_out_of_range",
        "is_throttled",
        "last_fetched_epoch",
        "leader_high_watermark",
        "log",
        "must_read_log",
        "phase",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, followed: FollowedPartition) -> None:
        self.topic_partition = followed.topic_partition
        self.topic_id = followed.topic_id
        self.log = followed.log
        self.current_leader_epoch = followed.leader_epoch
        self.phase = FetchPhase.TRUNCATING
        self.asked_epoch: int | None = None
        self.contradicted_epoch: int | None = None
        self.fetch_offset = NO_OFFSET
        self.last_fetched_epoch = NO_EPOCH
        self.must_read_log = True  # something other than an append changed the log
        self.leader_high_watermark = NO_OFFSET
        self.delayed_until_ms: int | None = None
        self.failures = 0  # in a row
        self.is_throttled = False
        self.is_out_of_range = False
        self.is_being_cut = False  # until the driver reports that the cut is done
        self.has_agreed = False  # the leader has answered since: fetches need no longer name the high watermark

    @property
    def is_ready_for_fetch(self) -> bool:
        """Fetching, and neither delayed, throttled nor being cut."""
        return (
            self.phase is FetchPhase.FETCHING
            and self.delayed_until_ms is None
            and not self.is_throttled
            and not self.is_out_of_range
            and not self.is_being_cut
        )

    @property
    def lag(self) -> int:
        """Committed records of the leader that this replica does not have, as of the last answer (row R11)."""
        return max(0, self.leader_high_watermark - self.log.log_end_offset)

    def start_fetching(self) -> None:
        """The log is a prefix of the leader's, or will be once it is cut."""
        self.phase = FetchPhase.FETCHING
        self.asked_epoch = self.contradicted_epoch = None
        self.is_out_of_range = False
        self.must_read_log = True
        self.has_agreed = False

    def start_truncating(self) -> None:
        """Look for the point of divergence from the leader's log (again)."""
        self.phase = FetchPhase.TRUNCATING
        self.asked_epoch = self.contradicted_epoch = None
        self.is_out_of_range = False
        self.must_read_log = True
        self.has_agreed = False

    def describe(self, partition_max_bytes: int) -> FetchPartition:
        """Its entry in a fetch: log end, log start, leader epoch and byte limit (row R5)."""
        if self.must_read_log:
            self.fetch_offset = self.log.log_end_offset
            self.last_fetched_epoch = self.log.latest_epoch
            self.must_read_log = False
        return FetchPartition(
            partition=self.topic_partition.partition,
            current_leader_epoch=self.current_leader_epoch,
            fetch_offset=self.fetch_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=self.log.log_start_offset,
            partition_max_bytes=partition_max_bytes,
            high_watermark=UNKNOWN_HIGH_WATERMARK if self.has_agreed else self.log.high_watermark,
        )
