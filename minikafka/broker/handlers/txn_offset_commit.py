"""TxnOffsetCommit (key 28), versions 0-6: offsets of a group in a producer's transaction, visible once it commits.

The transaction's coordinator is asked first: whether it has the group's partition of the offsets topic (unless
``transaction.partition.verification.enable`` is off), or, from version 5 on (KIP-890), to add it. Until it answers, the
group's shard may have moved, or the transaction may have ended; both are looked at again before anything is written.
Topics and partitions are treated as in OffsetCommit; from version 6 on a topic is named by its id.
"""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.broker.authorization import Each, Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.committed_topics import Refused, add_refusals, take_unknown
from minikafka.broker.handlers.groups import Coordinators, why_not_here
from minikafka.broker.handlers.verification import is_verified
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.config import BrokerConfig
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.answers import commit_error, txn_commit_answer
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

AUTHORIZATION: Final = (
    Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),
    Each("topics", AclOperation.READ, ResourceType.TOPIC),
)

FIRST_VERSION_WITH_IDS: Final = 6
FIRST_VERSION_THAT_ADDS: Final = 5
FIRST_VERSION_WITH_TRANSACTION_ABORTABLE: Final = 4
FIRST_VERSION_THAT_KNOWS_LOADING: Final = 2
ASKED_AT_MOST: Final = 5
"""So often a coordinator is asked again because a marker came meanwhile."""


async def handle(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    coordinators: Coordinators,
    metadata: Metadata,
    admission: TransactionAdmission,
    config: BrokerConfig,
) -> TxnOffsetCommitResponse:
    """Have the transaction's coordinator agree; then the group's coordinator answers."""
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    unknown = [_refusal(each) for each in take_unknown(request, metadata.image, by_id=by_id)]
    must_ask = context.version >= FIRST_VERSION_THAT_ADDS or is_verified(config, metadata)
    response = await _commit(request, context.version, coordinators, admission if must_ask else None)
    add_refusals(response.topics, unknown)
    if context.version < FIRST_VERSION_THAT_KNOWS_LOADING:
        _hide_loading(response)
    return response


async def _commit(
    request: TxnOffsetCommitRequest, version: int, coordinators: Coordinators, admission: TransactionAdmission | None
) -> TxnOffsetCommitResponse:
    if not request.topics:
        return TxnOffsetCommitResponse()
    groups = coordinators.groups
    shard = groups.shard_of(request.group_id)
    error = _not_served(groups, request.group_id)
    if not error and admission is not None:
        error = await _admit(request, version, groups, admission)
        if not error and groups.shard_of(request.group_id) is not shard:
            error = ErrorCode.NOT_COORDINATOR
    if error:
        return txn_commit_answer(request, error)
    answer: asyncio.Future[TxnOffsetCommitResponse] = asyncio.get_running_loop().create_future()

    def respond(response: TxnOffsetCommitResponse) -> None:
        if not answer.done():  # nobody waits any more when the connection is gone
            answer.set_result(response)

    assert shard is not None
    now_ms = coordinators.clock.monotonic_ms()
    shard.step(shard.coordinator.txn_offset_commit(request, version, respond, now_ms))
    return await answer


def _not_served(groups: Groups, group_id: str) -> ErrorCode:
    shard = groups.shard_of(group_id)
    if shard is None or not group_id:
        return why_not_here(group_id)
    return ErrorCode.NONE if shard.coordinator.phase is Phase.ACTIVE else shard.coordinator.phase.value


async def _admit(
    request: TxnOffsetCommitRequest, version: int, groups: Groups, admission: TransactionAdmission
) -> ErrorCode:
    error = commit_error(await _admitted(request, version, groups, admission))
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_TRANSACTION_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error is ErrorCode.NETWORK_EXCEPTION else error


async def _admitted(
    request: TxnOffsetCommitRequest, version: int, groups: Groups, admission: TransactionAdmission
) -> ErrorCode:
    """Ask, and ask again when a transaction of the producer ended meanwhile: it may have been this one."""
    partition = groups.partition_of(request.group_id)
    assert partition is not None, "a shard is led"
    adds = version >= FIRST_VERSION_THAT_ADDS
    for _ in range(ASKED_AT_MOST):
        ends = groups.last_end_of(partition, request.producer_id)
        error = await admission.admit(
            request.transactional_id, request.producer_id, request.producer_epoch, partition, adds=adds
        )
        if error or groups.last_end_of(partition, request.producer_id) == ends:
            return error
    return ErrorCode.INVALID_TXN_STATE


def _hide_loading(response: TxnOffsetCommitResponse) -> None:
    """Producers before Kafka 2.0 could die of it (KAFKA-7296)."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE


def _refusal(refused: Refused) -> TxnOffsetCommitResponseTopic:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=index, error_code=refused.error)
        for index in refused.partitions
    ]
    return TxnOffsetCommitResponseTopic(name=refused.name, topic_id=refused.topic_id, partitions=partitions)
