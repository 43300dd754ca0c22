"""Transactions of a producer: its transactional id, their beginnings and ends, and offsets of groups in them.

Transaction version 2 (KIP-890): a leader adds its partition to the transaction when the first records arrive, and each
end brings the next epoch, in which sequences begin anew. So a record that is late never gets into another transaction.

What the application must do about an error is in its class: :class:`TransactionAbortedError` - do all of it again;
:class:`FencedError` - stop, another one has taken over. Anything else that is retriable is retried here.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

from minikafka.client.backoff import retrying
from minikafka.client.connections import Connections
from minikafka.client.consuming.queries import indexes_by_topic
from minikafka.client.errors import FencedError, TransactionAbortedError
from minikafka.client.key_coordinator import GROUP, TRANSACTION, KeyCoordinator
from minikafka.client.producing.sequences import Sequences
from minikafka.client.records import GroupMetadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, ProducerIdentity, TopicPartition
from minikafka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

LAST_VERSION_BY_NAME: Final = 5  # of TxnOffsetCommit; later ones name topics by their ids

T = TypeVar("T")

_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class Transactions:
    """Of one producer. One transaction at a time."""

    def __init__(
        self,
        connections: Connections,
        transactional_id: str,
        timeout_ms: int,
        sequences: Sequences,
        rng: random.Random,
        *,
        patience_s: float,
    ) -> None:
        """``timeout_ms``: of a transaction. ``patience_s``: for coordinators that do not answer, or ask to wait."""
        self._connections = connections
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._sequences = sequences
        self._rng = rng
        self._patience_s = patience_s
        self._coordinator = KeyCoordinator(connections, transactional_id, TRANSACTION)
        self._groups: dict[str, KeyCoordinator] = {}
        self._identity: ProducerIdentity | None = None
        self.is_open = False
        self.has_content = False  # something that the coordinator may know of
        self.failure: KafkaError | None = None  # why the open transaction can only be aborted
        self._is_unsure = False  # how the last one ended: its end was asked for, and not answered

    async def begin_session(self) -> None:
        """Take the transactional id over: the producer that had it cannot write any more. Raises KafkaError."""
        await self._initialise(None)

    async def _initialise(self, expected: ProducerIdentity | None) -> None:
        async def ask() -> InitProducerIdResponse:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
            )
            if expected is not None:
                request.producer_id, request.producer_epoch = expected
            answer = await self._coordinator.call(request, InitProducerIdResponse)
            self._coordinator.check(answer.error_code, "beginning")
            return answer

        answer = await self._retrying(ask, "beginning")
        self._become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        self._is_unsure = False

    def _become(self, identity: ProducerIdentity) -> None:
        self._identity = identity
        self._sequences.restart(*identity)

    async def begin(self) -> None:
        """A transaction begins here; the cluster hears of it with the first record. Raises KafkaError."""
        if self.is_open:
            raise RuntimeError("a transaction of this producer is open already; a producer has one at a time")
        if self._is_unsure:
            await self._initialise(self._identity)
        self.is_open, self.has_content, self.failure = True, False, None

    def fail(self, error: KafkaError) -> None:
        """Something of the open transaction was not written: it can only be aborted."""
        if self.is_open and self.failure is None:
            self.failure = error

    async def end(self, *, commits: bool) -> None:
        """All records were delivered, or are given up. Raises TransactionAbortedError or FencedError.

        Any other KafkaError: the coordinator was not reached in time, so whether the transaction was committed is not
        known here. The next one waits until it is.
        """
        try:
            if self.has_content:
                await self._end(commits=commits)
        finally:
            self.is_open = False

    async def _end(self, *, commits: bool) -> None:
        assert self._identity is not None
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commits,
        )

        async def ask() -> EndTxnResponse:
            answer = await self._coordinator.call(request, EndTxnResponse)
            self._coordinator.check(answer.error_code, "committing" if commits else "aborting")
            return answer

        self._is_unsure = True
        try:
            answer = await self._retrying(ask, "committing" if commits else "aborting")
        except KafkaError as error:
            if error.code not in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
                raise
            # The coordinator has aborted it: it took too long. This producer goes on, if it is still the one.
            await self._initialise(self._identity)
            if commits:
                raise TransactionAbortedError(self.transactional_id, error) from error
            return
        self._become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        self._is_unsure = False

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndEpoch], group: GroupMetadata) -> None:
        """Commit offsets of a group together with the transaction. Raises KafkaError.

        Of an epoch that is over the group's coordinator cannot tell why: the transaction took too long, maybe, and was
        aborted. If another producer has the id, the end of the transaction says so.
        """
        assert self._identity is not None
        coordinator = self._groups.setdefault(group.group_id, KeyCoordinator(self._connections, group.group_id, GROUP))
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_partition(index, offsets[TopicPartition(topic, index)]) for index in indexes],
                )
                for topic, indexes in indexes_by_topic(offsets).items()
            ],
        )

        async def ask() -> None:
            answer = await coordinator.call(request, TxnOffsetCommitResponse, at_most=LAST_VERSION_BY_NAME)
            for topic in answer.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    coordinator.check(partition.error_code, f"sending an offset of {tp} with the transaction")

        self.has_content = True
        try:
            await self._retrying(ask, "sending offsets", fenced=_FENCED - {ErrorCode.INVALID_PRODUCER_EPOCH})
        except KafkaError as error:
            self.fail(error)
            if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                raise TransactionAbortedError(self.transactional_id, error) from error
            raise

    async def _retrying(
        self, ask: Callable[[], Awaitable[T]], doing: str, *, fenced: Collection[ErrorCode] = _FENCED
    ) -> T:
        try:
            return await retrying(
                ask, timeout_s=self._patience_s, rng=self._rng, doing=f"{doing} of {self.transactional_id!r}"
            )
        except KafkaError as error:
            if error.code in fenced:
                raise FencedError(self.transactional_id, error) from error
            raise


def _partition(index: int, offset: OffsetAndEpoch) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset.offset, committed_leader_epoch=offset.epoch
    )
