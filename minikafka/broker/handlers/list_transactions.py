"""ListTransactions (key 66), versions 0-2: the ids that this node coordinates; clients ask every broker (KIP-664).

Version 2 selects by a regular expression of the client, which has bounds (docs/decisions/0024).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.transactions import Transactions
from minikafka.broker.long_answers import LongAnswers
from minikafka.broker.patterns import Patterns
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode, KafkaError
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.transactions.transaction import Transaction
from minikafka.transactions.transaction import TransactionState as State
from minikafka.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

AUTHORIZATION: Final = (ByHandler("transactional ids with DESCRIBE are listed", ()),)

_STATES = {state.camel_name: state for state in State}


async def handle(
    request: ListTransactionsRequest,
    context: RequestContext,
    transactions: Transactions,
    long_answers: LongAnswers,
    patterns: Patterns,
    authorizer: Authorizer,
) -> ListTransactionsResponse | None:
    """All shards' ids; an error when one of them is still loading, because its ids would be missing."""
    wanted = dict.fromkeys(request.state_filters)
    states = {_STATES[name] for name in wanted if name in _STATES}
    head = ListTransactionsResponse(unknown_state_filters=[name for name in wanted if name not in _STATES])
    producer_ids = frozenset(request.producer_id_filters)
    found: list[Transaction] = []
    # Before the pattern: what nobody may see is no work for it, and its time tells nothing of that.
    sees = partial(authorizer.sees, context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    async with long_answers.prepare(context) as looks:
        for shard in transactions if states or not wanted else ():
            if shard.coordinator.phase is Phase.LOADING:
                return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            for each in shard.coordinator.find(producer_ids, states, request.duration_filter):
                await looks.add(1)  # most of them may be none that whoever asks wants, or may see
                if each is not None and sees(each.transactional_id):
                    found.append(each)
    if request.transactional_id_pattern:
        try:
            found = await patterns.matching(request.transactional_id_pattern, found, lambda each: each.transactional_id)
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
    listed: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for each in found:
            row = TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.camel_name,
            )
            listed.append(await answer.encoded(row, 1))
        context.send_around(head, "transaction_states", listed)
    return None
