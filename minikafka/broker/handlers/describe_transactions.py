"""DescribeTransactions (key 65), version 0: producer, state and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler, Each
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.transactions import Transactions
from minikafka.broker.long_answers import LongAnswers
from minikafka.broker.transaction_coordinators import why_not_here
from minikafka.errors import KafkaError
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

AUTHORIZATION: Final = (
    Each("transactional_ids", AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    ByHandler("topics with DESCRIBE are told", ()),
)


async def handle(
    request: DescribeTransactionsRequest,
    context: RequestContext,
    transactions: Transactions,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> None:
    """Ask each id's coordinator, once."""
    described: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for transactional_id in dict.fromkeys(request.transactional_ids):
            state = _describe(transactional_id, transactions)
            state.topics = [
                topic
                for topic in state.topics
                if authorizer.sees(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)
            ]
            described.append(await answer.encoded(state, 1 + sum(len(topic.partitions) for topic in state.topics)))
        context.send_around(DescribeTransactionsResponse(), "transaction_states", described)


def _describe(transactional_id: str, transactions: Transactions) -> TransactionState:
    shard = transactions.shard_of(transactional_id)
    if shard is None:
        return TransactionState(transactional_id=transactional_id, error_code=why_not_here(transactional_id))
    try:
        found = shard.coordinator.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.camel_name,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )
