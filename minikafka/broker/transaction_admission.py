"""Whether a transaction may write to partitions that this node leads: its coordinator knows (KIP-890).

A leader asks before the first record of a transaction. For a client of transaction version 2 it has the partition added
to the transaction; for an older client, which has done that itself, it only asks. So no record gets into a log whose
transaction nobody would end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from minikafka.broker.peers import UNREACHABLE, Peers
from minikafka.broker.transaction_coordinators import COMPLETION_WAIT_S, VERSION_2, TransactionCoordinators
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage
from minikafka.model import NO_NODE, ProducerIdentity, TopicPartition
from minikafka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ANSWER_TIMEOUT_S: Final = 3.0
"""Its client waits, too. A node that is paused is replaced in that time, or soon."""
CROWD_PAUSE_S: Final = 0.1
"""Before a coordinator is asked again where so many wait for the end of a transaction that the leader could not."""

Errors = dict[TopicPartition, ErrorCode]
S = TypeVar("S")


class TransactionAdmission:
    """Asks coordinators, on this node and on others."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], MetadataImage],
        coordinators: TransactionCoordinators,
        peers: Peers,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._coordinators = coordinators
        self._peers = peers
        self.failures = 0
        """Partitions that were not admitted, whatever the reason."""

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: TopicPartition,
        *,
        adds: bool,
    ) -> ErrorCode:
        """:meth:`admit_all` of one partition."""
        producer = ProducerIdentity(producer_id, producer_epoch)
        errors, _ = await self.admit_all(transactional_id, producer, (partition,), adds=adds, standing=lambda: None)
        return errors[partition]

    async def admit_all(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
        standing: Callable[[], S],
    ) -> tuple[Errors, S]:
        """NONE for each partition that is part of the producer's open transaction, or has become so (``adds``).

        TRANSACTION_ABORTABLE for one that is not. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
        COORDINATOR_LOAD_IN_PROGRESS and CONCURRENT_TRANSACTIONS: try again. INVALID_PRODUCER_EPOCH: the producer has
        another epoch now, or another producer has the transactional id.

        Also returns what ``standing()`` was just before the answer was asked for: whoever writes because of it looks
        whether that is still so. The transaction before may have ended while this waited: then it is asked again, for
        all partitions at once.
        """
        give_up_s = asyncio.get_running_loop().time() + COMPLETION_WAIT_S
        while True:
            stood = standing()
            errors = await self._ask(transactional_id, producer, partitions, adds=adds)
            is_completing = adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            is_over = asyncio.get_running_loop().time() >= give_up_s
            if is_over or not (is_completing or (adds and standing() != stood)):
                self.failures += sum(error is not ErrorCode.NONE for error in errors.values())
                return {tp: _as_told_by_leaders(error) for tp, error in errors.items()}, stood
            if is_completing:
                await asyncio.sleep(CROWD_PAUSE_S)

    async def _ask(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Errors:
        home = self._coordinators.transactions.partition_of(transactional_id)
        state = None if home is None else self._image().partition(home)
        if state is None or state.leader == NO_NODE:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if state.leader == self._node_id:
            return await self._ask_here(transactional_id, producer, partitions, adds=adds)
        request = _request(transactional_id, producer, partitions, adds=adds)
        try:
            response = await self._peers.call(
                state.leader, request, AddPartitionsToTxnResponse, timeout_s=ANSWER_TIMEOUT_S
            )
        except UNREACHABLE:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if response.error_code:
            return dict.fromkeys(partitions, ErrorCode.of(response.error_code))
        return {
            TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
            for topic in response.results_by_transaction[0].topic_results
            for partition in topic.results_by_partition
        }

    async def _ask_here(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], *, adds: bool
    ) -> Errors:
        if not adds:
            return self._coordinators.verify(transactional_id, producer, partitions)
        outcome = await self._coordinators.ask_when_complete(
            transactional_id,
            lambda coordinator, token, now_ms: coordinator.add_partitions(
                transactional_id, producer, partitions, VERSION_2, token, now_ms
            ),
        )
        return dict.fromkeys(partitions, outcome.error)


def _as_told_by_leaders(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def _request(
    transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], *, adds: bool
) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=not adds,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])
