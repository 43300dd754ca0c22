"""A follower's session on a real node: what is not looked at any more is looked at again when something happens."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest
from broker_client import Client, batch, fetch_request, values_in
from broker_node import CLUSTER_ID, SECRET, create_topic, eventually, in_time, led, listener_of, turns
from broker_replicas import told
from handlers.test_delete_records import deletion

from minikafka.broker.handlers import fetching
from minikafka.broker.handlers.fetching import Fetch
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import UNASSIGNED_DIRECTORY, TopicPartition
from minikafka.net.identity import Identity
from minikafka.net.peer import PeerConnection
from minikafka.replication.replica_facts import CommittedPartition
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState

Dial = Callable[[Node], Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)
LONG_MS = 20_000
EPOCH = 3


@pytest.fixture
async def topic_id(node: Node, client: Client) -> UUID:
    """Topic orders with two partitions, led here in epoch 3 with follower 2 in the ISR, and one record in the first."""
    await create_topic(node, "orders", partitions=2)
    await client.produce("orders", b"a")
    for partition in node.replicas:
        told(partition, 1, EPOCH, replicas=(1, 2), isr=(1, 2))
        partition.log.begin_epoch(EPOCH)
    topic = node.image.topic("orders")
    assert topic is not None
    return topic.topic_id


class Follower:
    """Node 2, by its requests. It has all records."""

    def __init__(self, peer: PeerConnection, topic_id: UUID) -> None:
        self._peer = peer
        self._topic_id = topic_id
        self._session_id = self._epoch = 0

    def restart(self) -> None:
        """Let the next fetch open a session."""
        self._session_id = self._epoch = 0

    async def fetch(self, *at: int, wait_ms: int = 0, min_bytes: int = 1) -> FetchResponse:
        """Name the partitions' log ends, in order, or none; wait for that many bytes."""
        asked = [
            FetchPartition(partition=index, fetch_offset=end, current_leader_epoch=EPOCH, partition_max_bytes=1 << 20)
            for index, end in enumerate(at)
        ]
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=2, replica_epoch=5),
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=asked)] if asked else [],
        )
        answer = await self._peer.call(request, FetchResponse, timeout_s=4 * LONG_MS / 1000)
        self._session_id, self._epoch = answer.session_id, self._epoch + 1
        return answer


@pytest.fixture
async def follower(node: Node, topic_id: UUID) -> AsyncIterator[Follower]:
    """Its session has both partitions, and neither has news for it."""
    nonces = itertools.count(1)
    who = Identity(CLUSTER_ID, 2, SECRET, lambda: next(nonces).to_bytes(32))
    peer = await PeerConnection.open(listener_of(node, "REPLICATION").endpoint, who, 1)
    opened = Follower(peer, topic_id)
    await opened.fetch(1, 0)
    assert not (await opened.fetch()).responses
    assert settled(node) == 2
    yield opened
    peer.close()


def settled(node: Node) -> int:
    return sum(len(node.replicas.waiting.followers.settled(TopicPartition("orders", index))) for index in range(2))


async def parked(node: Node, follower: Follower, min_bytes: int = 1) -> asyncio.Task[FetchResponse]:
    waiting = asyncio.create_task(follower.fetch(wait_ms=LONG_MS, min_bytes=min_bytes))
    await eventually(lambda: node.replicas.waiting.follower_fetches.delayed == 1, "the fetch to be parked")
    assert node.replicas.waiting.follower_fetches.watched == 1, "not one entry for each partition"
    return waiting


@pytest.mark.spec("R6")
@pytest.mark.spec("D5")
async def test_records_wake_a_fetch_that_looks_at_nothing(node: Node, client: Client, follower: Follower) -> None:
    waiting = await parked(node, follower)
    await client.produce("orders", b"b", acks=1)
    (topic,) = (await in_time(waiting)).responses
    (data,) = topic.partitions
    assert (data.partition_index, values_in(data.records)) == (0, [b"b"])
    assert settled(node) == 1


@pytest.mark.spec("D5")
async def test_bytes_of_settled_partitions_count_together(node: Node, client: Client, follower: Follower) -> None:
    size = len(batch(b"b"))
    waiting = await parked(node, follower, 3 * size)
    for partition in (0, 1):
        await client.produce("orders", b"b", partition=partition, acks=1)
        await turns()
        assert not waiting.done()
    await client.produce("orders", b"b", acks=1)
    (topic,) = (await in_time(waiting)).responses
    assert sorted(len(values_in(data.records)) for data in topic.partitions) == [1, 2]


@pytest.mark.spec("D5")
async def test_records_that_come_before_it_waits_are_not_missed(
    node: Node, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch of many partitions is looked at in portions, and others have their turns in between."""
    go_on = Fetch._go_on_warm

    def and_records_come(self: Fetch, then: Callable[[], None]) -> None:
        monkeypatch.undo()
        node.replicas.stage_produced(ORDERS, bytearray(batch(b"b")), 1, 9)
        node.replicas.commit_staged()
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, go_on, self, then)  # after those that wait were woken

    monkeypatch.setattr(Fetch, "_go_on_warm", and_records_come)
    monkeypatch.setattr(fetching, "PARTITIONS_AT_ONCE", -1)
    (topic,) = (await in_time(follower.fetch(wait_ms=3 * LONG_MS))).responses
    assert [values_in(data.records) for data in topic.partitions] == [[b"b"]]


@pytest.mark.spec("R14")
async def test_a_leader_that_moves_wakes_it(node: Node, follower: Follower) -> None:
    waiting = await parked(node, follower)
    node.replicas.carry_out(
        led(node, ORDERS),
        led(node, ORDERS).replica.on_metadata(
            CommittedPartition(2, EPOCH + 1, 1, (1, 2), (1, 2), (), UNASSIGNED_DIRECTORY), 0
        ),
    )
    (topic,) = (await in_time(waiting)).responses
    assert [data.error_code for data in topic.partitions] == [ErrorCode.FENCED_LEADER_EPOCH]


@pytest.mark.spec("R11")
async def test_a_new_log_start_is_told(node: Node, client: Client, follower: Follower) -> None:
    deleting = client.send(deletion(("orders", 0, 1)), 2)
    await eventually(lambda: led(node, ORDERS).log.log_start_offset == 1, "the records to be deleted")
    (topic,) = (await follower.fetch()).responses
    assert [data.log_start_offset for data in topic.partitions] == [1]
    deleting.cancel()


@pytest.mark.spec("R18")
async def test_who_left_the_isr_is_looked_at_with_each_fetch(node: Node, follower: Follower) -> None:
    committed = CommittedPartition(1, EPOCH, 1, (1, 2), (1,), (), UNASSIGNED_DIRECTORY)
    node.data_plane.driver.on_metadata(led(node, ORDERS), committed)
    assert settled(node) == 1
    for _ in range(2):
        await follower.fetch()
        assert settled(node) == 1


@pytest.mark.spec("D5")
async def test_who_fetches_without_a_session_waits_for_its_partitions(
    node: Node, client: Client, topic_id: UUID, follower: Follower
) -> None:
    request = fetch_request(
        "orders", 1, topic_id=topic_id, session_epoch=-1, max_wait_ms=LONG_MS, min_bytes=1, current_leader_epoch=EPOCH
    )
    request.replica_state = ReplicaState(replica_id=2, replica_epoch=5)
    waiting = asyncio.create_task(follower._peer.call(request, FetchResponse, timeout_s=LONG_MS / 1000))
    await eventually(lambda: node.replicas.waiting.follower_fetches.delayed == 1, "the fetch to be parked")
    await client.produce("orders", b"b", acks=1)
    (topic,) = (await in_time(waiting)).responses
    assert [values_in(data.records) for data in topic.partitions] == [[b"b"]]


@pytest.mark.spec("P5")
async def test_whoever_opens_sessions_again_and_again_is_not_taken_for_one_that_cannot_append(
    node: Node, client: Client, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a thousand replicas come to be followed one after the other, fetches are taken back for the next one: the
    leader's operator was told to look at the follower's disk, memory and network."""
    verified: list[int] = []
    monkeypatch.setattr(led(node, ORDERS).log, "prepare_verification", lambda offset, size: verified.append(offset))
    for _ in range(4):
        follower.restart()
        assert (await follower.fetch(0, 0)).responses[0].partitions[0].records
    assert not verified
    for _ in range(3):
        assert (await follower.fetch(0, 0)).responses[0].partitions[0].records
    assert verified == [0], "within a session it asked for what it had been given"
