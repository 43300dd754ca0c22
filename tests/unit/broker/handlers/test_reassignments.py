"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders and UnregisterBroker on real nodes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import create_topic, eventually

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from minikafka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.wire.primitives import STRING_SIZE_MAX
from minikafka.wire.schema import Message

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

PREFERRED, UNCLEAN = 0, 1


def reassignment(topic: str, index: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])


def outcome(answer: AlterPartitionReassignmentsResponse) -> tuple[int, str | None]:
    assert answer.error_code == 0
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition.error_code, partition.error_message


def election(kind: int, *partitions: TopicPartition) -> ElectLeadersRequest:
    topics = [TopicPartitions(topic=tp.topic, partitions=[tp.partition]) for tp in partitions]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics or None)


def elected(answer: ElectLeadersResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.spec("A3", "A4")
@pytest.mark.parametrize("version", [0, 1])
async def test_a_partition_moves_to_another_broker(start_node: StartNode, join: Join, dial: Dial, version: int) -> None:
    voter = await start_node()
    other = await join(voter)
    tp = await create_topic(voter, "orders", replicas=[[1]])
    client = await dial(voter)
    await client.produce("orders", b"one")
    assert outcome(await client.ask(reassignment("orders", 0, [2]), version)) == (0, None)
    await eventually(lambda: _replicas(other, tp) == (2,), "the move")
    await eventually(lambda: voter.replicas.get(tp) is None, "node 1 to delete what it had")
    fetched = await (await dial(other)).fetch("orders")
    assert fetched.high_watermark == 1
    assert (await client.ask(ListPartitionReassignmentsRequest(topics=None))).topics == []


def _replicas(node: Node, tp: TopicPartition) -> tuple[int, ...]:
    partition = node.image.partition(tp)
    return () if partition is None or partition.is_reassigning else partition.replicas  # None: it has yet to hear of it


@pytest.mark.spec("A4")
async def test_what_is_under_way_is_listed_and_can_be_cancelled(
    start_node: StartNode, join: Join, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    voter = await start_node()
    other = await join(voter)
    tp = await create_topic(voter, "orders", replicas=[[1]])
    client = await dial(voter)
    monkeypatch.setattr(other.data_plane.fetchers, "follow", lambda partition: None)  # it never catches up
    assert outcome(await client.ask(reassignment("orders", 0, [2]))) == (0, None)
    for topics in (None, [ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 7])]):
        (listed,) = (await client.ask(ListPartitionReassignmentsRequest(topics=topics))).topics
        (partition,) = listed.partitions
        assert (listed.name, partition.partition_index, partition.replicas) == ("orders", 0, [2, 1])
        assert (partition.adding_replicas, partition.removing_replicas) == ([2], [1])
    for topics in ([], [ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=[0])]):
        assert (await client.ask(ListPartitionReassignmentsRequest(topics=topics))).topics == []
    assert outcome(await client.ask(reassignment("orders", 0, None))) == (0, None)
    assert _replicas(voter, tp) == (1,)
    code, message = outcome(await client.ask(reassignment("orders", 0, None)))
    assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert message


@pytest.mark.spec("A2")
@pytest.mark.parametrize(
    ("topic", "replicas", "error"),
    [
        ("nowhere", [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", [7], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_a_partition_that_cannot_move_says_why(
    node: Node, client: Client, topic: str, replicas: list[int], error: ErrorCode
) -> None:
    await create_topic(node, "orders")
    code, message = outcome(await client.ask(reassignment(topic, 0, replicas)))
    assert code == error
    assert message


@pytest.mark.spec("C4")
async def test_preferred_leaders_are_elected_on_request(start_node: StartNode, join: Join, dial: Dial) -> None:
    voter = await start_node(auto_leader_rebalance_enable=False)
    await join(voter)
    tp = await create_topic(voter, "orders", replicas=[[1, 2]])
    client = await dial(voter)
    await eventually(lambda: len(_isr(voter, tp)) == 2, "node 2 to be in sync")
    await client.ask(reassignment("orders", 0, [2, 1]))  # only the order: the leader stays
    for version in (0, 1, 2):
        again = elected(await client.ask(election(PREFERRED, tp), version))
        assert again == {("orders", 0): ErrorCode.NONE if version == 0 else ErrorCode.ELECTION_NOT_NEEDED}
        partition = voter.image.partition(tp)
        assert partition is not None
        assert partition.leader == 2, "the asked node shows its own change"
    assert elected(await client.ask(election(PREFERRED))) == {}
    assert elected(await client.ask(election(UNCLEAN, tp))) == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}
    nowhere = TopicPartition("nowhere", 0)
    assert elected(await client.ask(election(PREFERRED, nowhere))) == {
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def _isr(node: Node, tp: TopicPartition) -> tuple[int, ...]:
    partition = node.image.partition(tp)
    assert partition is not None
    return partition.isr


async def test_an_election_of_another_type_is_refused(client: Client) -> None:
    answer = await client.ask(election(5, TopicPartition("orders", 0)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert elected(answer) == {("orders", 0): ErrorCode.INVALID_REQUEST}


async def test_a_broker_that_is_gone_is_forgotten_and_one_that_is_alive_is_not(
    start_node: StartNode, join: Join, dial: Dial
) -> None:
    voter = await start_node()
    other = await join(voter)
    client = await dial(voter)
    assert (await client.ask(UnregisterBrokerRequest(broker_id=7))).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    alive = await client.ask(UnregisterBrokerRequest(broker_id=2))
    assert alive.error_code == ErrorCode.INVALID_REQUEST
    assert alive.error_message
    await other.stop()
    await eventually(lambda: not voter.image.is_live(2), "node 2 to be fenced")
    assert (await client.ask(UnregisterBrokerRequest(broker_id=2))).error_code == 0
    assert voter.image.broker(2) is None


@pytest.mark.spec("P6")
async def test_a_name_as_long_as_a_string_may_be_is_answered(node: Node, client: Client) -> None:
    """What an answer quotes of it was longer than a string may be."""
    name = "\0" * STRING_SIZE_MAX
    begun = await client.ask(reassignment(name, 0, [1]))
    assert begun.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert begun.responses[0].partitions[0].error_message.startswith("topic '\\x00")
    assert elected(await client.ask(election(PREFERRED, TopicPartition(name, 0)))) == {
        (name, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


async def test_without_a_controller_every_answer_says_so(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_request: Message, _response_class: type[Message], *, timeout_s: float) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody is")

    monkeypatch.setattr(node.controller, "call", refuse)
    for request in (
        reassignment("orders", 0, [1]),
        election(PREFERRED, TopicPartition("orders", 0)),
        UnregisterBrokerRequest(broker_id=2),
    ):
        assert (await client.ask(request)).error_code == ErrorCode.NOT_CONTROLLER
