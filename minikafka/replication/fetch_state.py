"""Where a follower stands with one partition it follows (row R2).

::

    (added) --> TRUNCATING --logs agree--> FETCHING --out of range--> (its ends are looked up) --> TRUNCATING
                    ^                          |                                              or FETCHING, restarted
                    +------ added in a later epoch

A *delay* (back-off after an error), a *throttle* (replication quota), the look-up of the leader's ends and a *cut* of
its log that is under way take a partition out of fetching without changing that state.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.model import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from minikafka.replication.epochs import ReplicaLog
from minikafka.wire.messages.fetch import FetchPartition

UNKNOWN_HIGH_WATERMARK: Final = (1 << 63) - 1
"""In a fetch that does not say what the follower knows as committed (KIP-1166)."""


class ReplicaState(Enum):
    """Finding out where the log leaves the leader's, or growing behind it."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"


class FollowedPartition(NamedTuple):
    """A partition to follow: in which epoch its leader leads, and the local log."""

    topic_partition: TopicPartition
    leader_epoch: int
    log: ReplicaLog
    topic_id: UUID = ZERO_TOPIC_ID


class PartitionFetchState:
    """One followed partition in one leader epoch. ``asked_epoch`` is that of the last look-up, until the logs agree."""

    __slots__ = (
        "asked_epoch",
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
        "replica_state",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, followed: FollowedPartition) -> None:
        self.topic_partition = followed.topic_partition
        self.topic_id = followed.topic_id
        self.log = followed.log
        self.current_leader_epoch = followed.leader_epoch
        self.replica_state = ReplicaState.TRUNCATING
        self.asked_epoch: int | None = None
        self.fetch_offset = NO_OFFSET
        self.last_fetched_epoch = NO_EPOCH
        self.must_read_log = True  # something other than an append changed the log
        self.leader_high_watermark = NO_OFFSET
        self.delayed_until_ms: int | None = None
        self.failures = 0  # in a row
        self.is_throttled = False
        self.is_out_of_range = False
        self.is_being_cut = False  # until the driver says that the log is cut
        self.has_agreed = False  # the leader has served it since: it need not be told what is known as committed

    @property
    def is_ready_for_fetch(self) -> bool:
        """Fetching, and nothing keeps it from it."""
        return (
            self.replica_state is ReplicaState.FETCHING
            and self.delayed_until_ms is None
            and not self.is_throttled
            and not self.is_out_of_range
            and not self.is_being_cut
        )

    @property
    def lag(self) -> int:
        """Committed records at the leader that are missing here, as of its last answer (row R11)."""
        return max(0, self.leader_high_watermark - self.log.log_end_offset)

    def start_fetching(self) -> None:
        """The log is, or is about to be cut so that it is, a prefix of the leader's."""
        self.replica_state = ReplicaState.FETCHING
        self.asked_epoch = None
        self.is_out_of_range = False
        self.must_read_log = True
        self.has_agreed = False

    def start_truncating(self) -> None:
        """Where the log leaves the leader's must be found out (again)."""
        self.replica_state = ReplicaState.TRUNCATING
        self.asked_epoch = None
        self.is_out_of_range = False
        self.must_read_log = True
        self.has_agreed = False

    def describe(self, partition_max_bytes: int) -> FetchPartition:
        """What to ask the leader for (row R5)."""
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
