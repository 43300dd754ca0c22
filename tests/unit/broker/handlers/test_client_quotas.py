"""Quotas of clients: who has which, what they slow down, and that nobody else notices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest
from broker_client import Client, batch, produce_request
from broker_node import create_topic, eventually

from minikafka.broker.context import RequestContext
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.metadata.client_quotas import quota_of
from minikafka.metadata.controller import client_quotas as controller_quotas
from minikafka.metadata.records import QuotaPart
from minikafka.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from minikafka.wire.messages.describe_cluster import DescribeClusterRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Dial = Callable[..., Awaitable[Client]]
Join = Callable[[Node], Awaitable[Node]]

Parts = dict[str, str | None]
EXACT, DEFAULT, SPECIFIED = range(3)


async def named(dial: Dial, node: Node, client_id: str) -> Client:
    client = await dial(node)
    client.client_id = client_id
    return client


def entry(parts: Parts, **values: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in parts.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


async def alter(client: Client, *entries: EntryData, validate_only: bool = False) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = await client.ask(request, 1)
    return [(each.error_code, each.error_message) for each in answer.entries]


async def described(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = await client.ask(DescribeClientQuotasRequest(components=wanted, strict=strict), 1)
    if answer.error_code:
        return answer.error_code
    return [
        ({part.entity_type: part.entity_name for part in each.entity}, {one.key: one.value for one in each.values})
        for each in answer.entries
    ]


async def test_quotas_are_set_found_and_removed(node: Node, client: Client) -> None:
    some = [
        entry({"client_id": "a"}, producer_byte_rate=100, consumer_byte_rate=200),
        entry({"client_id": None}, request_percentage=12.5),
        entry({"user": "u", "client_id": "a"}, controller_mutation_rate=0.5),
    ]
    assert await alter(client, *some, validate_only=True) == [(0, None)] * 3
    assert await described(client) == []
    assert await alter(client, *some) == [(0, None)] * 3
    of_a = ({"client-id": "a"}, {"consumer_byte_rate": 200.0, "producer_byte_rate": 100.0})
    of_any = ({"client-id": None}, {"request_percentage": 12.5})
    of_both = ({"client-id": "a", "user": "u"}, {"controller_mutation_rate": 0.5})
    assert sorted(await described(client), key=str) == sorted([of_a, of_any, of_both], key=str)
    assert sorted(await described(client, ("client-id", EXACT, "a")), key=str) == sorted([of_a, of_both], key=str)
    assert await described(client, ("client-id", EXACT, "a"), strict=True) == [of_a]
    assert await described(client, ("client-id", DEFAULT, None)) == [of_any]
    assert len(await described(client, ("client-id", SPECIFIED, None), strict=True)) == 2
    assert await described(client, ("user", SPECIFIED, None)) == [of_both]
    assert await described(client, ("ip", SPECIFIED, None)) == []
    assert await alter(client, entry({"client_id": "a"}, producer_byte_rate=None)) == [(0, None)]
    assert await described(client, ("client-id", EXACT, "a"), strict=True) == [(of_a[0], {"consumer_byte_rate": 200.0})]
    assert await alter(client, entry({"client_id": "a"}, consumer_byte_rate=None)) == [(0, None)]
    assert await described(client, ("client-id", EXACT, "a"), strict=True) == []


WRONG = {
    "no entity": (entry({}, producer_byte_rate=1), "none is named"),
    "unknown type": (entry({"group": "g"}, producer_byte_rate=1), "entity type 'group' is unknown"),
    "ip": (entry({"ip": "127.0.0.1"}, connection_creation_rate=1), "quotas of ip addresses are not there"),
    "no name": (entry({"client_id": ""}, producer_byte_rate=1), "has 1 to 1000 characters"),
    "unknown quota": (entry({"client_id": "a"}, bytes=1), "quota 'bytes' is unknown"),
    "nothing": (entry({"client_id": "a"}, producer_byte_rate=0), "producer_byte_rate = 0: must be more than 0"),
    "not a number": (entry({"client_id": "a"}, request_percentage=float("nan")), "must be more than 0"),
    "half a byte": (entry({"client_id": "a"}, consumer_byte_rate=0.5), "must be a whole number"),
}


@pytest.mark.parametrize("which", WRONG)
async def test_a_wrong_quota_changes_nothing(node: Node, client: Client, which: str) -> None:
    wrong, problem = WRONG[which]
    ((code, message),) = await alter(client, wrong)
    assert code in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)
    assert message is not None
    assert problem in message
    twice = entry({"client_id": "a"}, producer_byte_rate=1)
    assert [code for code, _ in await alter(client, twice, twice)] == [ErrorCode.INVALID_REQUEST] * 2
    assert await described(client) == []


async def test_a_wrong_filter_is_refused(client: Client) -> None:
    assert await described(client, ("group", SPECIFIED, None)) == ErrorCode.UNSUPPORTED_VERSION
    assert await described(client, ("user", SPECIFIED, None), ("user", DEFAULT, None)) == ErrorCode.INVALID_REQUEST
    assert await described(client, ("user", EXACT, None)) == ErrorCode.INVALID_REQUEST
    assert await described(client, ("user", 7, None)) == ErrorCode.INVALID_REQUEST


def test_the_most_particular_quota_holds() -> None:
    user, anybody = QuotaPart("user", "u"), QuotaPart("user", None)
    name, any_name = QuotaPart("client-id", "c"), QuotaPart("client-id", None)
    order = [
        ((name, user), ("u", "c")),
        ((any_name, user), ("u", "c")),
        ((user,), ("u", "")),
        ((name, anybody), ("u", "c")),
        ((any_name, anybody), ("u", "c")),
        ((anybody,), ("u", "")),
        ((name,), ("", "c")),
        ((any_name,), ("", "c")),
    ]
    quotas = {entity: {"key": float(at)} for at, (entity, _) in enumerate(order)}
    for at, (entity, shared_by) in enumerate(order):
        assert quota_of(quotas, "key", "u", "c") == (float(at), shared_by)
        assert quota_of(quotas, "other", "u", "c") is None
        del quotas[entity]
    assert quota_of(quotas, "key", "u", "c") is None


def test_a_client_id_counts_up_to_its_bound() -> None:
    context = RequestContext(Mock(user="alice"), Mock(), 0, 0, 0, "x" * 32_767)
    assert context.client == ("alice", "x" * 1_000)


async def test_a_producer_is_told_to_wait_and_muted(node: Node, dial: Dial, client: Client) -> None:
    await create_topic(node, "orders")
    flooding = await named(dial, node, "flood")
    assert await alter(client, entry({"client_id": "flood"}, producer_byte_rate=20_000)) == [(0, None)]
    answer = await flooding.ask(produce_request("orders", batch(b"x" * 60_000)))
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert 1_500 < answer.throttle_time_ms <= 3_100
    later = flooding.send(produce_request("orders", batch(b"y")))
    assert (await client.produce("orders", b"of another")).base_offset == 1
    assert not later.done()
    assert await alter(client, entry({"client_id": "flood"}, producer_byte_rate=None)) == [(0, None)]
    assert (await later).responses[0].partition_responses[0].base_offset == 2, "it was muted, and not forgotten"


async def test_a_consumer_is_told_to_wait(node: Node, dial: Dial, client: Client) -> None:
    await create_topic(node, "orders")
    await client.produce("orders", b"x" * 30_000)
    assert await alter(client, entry({"client_id": None}, consumer_byte_rate=20_000)) == [(0, None)]
    reading = await named(dial, node, "reader")
    answer = await reading.send_fetch("orders", 0)
    assert 400 < answer.throttle_time_ms <= 1_600
    assert len(answer.responses[0].partitions[0].records) > 30_000


async def test_an_answer_is_no_larger_than_a_quota_has_in_ten_windows(node: Node, dial: Dial, client: Client) -> None:
    await create_topic(node, "orders")
    for _ in range(5):
        await client.produce("orders", b"x" * 8_000)
    reading = await named(dial, node, "reader")
    whole = await reading.send_fetch("orders", 0)
    assert len(whole.responses[0].partitions[0].records) > 40_000
    assert await alter(client, entry({"client_id": "reader"}, consumer_byte_rate=2_000)) == [(0, None)]
    answer = await reading.send_fetch("orders", 0)
    assert 16_000 < len(answer.responses[0].partitions[0].records) <= 20_000
    assert answer.throttle_time_ms <= 10_000
    assert await alter(client, entry({"client_id": "reader"}, consumer_byte_rate=10)) == [(0, None)]
    answer = await (await named(dial, node, "reader")).send_fetch("orders", 0)
    assert len(answer.responses[0].partitions[0].records) > 8_000, "a batch that is larger goes alone"


async def test_a_quota_beyond_all_that_there_is(node: Node, dial: Dial, client: Client) -> None:
    """Ten windows of it are no number: whoever had it read nothing, and what its fetch was to wake, slept on."""
    await create_topic(node, "orders")
    await client.produce("orders", b"x")
    assert await alter(client, entry({"client_id": None}, consumer_byte_rate=1.7e308)) == [(0, None)]
    answer = await (await named(dial, node, "reader")).send_fetch("orders", 0)
    assert answer.responses[0].partitions[0].records
    assert answer.throttle_time_ms == 0


async def test_time_of_requests_is_bounded(node: Node, dial: Dial, client: Client) -> None:
    busy = await named(dial, node, "busy")
    assert await alter(client, entry({"client_id": "busy"}, request_percentage=0.001)) == [(0, None)]
    told = [(await busy.ask(DescribeClusterRequest())).throttle_time_ms for _ in range(3)]
    assert told[0] == 0
    assert max(told) > 0, "each request took more than ten microseconds"
    assert (await client.ask(DescribeClusterRequest())).throttle_time_ms == 0


async def test_changes_of_partitions_are_bounded(node: Node, dial: Dial, client: Client) -> None:
    eager = await named(dial, node, "eager")
    assert await alter(client, entry({"client_id": "eager"}, controller_mutation_rate=2)) == [(0, None)]
    topics = [CreatableTopic(name=name, num_partitions=20, replication_factor=1) for name in "abc"]
    answer = await eager.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 6)
    codes = {each.name: each.error_code for each in answer.topics}
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert codes == {"a": 0, "b": refused, "c": refused}
    assert answer.throttle_time_ms > 0
    assert node.image.topic("b") is None
    eager = await named(dial, node, "eager")  # the first connection is muted
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=22, assignments=None)], timeout_ms=5000
    )
    answer = await eager.ask(more, 3)
    assert [each.error_code for each in answer.results] == [refused]
    eager = await named(dial, node, "eager")
    answer = await eager.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=5000), 6)
    assert [each.error_code for each in answer.responses] == [refused]
    eager = await named(dial, node, "eager")
    answer = await eager.ask(CreateTopicsRequest(topics=topics[1:], timeout_ms=5000), 5)
    assert [each.error_code for each in answer.topics] == [0, 0], "an old client does not know the error"
    assert answer.throttle_time_ms > 0
    assert (await client.ask(CreateTopicsRequest(topics=[CreatableTopic(name="d", num_partitions=1)]), 6)).topics


async def test_changes_of_partitions_are_counted_by_the_controller(node: Node, dial: Dial, join: Join) -> None:
    other = await join(node)
    eager = await named(dial, other, "eager")
    assert await alter(eager, entry({"client_id": "eager"}, controller_mutation_rate=0.1)) == [(0, None)]
    await eventually(lambda: node.image.client_quotas, "the controller to know the quota")
    first = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=20, replication_factor=1)])
    answer = await eager.ask(first, 7)
    assert [each.error_code for each in answer.topics] == [0]
    assert answer.throttle_time_ms == 0, "it waits with its next change"
    beyond = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=5000)
    for asked in (node, other):
        answer = await (await named(dial, asked, "eager")).ask(beyond, 6)
        assert [each.error_code for each in answer.responses] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert 100_000 < answer.throttle_time_ms <= 200_000
    assert [each.error_code for each in (await (await dial(other)).ask(beyond, 6)).responses] == [0], "another client"


async def test_topics_that_are_created_on_first_use_are_counted(node: Node, dial: Dial) -> None:
    eager = await named(dial, node, "eager")
    assert await alter(eager, entry({"client_id": "eager"}, controller_mutation_rate=0.1)) == [(0, None)]
    told = []
    for name in "abc":
        answer = await eager.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
        told += [topic.error_code for topic in answer.topics]
    assert told == [0, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE]
    assert [topic.name for topic in node.image.topics()] == ["a"]


async def test_quotas_of_many_clients_are_set_in_portions(node: Node, client: Client) -> None:
    many = [entry({"client_id": f"c{number}"}, producer_byte_rate=1000) for number in range(1_100)]
    twice = entry({"client_id": "c7"}, consumer_byte_rate=1000)
    codes = [code for code, _ in await alter(client, *many, twice)]
    assert sorted(codes) == [0] * 1_099 + [ErrorCode.INVALID_REQUEST] * 2, "who is named twice is so in every portion"
    assert len(await described(client)) == 1_099


async def test_quotas_are_for_so_many_clients_and_no_more(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_quotas, "ENTITIES_MAX", 2)
    some = [entry({"client_id": name}, producer_byte_rate=1000) for name in "abc"]
    assert [code for code, _ in await alter(client, *some)] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert await alter(client, entry({"client_id": "a"}, consumer_byte_rate=5)) == [(0, None)], "it has some already"
    assert await alter(client, entry({"client_id": "a"}, producer_byte_rate=None, consumer_byte_rate=None)) == [
        (0, None)
    ]
    assert await alter(client, some[2]) == [(0, None)]
