"""What a leader asks a transaction's coordinator before the first records of the transaction (KIP-890).

A client that speaks Produce 12 or later has transaction version 2: the partition is added to its transaction by this.
An older one has added it by AddPartitionsToTxn, and the leader asks whether that is so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.replicas import Replicas
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.effective import broker_config
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.wire.schema import Buffer

FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Verified = dict[TopicPartition, int | KafkaError]
"""For each partition that was asked about ``verified_at`` of ``Replicas.stage_produced``, or what is wrong."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Asks for the batches of a Produce."""

    replicas: Replicas
    admission: TransactionAdmission
    config: BrokerConfig
    metadata: Metadata

    async def verify(
        self, transactional_id: str, batches: Iterable[tuple[TopicPartition, Buffer | None]], version: int
    ) -> Verified:
        """Of the batches of a request of that version, those that begin a transaction in their partition."""
        adds = version >= FIRST_VERSION_THAT_ADDS
        asked: defaultdict[ProducerIdentity, list[TopicPartition]] = defaultdict(list)
        for tp, records in batches:
            producer = self.replicas.unverified(tp, records, adds=adds)
            if producer is not None:
                asked[producer].append(tp)
        if len(asked) > 1:  # one request has one transaction, and each question takes its time
            refusal = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "several producers in one transactional request"
            )
            return {tp: refusal for partitions in asked.values() for tp in partitions}
        verified: Verified = {}
        for producer, partitions in asked.items():
            errors, ends = await self._ask(transactional_id, producer, partitions, adds=adds)
            verified |= ends
            verified |= {tp: _refusal(error, version) for tp, error in errors.items() if error is not ErrorCode.NONE}
        return verified

    async def _ask(
        self, transactional_id: str, producer: ProducerIdentity, partitions: list[TopicPartition], *, adds: bool
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, int]]:
        def ends() -> dict[TopicPartition, int]:
            return {tp: self.replicas.last_end_of(tp, producer.producer_id) for tp in partitions}

        if not adds and not is_verified(self.config, self.metadata):
            return {}, ends()
        return await self.admission.admit_all(transactional_id, producer, partitions, adds=adds, standing=ends)


def is_verified(config: BrokerConfig, metadata: Metadata) -> bool:
    """Whether leaders ask for clients that have added the partition themselves."""
    return broker_config(metadata.image, config).transaction_partition_verification_enable


def _refusal(error: ErrorCode, version: int) -> KafkaError:
    """As producers of that version understand it.

    Old ones do not try again after errors of coordinators. NOT_ENOUGH_REPLICAS makes all try again, and none looks for
    another leader.
    """
    if error in _TRY_AGAIN or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS):
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction's coordinator says {error.name}; try again")
    if error is ErrorCode.INVALID_PRODUCER_EPOCH:
        return KafkaError(error, "the transaction is over, or another producer has the transactional id now")
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")
    return KafkaError(error, f"the transaction's coordinator says {error.name}")
