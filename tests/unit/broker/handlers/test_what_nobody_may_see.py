"""Lists that leave out what whoever asks may not see: to look at all of it takes turns, too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from minikafka.broker.handlers import (
    describe_topic_partitions,
    list_config_resources,
    list_groups,
    list_partition_reassignments,
    list_transactions,
    metadata,
)
from minikafka.broker.long_answers import ROWS_AT_ONCE, LongAnswers
from minikafka.broker.topic_encodings import TopicEncodings
from minikafka.coordination.phase import Phase
from minikafka.metadata.image import ConfigResource, MetadataImage, TopicImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import ZERO_TOPIC_ID
from minikafka.security.acls import ResourceType
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from minikafka.wire.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from minikafka.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.wire.messages.list_transactions import ListTransactionsRequest
from minikafka.wire.messages.metadata import MetadataRequest

SHARDS, OF_SHARD = 20, 300


class Looks:
    """An authorizer that shows nobody anything but one name, or all, and counts its decisions of each turn."""

    def __init__(self, of_all: bool = False) -> None:
        self.turns = [0]
        self._of_all = of_all

    def sees(self, _context: Any, _operation: Any, kind: ResourceType, name: str) -> bool:
        self.turns[-1] += kind is not ResourceType.CLUSTER
        return self._of_all or name == "3-own"

    permits = sees

    def operations_on_cluster(self, _context: Any) -> int:
        return 0

    def operations(self, context: Any, kind: ResourceType, name: str) -> int:
        """As many decisions."""
        return sum(self.sees(context, None, kind, name) for _ in range(metadata.OPERATIONS_ROWS))

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


async def none_of_groups(context: Any, answers: LongAnswers, shards: Any, looks: Any) -> None:
    request = ListGroupsRequest(states_filter=["Dead"])
    await list_groups.handle(request, context, shards, answers, looks)


async def none_of_transactions(context: Any, answers: LongAnswers, shards: Any, looks: Any) -> None:
    request = ListTransactionsRequest(duration_filter=1)
    await list_transactions.handle(request, context, shards, answers, Mock(), looks)


@pytest.mark.parametrize("ask", [none_of_groups, none_of_transactions])
async def test_what_nobody_asked_for_takes_turns_too(ask: Any) -> None:
    """100 requests of 30 bytes for groups in a state that none is in, beside 5,000 groups, took a turn of 0.8 s."""
    looked_at, of_turns = 0, [0]

    def look(*_filters: Any) -> Iterator[None]:
        nonlocal looked_at
        for _ in range(OF_SHARD):
            looked_at += 1
            yield None

    async def wait_for_turn() -> None:
        of_turns.append(looked_at)

    connection, answers = Mock(wait_for_turn=wait_for_turn), LongAnswers()
    shards = [Mock(coordinator=Mock(phase=Phase.ACTIVE, list_groups=look, find=look))] * SHARDS
    contexts = [Mock(connection=connection, version=5) for _ in range(3)]
    await asyncio.gather(*(ask(context, answers, shards, Looks()) for context in contexts))
    assert looked_at == 3 * SHARDS * OF_SHARD
    assert max(after - before for before, after in pairwise([*of_turns, looked_at])) <= ROWS_AT_ONCE + 1


IMAGE = MetadataImage(
    topics_by_name={name: TopicImage(name, ZERO_TOPIC_ID, {}) for name in map("{}-own".format, range(1200))}
)


async def all_metadata(context: Any, answers: LongAnswers, looks: Any) -> None:
    absences = Mock(wait_until_decided=AsyncMock(), listed=Mock(return_value=[]))
    parts = Mock(metadata=Mock(image=IMAGE), long_answers=answers, authorizer=looks, absences=absences)
    parts.encodings = TopicEncodings()
    await metadata.handle(MetadataRequest(topics=None, include_topic_authorized_operations=True), context, parts)


async def all_partitions(context: Any, answers: LongAnswers, looks: Any) -> None:
    request = DescribeTopicPartitionsRequest(response_partition_limit=2000)
    await describe_topic_partitions.handle(request, context, Mock(image=IMAGE), looks, answers)


@pytest.mark.parametrize("describe", [all_metadata, all_partitions])
@pytest.mark.parametrize(("of_all", "told"), [(False, 1), (True, 1200)])
async def test_topics(describe: Any, of_all: bool, told: int) -> None:
    """Of requests that come together, each would have a portion in the same turn."""
    looks = Looks(of_all)
    contexts = [Mock(connection=looks, version=12 * (describe is all_metadata)) for _ in range(3)]
    answers = LongAnswers()
    await asyncio.gather(*(describe(context, answers, looks) for context in contexts))
    assert [len(context.send_around.call_args.args[2]) for context in contexts] == [told] * 3
    assert max(looks.turns) <= ROWS_AT_ONCE + 10, "decisions of one topic come together"


SETTLED = MetadataImage(
    topics_by_name={f"t{number}": TopicImage(f"t{number}", ZERO_TOPIC_ID, {}) for number in range(3 * ROWS_AT_ONCE)},
    configs={
        ConfigResource(ConfigResourceType.TOPIC, f"t{number}"): {"retention.ms": "5"}
        for number in range(list_config_resources.LOOKS_OF_A_ROW * ROWS_AT_ONCE)
    },
)


async def no_reassignments(context: Any, answers: LongAnswers) -> None:
    request = ListPartitionReassignmentsRequest(topics=None)
    await list_partition_reassignments.handle(request, context, Mock(image=SETTLED), answers)


async def no_groups_with_settings(context: Any, answers: LongAnswers) -> None:
    request = ListConfigResourcesRequest(resource_types=[ConfigResourceType.GROUP])
    await list_config_resources.handle(request, context, Mock(image=SETTLED), answers)


@pytest.mark.parametrize("ask", [no_reassignments, no_groups_with_settings])
async def test_a_look_that_finds_nothing_takes_turns(ask: Any) -> None:
    """Beside 5,000 topics each look at all reassignments took 30 ms, and a turn had 113 of them."""
    turns = AsyncMock()
    context = Mock(connection=Mock(wait_for_turn=turns), version=1)
    await ask(context, LongAnswers())
    assert turns.await_count
    assert context.send_around.call_args.args[2] == []
