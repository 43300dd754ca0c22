"""When an acks=all produce is answered (rows R23, D4)."""

from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.leader import LeaderState


class ProducePartitionStatus:
    """One partition of a waiting produce: its answer was made at the append, and an error may still replace it.

    ``required_offset`` is the offset after the batch. A partition that failed at the append is answered from the start.
    """

    __slots__ = ("error", "is_answered", "leader_epoch", "required_offset", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        required_offset: int,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.required_offset = required_offset
        self.error = error
        self.is_answered = error is not ErrorCode.NONE

    def try_answer(self, leader: LeaderState | None) -> bool:
        """Answered by now? ``leader`` is the partition's state here, None when this broker leads it no longer."""
        if self.is_answered:
            return True
        if leader is None or leader.leader_epoch != self.leader_epoch:
            self.error, self.is_answered = ErrorCode.NOT_LEADER_OR_FOLLOWER, True
        else:
            self.is_answered, self.error = leader.check_required_offset(self.required_offset)
        return self.is_answered

    def expire(self) -> None:
        """The request's time is over (row D6)."""
        if not self.is_answered:
            self.error, self.is_answered = ErrorCode.REQUEST_TIMED_OUT, True
