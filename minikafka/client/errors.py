"""What the client raises beside plain KafkaErrors; all of these are KafkaErrors too."""

from __future__ import annotations

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition


class UnreachableError(KafkaError):
    """No connection to a broker could be made, or it broke before the answer came. Whether the request was carried
    out is then unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class CommitFailedError(KafkaError):
    """Offsets were not stored, for the caller's share is another than when it last asked for records, or gone.

    The member was thrown out of its group, or the group divided its partitions anew. What was read since the last
    commit will be read again, by whoever has the partitions now. Ask for records to go on with the new share. The same
    offsets, committed again, would overwrite what that reader stored.
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


class LogTruncatedError(KafkaError):
    """Records that this consumer had read are no longer in the log: its leader changed uncleanly (KIP-320).

    ``tp`` stood at ``offset``; the logs agree up to ``divergence``, None when the leader cannot tell. Seek to
    read on from where you choose.
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
