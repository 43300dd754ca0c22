"""Lists that leave out what whoever asks may not see: to look at all of it takes turns, too."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from minikafka.broker.handlers import list_groups, list_transactions
from minikafka.broker.long_answers import ROWS_AT_ONCE, LongAnswers
from minikafka.coordination.phase import Phase
from minikafka.security.acls import ResourceType
from minikafka.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from minikafka.wire.messages.list_transactions import ListTransactionsRequest

SHARDS, OF_SHARD = 20, 300


class Looks:
    """An authorizer that shows nobody anything but one name, and counts its decisions of each turn."""

    def __init__(self) -> None:
        self.turns = [0]

    def sees(self, _context: Any, _operation: Any, kind: ResourceType, name: str) -> bool:
        self.turns[-1] += kind is not ResourceType.CLUSTER
        return name == "3-own"

    async def wait_for_turn(self) -> None:
        self.turns.append(0)

    def check(self) -> None:
        assert sum(self.turns) == SHARDS * OF_SHARD
        assert max(self.turns) <= ROWS_AT_ONCE


def shards(find: str, make: Any) -> list[Mock]:
    """Each with as many names as fit into one portion."""
    names = [
        [f"{shard}-{number}" if number else f"{shard}-own" for number in range(OF_SHARD)] for shard in range(SHARDS)
    ]
    return [
        Mock(coordinator=Mock(phase=Phase.ACTIVE, **{find: Mock(return_value=[make(name) for name in some])}))
        for some in names
    ]


async def test_groups() -> None:
    looks = Looks()
    context = Mock(connection=looks, version=5)
    groups: Any = shards("list_groups", lambda name: ListedGroup(group_id=name))
    await list_groups.handle(ListGroupsRequest(), context, groups, LongAnswers(), looks)  # type: ignore[arg-type]
    (_, _, listed), _ = context.send_around.call_args
    assert [b"3-own" in each for each in listed] == [True]
    looks.check()


async def test_transactional_ids() -> None:
    """A pattern is compared with those only that may be seen: what else there is, is no work, and takes no time."""
    looks, compared = Looks(), list[str]()

    async def matching(_pattern: str, found: list[Any], name_of: Any) -> list[Any]:
        compared.extend(map(name_of, found))
        return []

    request: Any = ListTransactionsRequest(transactional_id_pattern=".*")
    transactions: Any = shards("find", lambda name: Mock(transactional_id=name))
    context, patterns = Mock(connection=looks, version=2), Mock(matching=matching)
    await list_transactions.handle(request, context, transactions, LongAnswers(), patterns, looks)  # type: ignore[arg-type]
    assert compared == ["3-own"]
    looks.check()
