"""AddPartitionsToTxn (key 24), versions 0-5: partitions that a transaction writes to (KIP-98, KIP-890).

Up to version 3 a client asks, for one transaction. From version 4 on leaders ask, for several: for a client of
transaction version 2 they add a partition, for an older one they only verify that it was added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.transaction_coordinators import CLASSIC, VERSION_2, TransactionCoordinators, told
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

AUTHORIZATION: Final = (
    ByHandler(
        "WRITE on the transactional id and on each topic",
        ((AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID), (AclOperation.WRITE, ResourceType.TOPIC)),
    ),
)

FIRST_OF_LEADERS: Final = 4
FIRST_WITH_ABORTABLE: Final = 5
FIRST_WITH_FENCED: Final = 2

Errors = dict[TopicPartition, ErrorCode]


async def handle(
    request: AddPartitionsToTxnRequest,
    context: RequestContext,
    coordinators: TransactionCoordinators,
    metadata: Metadata,
    authorizer: Authorizer,
) -> AddPartitionsToTxnResponse:
    """Add or verify the partitions of each transaction."""
    if context.version < FIRST_OF_LEADERS:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=await _of_client(request, context, coordinators, metadata.image, authorizer)
        )
    if not context.is_replica:
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results = await asyncio.gather(
        *(_of_leader(transaction, context, coordinators) for transaction in request.transactions)
    )
    return AddPartitionsToTxnResponse(results_by_transaction=list(results))


async def _of_client(
    request: AddPartitionsToTxnRequest,
    context: RequestContext,
    coordinators: TransactionCoordinators,
    image: MetadataImage,
    authorizer: Authorizer,
) -> list[AddPartitionsToTxnTopicResult]:
    """All partitions or none: where one does not exist, or may not be written to, the others are not tried.

    The answer begins with those that fail: librdkafka tries again, unless it reads first that another one was
    not tried. Then it aborts, and a transaction that has nothing yet cannot be aborted: that ends the producer.
    """
    partitions = _partitions(request.v3_and_below_topics)
    transactional_id = request.v3_and_below_transactional_id
    if not authorizer.permits(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _results(dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    writable = {
        name: authorizer.permits(context, AclOperation.WRITE, ResourceType.TOPIC, name)
        for name in dict.fromkeys(tp.topic for tp in partitions)
    }
    failed = {tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED for tp in partitions if not writable[tp.topic]}
    unknown = [tp for tp in partitions if tp not in failed and image.partition(tp) is None]
    failed |= dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if failed:
        not_tried = [tp for tp in partitions if tp not in failed]
        return _results(failed | dict.fromkeys(not_tried, ErrorCode.OPERATION_NOT_ATTEMPTED))
    producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    outcome = await coordinators.ask_when_complete(
        transactional_id,
        lambda coordinator, token, now_ms: coordinator.add_partitions(
            transactional_id, producer, partitions, CLASSIC, token, now_ms
        ),
    )
    return _results(dict.fromkeys(partitions, told(outcome.error, context.version, FIRST_WITH_FENCED)))


async def _of_leader(
    transaction: AddPartitionsToTxnTransaction,
    context: RequestContext,
    coordinators: TransactionCoordinators,
) -> AddPartitionsToTxnResult:
    partitions = _partitions(transaction.topics)
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    transactional_id = transaction.transactional_id
    if transaction.verify_only:
        errors = coordinators.verify(transactional_id, producer, partitions)
    else:
        outcome = await coordinators.ask_when_complete(
            transactional_id,
            lambda coordinator, token, now_ms: coordinator.add_partitions(
                transactional_id, producer, partitions, VERSION_2, token, now_ms
            ),
        )
        errors = dict.fromkeys(partitions, outcome.error)
    if context.version < FIRST_WITH_ABORTABLE:
        errors = {tp: _before_abortable(error) for tp, error in errors.items()}
    return AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=_results(errors))


def _before_abortable(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_TXN_STATE if error is ErrorCode.TRANSACTION_ABORTABLE else error


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Each once."""
    return list(dict.fromkeys(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions))


def _results(errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), error in errors.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        by_topic.setdefault(topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in by_topic.items()
    ]
