"""Where logs begin and end, where a time is in them, and where leader epochs ended (KIP-396, KIP-320); and where they
are to begin (KIP-107)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from minikafka.client.admin.base import AdminCalls
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.consuming.queries import (
    ANSWER_TIMEOUT_S,
    Question,
    ask_leaders,
    delete_records,
    epoch_ends,
    list_offsets,
)
from minikafka.model import NO_EPOCH, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.wire.offset_questions import Answer, EpochQuestion, TimeQuestion


class OffsetCalls(AdminCalls):
    """Calls about offsets, each answered by the partitions' leaders."""

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """The offset for each timestamp (ms; -1 the end, -2 the first), -1 where no record is that young.

        With it comes the epoch of the record there, or of the leader for the end.
        """
        ask = partial(list_offsets, isolation=isolation, timeout_s=ANSWER_TIMEOUT_S)
        questions = {tp: TimeQuestion(timestamp) for tp, timestamp in timestamps.items()}
        return await self._ask_leaders(questions, ask, "looking up an offset")

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndEpoch]:
        """Where each epoch, or the last one before it that the leader knows, ended; -1 when it knows none."""
        ask = partial(epoch_ends, timeout_s=ANSWER_TIMEOUT_S)
        questions = {tp: EpochQuestion(epoch, NO_EPOCH) for tp, epoch in epochs.items()}
        return await self._ask_leaders(questions, ask, "asking where an epoch ended in the log")

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies below the offsets (-1: all up to the high watermark). The first offset left on every live
        replica.

        Raises POLICY_VIOLATION for a topic that is only compacted, OFFSET_OUT_OF_RANGE above the high watermark; others
        may have been deleted from by then.
        """
        ask = partial(delete_records, timeout_s=ANSWER_TIMEOUT_S)
        found = await self._ask_leaders(offsets, ask, "deleting records")
        return {tp: low_watermark for tp, (low_watermark, _) in found.items()}

    async def _ask_leaders(
        self,
        questions: Mapping[TopicPartition, Question],
        ask: Callable[
            [BrokerConnection, Mapping[TopicPartition, Question]], Awaitable[Mapping[TopicPartition, Answer]]
        ],
        doing: str,
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        found: dict[TopicPartition, OffsetAndEpoch] = {}

        async def attempt() -> None:
            await ask_leaders(self._connections, questions, ask, found, doing)

        await self._retrying(attempt, doing)
        return found
