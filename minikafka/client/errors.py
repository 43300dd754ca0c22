"""Errors of the client with a class of their own; all are KafkaErrors."""

from __future__ import annotations

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition


class UnreachableError(KafkaError):
    """The connection to a broker failed, or broke before the answer: then the outcome of the request is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class CommitFailedError(KafkaError):
    """Offsets were not stored: the group has rebalanced, or removed this member, since its last poll.

    The present owner of the partitions reads the records since the last commit again. Poll to go on with the new
    assignment. Do not commit the same offsets again: that would overwrite the new owner's.
    """

    def __init__(self, code: ErrorCode, group_id: str, why: str) -> None:
        super().__init__(
            code,
            f"group {group_id!r}: commit failed: {why}; poll again; records read since the last commit will be "
            "delivered again",
        )

    @property
    def retriable(self) -> bool:
        """Never: the same offsets must not be stored in another generation."""
        return False


class TransactionAbortedError(KafkaError):
    """A transaction was aborted, with all of its records and offsets: do it again, from what is committed."""

    def __init__(self, transactional_id: str, cause: KafkaError) -> None:
        super().__init__(
            cause.code, f"the transaction of {transactional_id!r} was aborted, and can be done again: {cause}"
        )


class FencedError(KafkaError):
    """Another producer has the transactional id now: this one cannot write any more."""

    def __init__(self, transactional_id: str, cause: KafkaError) -> None:
        super().__init__(
            cause.code,
            f"another producer has taken the transactional id {transactional_id!r} over, or it was unused for so long"
            f" that it was forgotten; close this one ({cause})",
        )

    @property
    def retriable(self) -> bool:
        """Never."""
        return False


class LogTruncatedError(KafkaError):
    """Records that this consumer has read are no longer in the log, after an unclean election (KIP-320).

    ``offset``: position in ``tp``. ``divergence``: end of the common log; None when the leader does not know it. Seek
    to go on.
    """

    def __init__(self, tp: TopicPartition, offset: int, divergence: OffsetAndEpoch | None) -> None:
        agree = (
            "and the leader does not know where the logs diverge"
            if divergence is None
            else f"and the logs diverge at offset {divergence.offset} (epoch {divergence.epoch})"
        )
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{tp}: log truncated below offset {offset}, up to which records were read, {agree}; "
            "seek to go on, or set auto_offset_reset",
        )
        self.tp = tp
        self.offset = offset
        self.divergence = divergence


class NoOffsetError(KafkaError):
    """There is no committed offset, or the offset is out of range, and ``auto_offset_reset`` is "none"."""

    def __init__(self, tp: TopicPartition, offset: int | None = None) -> None:
        what = "has no committed offset" if offset is None else f"does not contain offset {offset}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{tp} {what}, and auto_offset_reset is 'none': seek, or choose 'earliest' or 'latest'",
        )
        self.tp = tp
