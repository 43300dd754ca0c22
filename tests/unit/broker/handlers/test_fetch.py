from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest
from broker_client import NOW_MS, Client, batch, fetch_request, produce_request, values_in
from broker_node import CLUSTER_ID, SECRET, create_topic, delete_topic, eventually, in_time, led, listener_of, turns
from broker_replicas import told

from minikafka.broker.handlers.fetch import READS_PER_SAMPLE, _ConsumerFetch
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.net.channel import ChannelClosedError
from minikafka.net.identity import Identity
from minikafka.net.peer import PeerConnection
from minikafka.replication.replica_condition import Condition
from minikafka.storage.read_jobs import ReadJob
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

ORDERS = TopicPartition("orders", 0)
LONG_MS = 20_000


@pytest.fixture
async def topic_id(node: Node, client: Client) -> UUID:
    """Topic orders with three batches of one record."""
    await create_topic(node, "orders")
    for value in (b"a", b"b", b"c"):
        await client.produce("orders", value)
    topic = node.image.topic("orders")
    assert topic is not None
    return topic.topic_id


def several(*asked: tuple[str, int, int], **how: int) -> FetchRequest:
    """(topic, partition, offset) of each."""
    topics = [
        FetchTopic(
            topic=topic, partitions=[FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=1 << 20)]
        )
        for topic, index, at in asked
    ]
    return FetchRequest(topics=topics, **how)


def waiting_fetches(node: Node) -> int:
    return node.replicas.waiting.consumer_fetches.delayed


# -- what there is ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(ApiKey.FETCH.versions.first, ApiKey.FETCH.versions.last + 1))
async def test_every_version_is_understood(topic_id: UUID, client: Client, version: int) -> None:
    where = {"topic_id": topic_id} if version >= 13 else {}
    fetched = await client.fetch("orders", 1, version=version, **where)
    assert values_in(fetched.records) == [b"b", b"c"]
    assert (fetched.high_watermark, fetched.last_stable_offset) == (3, 3)
    assert not fetched.aborted_transactions
    if version >= 5:
        assert fetched.log_start_offset == 0


@pytest.mark.spec("R15")
async def test_limits_are_shared_by_partitions_in_order_and_one_batch_always_comes(node: Node, client: Client) -> None:
    for name in ("a", "b"):
        await create_topic(node, name)
        for _ in range(3):
            await client.produce(name, b"x" * 1000)

    async def counts(**how: int) -> list[int]:
        answer = await client.ask(several(("a", 0, 0), ("b", 0, 0), **how), 12)
        return [len(values_in(topic.partitions[0].records)) for topic in answer.responses]

    assert await counts() == [3, 3]
    assert await counts(max_bytes=1) == [1, 0]
    assert await counts(max_bytes=2500) == [2, 0]
    assert await counts(max_bytes=4500) == [3, 1]
    small = await client.fetch("a", partition_max_bytes=1)
    assert len(values_in(small.records)) == 1


async def test_the_node_bounds_what_a_client_may_ask_for(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(fetch_max_bytes=1024)
    client = await dial(node)
    await create_topic(node, "orders")
    for _ in range(3):
        await client.produce("orders", b"x" * 600)
    fetched = await client.fetch("orders", max_bytes=1 << 30)
    assert len(values_in(fetched.records)) == 1


async def test_a_large_answer_comes_by_sendfile_and_whole(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    values = [bytes([number]) * 100_000 for number in range(8)]
    for value in values:
        await client.produce("orders", value)
    both = [client.send(fetch_request("orders", 0), 12), client.send(fetch_request("orders", 7), 12)]
    answers = [(await in_time(each)).responses[0].partitions[0] for each in both]
    assert values_in(answers[0].records) == values
    assert values_in(answers[1].records) == values[7:]


async def test_at_the_end_there_is_nothing(topic_id: UUID, client: Client) -> None:
    fetched = await client.fetch("orders", 3)
    assert (bytes(fetched.records or b""), fetched.error_code, fetched.high_watermark) == (b"", 0, 3)


# -- errors ----------------------------------------------------------------------------


@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"offset": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"topic": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last_fetched_epoch": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_an_error_is_answered_at_once(
    topic_id: UUID, client: Client, asked: dict[str, object], error: ErrorCode
) -> None:
    fetched = await client.fetch(**{"topic": "orders", "offset": 3, "max_wait_ms": LONG_MS, "min_bytes": 1, **asked})  # type: ignore[arg-type]
    assert fetched.error_code == error
    assert bytes(fetched.records or b"") == b""
    assert fetched.high_watermark == -1


@pytest.mark.parametrize("id_", [UUID(int=99)])
async def test_an_unknown_topic_id(topic_id: UUID, client: Client, id_: UUID) -> None:
    fetched = await client.fetch("", 0, version=16, topic_id=id_)
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.spec("E6")
async def test_an_older_epoch_is_fenced_and_told_the_leader(topic_id: UUID, node: Node, client: Client) -> None:
    led(node, ORDERS).replica.leader_epoch = 5  # as after five elections; the log has epoch 0 only
    fetched = await client.fetch("orders", 3, current_leader_epoch=4)
    assert fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (fetched.current_leader.leader_id, fetched.current_leader.leader_epoch) == (1, 5)
    assert (await client.fetch("orders", 3, current_leader_epoch=5)).error_code == 0


async def test_a_follower_names_the_leader_to_who_is_an_epoch_behind(
    topic_id: UUID, node: Node, client: Client
) -> None:
    told(led(node, ORDERS), 7, 3)
    fetched = await client.fetch("orders", 0, current_leader_epoch=2)
    assert fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (fetched.current_leader.leader_id, fetched.current_leader.leader_epoch) == (7, 3)


@pytest.mark.spec("R25")
async def test_a_follower_serves_consumers_that_know_of_racks_up_to_its_high_watermark(
    topic_id: UUID, node: Node, client: Client
) -> None:
    partition = led(node, ORDERS)
    told(partition, 7, 3)
    partition.replica._follower_high_watermark = 2
    fetched = await client.fetch("orders", 0)
    assert (fetched.error_code, fetched.high_watermark, fetched.last_stable_offset) == (0, 2, 2)
    assert values_in(fetched.records) == [b"a", b"b"]
    assert (await client.fetch("orders", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.spec("R25")
async def test_a_consumer_at_a_follower_waits_for_its_high_watermark(
    topic_id: UUID, node: Node, client: Client
) -> None:
    partition = led(node, ORDERS)
    told(partition, 7, 3)
    partition.replica._follower_high_watermark = 2
    waiting = client.send(fetch_request("orders", 2, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    partition.replica.follow_high_watermark(3)
    node.replicas.waiting.note_moved(ORDERS, high_watermark=True)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert values_in(fetched.records) == [b"c"]


@pytest.mark.spec("E5")
async def test_a_fetcher_whose_log_left_ours_is_told_where(topic_id: UUID, node: Node, client: Client) -> None:
    partition = led(node, ORDERS)
    partition.log.begin_epoch(4)
    partition.replica.leader_epoch = 4
    await client.produce("orders", b"d")
    fetched = await client.fetch("orders", 4, last_fetched_epoch=2, max_wait_ms=LONG_MS, min_bytes=1)
    assert (fetched.diverging_epoch.epoch, fetched.diverging_epoch.end_offset) == (0, 3)
    assert bytes(fetched.records or b"") == b""
    assert (await client.fetch("orders", 3, last_fetched_epoch=0)).diverging_epoch is None
    for none in (-1, -2, -(2**31)):  # a traceback came of the others at a follower with an empty log
        assert (await client.fetch("orders", 3, last_fetched_epoch=none)).diverging_epoch is None


@pytest.mark.spec("P6")
@pytest.mark.parametrize(("version", "listener"), [(12, "CLIENT"), (14, "CLIENT"), (15, "CLIENT"), (16, "CLIENT")])
async def test_a_forged_follower_is_refused(
    topic_id: UUID, node: Node, dial: Dial, version: int, listener: str
) -> None:
    client = await dial(node, listener)
    request = fetch_request("orders", 3, topic_id=topic_id)
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=1, replica_epoch=-1)
    else:
        request.replica_id = 1
    answer = await client.ask(request, version)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.responses == []


async def test_a_topic_made_again_under_its_name_is_another(topic_id: UUID, node: Node, client: Client) -> None:
    opened = await client.ask(fetch_request("", 3, topic_id=topic_id, session_epoch=0), 13)
    assert opened.session_id > 0
    await delete_topic(node, "orders")
    await eventually(lambda: node.image.topic("orders") is None, "the topic to go")
    await create_topic(node, "orders")
    again = await client.ask(FetchRequest(session_id=opened.session_id, session_epoch=1), 13)
    errors = [each.error_code for topic in again.responses for each in topic.partitions]
    assert errors[0] in (ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
async def test_a_leader_that_lost_its_tail_does_not_have_its_followers_cut(topic_id: UUID, node: Node) -> None:
    """The follower says what it knows as committed (KIP-1166); who is in sync is believed."""
    partition = led(node, ORDERS)
    told(partition, 1, 3, replicas=(1, 2, 3), isr=(1, 2))
    partition.log.begin_epoch(3)
    endpoint = listener_of(node, "REPLICATION").endpoint
    nonces = itertools.count(1)

    async def ask(replica_id: int, high_watermark: int) -> PartitionData:
        who = Identity(CLUSTER_ID, replica_id, SECRET, lambda: next(nonces).to_bytes(32))
        peer = await PeerConnection.open(endpoint, who, 1)
        request = fetch_request(
            "orders", 9, topic_id=topic_id, last_fetched_epoch=2, high_watermark=high_watermark, current_leader_epoch=3
        )
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=5)
        answer = await peer.call(request, FetchResponse, timeout_s=LONG_MS / 1000)
        peer.close()
        return answer.responses[0].partitions[0]

    fetched = await ask(2, 3)
    assert (fetched.error_code, fetched.diverging_epoch.end_offset) == (0, 3), "it may be cut to what it knows"
    fetched = await ask(3, 5)
    assert fetched.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "2 may have what it asks for"
    node.replicas.on_follower_fetch(partition, 2, 5, 3, 0, node.clock.monotonic_ms())
    fetched = await ask(3, 5)
    assert (fetched.error_code, fetched.diverging_epoch.end_offset) == (0, 3), "nobody has what it asks for"
    assert partition.replica.condition.now is Condition.WHOLE
    fetched = await ask(2, 4)
    assert (fetched.error_code, fetched.diverging_epoch) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
    assert partition.replica.condition.now is Condition.DAMAGED


# -- sessions ----------------------------------------------------------------------------


@pytest.mark.spec("R6")
async def test_a_session_tells_only_what_is_new(topic_id: UUID, client: Client) -> None:
    first = await client.ask(fetch_request("orders", 3, session_epoch=0), 12)
    assert first.session_id > 0
    assert [topic.topic for topic in first.responses] == ["orders"]
    quiet = await client.ask(FetchRequest(session_id=first.session_id, session_epoch=1), 12)
    assert quiet.responses == []
    await client.produce("orders", b"d")
    news = await client.ask(FetchRequest(session_id=first.session_id, session_epoch=2), 12)
    assert values_in(news.responses[0].partitions[0].records) == [b"d"]


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [(12345, 7, ErrorCode.FETCH_SESSION_ID_NOT_FOUND), (None, 7, ErrorCode.INVALID_FETCH_SESSION_EPOCH)],
)
async def test_a_session_that_is_not_known(
    topic_id: UUID, client: Client, session_id: int | None, epoch: int, error: ErrorCode
) -> None:
    first = await client.ask(fetch_request("orders", 3, session_epoch=0), 12)
    answer = await client.ask(FetchRequest(session_id=session_id or first.session_id, session_epoch=epoch), 12)
    assert answer.error_code == error


# -- waiting ----------------------------------------------------------------------------


@pytest.mark.spec("D5")
@pytest.mark.spec("D6")
async def test_a_fetch_waits_for_bytes(topic_id: UUID, node: Node, client: Client, dial: Dial) -> None:
    waiting = client.send(fetch_request("orders", 3, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    producer = await dial(node)
    await producer.produce("orders", b"d")
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert values_in(fetched.records) == [b"d"]
    assert waiting_fetches(node) == 0


async def test_a_bug_in_a_fetch_that_waited_is_its_clients_alone(
    node: Node, client: Client, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client waited for ever, and who waited for what had moved in the same turn was not woken."""
    most = _ConsumerFetch._max_bytes

    def planted(self: _ConsumerFetch) -> int:
        if self._context.client_id == "broken":
            raise RuntimeError("planted")
        return most(self)

    for topic in "ab":
        await create_topic(node, topic)
    sound, writer = await dial(node), await dial(node)
    client.client_id = "broken"
    broken, whole = (
        each.send_fetch(topic, max_wait_ms=LONG_MS, min_bytes=1) for each, topic in ((client, "a"), (sound, "b"))
    )
    await eventually(lambda: waiting_fetches(node) == 2, "both to be parked")
    monkeypatch.setattr(_ConsumerFetch, "_max_bytes", planted)
    written = [writer.send(produce_request(topic, batch(b"v")), 9) for topic in "ab"]
    with pytest.raises(ChannelClosedError):
        await in_time(broken)
    assert values_in((await in_time(whole)).responses[0].partitions[0].records) == [b"v"]
    for each in written:
        await in_time(each)


@pytest.mark.spec("D5")
async def test_bytes_of_all_partitions_count_together(node: Node, client: Client, dial: Dial) -> None:
    for name in ("a", "b"):
        await create_topic(node, name)
    producer = await dial(node)
    size = len(batch(b"x" * 100))
    waiting = client.send(several(("a", 0, 0), ("b", 0, 0), max_wait_ms=LONG_MS, min_bytes=3 * size), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    for name in ("a", "b"):
        await producer.produce(name, b"x" * 100)
        await turns()
        assert not waiting.done()
    await producer.produce("a", b"x" * 100)
    answer = await in_time(waiting)
    assert [len(values_in(topic.partitions[0].records)) for topic in answer.responses] == [2, 1]


@pytest.mark.spec("D5", "P6")
async def test_a_waiting_fetch_looks_only_at_the_partition_that_changed(node: Node, client: Client, dial: Dial) -> None:
    """A consumer of a thousand partitions with ``fetch.min.bytes`` looked at each of them for each that was written."""
    names = [f"t{number}" for number in range(20)]
    for name in names:
        await create_topic(node, name)
    producer = await dial(node)
    size = len(batch(b"x" * 100))
    asked = several(*((name, 0, 0) for name in names), max_wait_ms=LONG_MS, min_bytes=len(names) * size)
    waiting = client.send(asked, 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    looked_at: list[TopicPartition] = []
    find = node.replicas.replica_of

    def counting(tp: TopicPartition, *, current_leader_epoch: int = -1) -> Partition:
        looked_at.append(tp)
        return find(tp, current_leader_epoch=current_leader_epoch)

    node.replicas.replica_of = counting  # type: ignore[method-assign]
    for name in names[1:]:
        await producer.produce(name, b"x" * 100)
    await turns()
    assert looked_at == [TopicPartition(name, 0) for name in names[1:]]
    await producer.produce(names[0], b"x" * 100)
    answer = await in_time(waiting)
    assert [len(values_in(topic.partitions[0].records)) for topic in answer.responses] == [1] * len(names)


@pytest.mark.spec("D6")
async def test_a_fetch_that_waited_in_vain_answers_with_what_there_is(topic_id: UUID, client: Client) -> None:
    fetched = await client.fetch("orders", 2, max_wait_ms=10, min_bytes=1 << 20)
    assert values_in(fetched.records) == [b"c"]


@pytest.mark.spec("R16")
@pytest.mark.parametrize("how", [{"max_wait_ms": 0, "min_bytes": 1 << 20}, {"max_wait_ms": LONG_MS, "min_bytes": 0}])
async def test_a_fetch_that_may_not_wait_does_not(topic_id: UUID, client: Client, how: dict[str, int]) -> None:
    assert (await client.fetch("orders", 3, **how)).error_code == 0


@pytest.mark.spec("R16")
async def test_a_fetch_of_nothing_does_not_wait(client: Client) -> None:
    answer: FetchResponse = await client.ask(FetchRequest(max_wait_ms=LONG_MS, min_bytes=1), 12)
    assert answer.responses == []


@pytest.mark.spec("D5")
async def test_a_deleted_partition_ends_the_wait(topic_id: UUID, node: Node, client: Client) -> None:
    waiting = client.send(fetch_request("orders", 3, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    await delete_topic(node, "orders")
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.spec("D5")
async def test_a_partition_that_moves_ends_the_wait(topic_id: UUID, node: Node, client: Client) -> None:
    waiting = client.send(fetch_request("orders", 3, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    told(led(node, ORDERS), 7, 3)
    node.replicas.waiting.release(ORDERS)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert (fetched.error_code, fetched.records or b"") == (0, b"")


@pytest.mark.spec("D5")
async def test_records_deleted_under_a_fetch_end_the_wait(topic_id: UUID, node: Node, client: Client) -> None:
    waiting = client.send(fetch_request("orders", 1, max_wait_ms=LONG_MS, min_bytes=1 << 20), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    led(node, ORDERS).log.delete_records(2, 3)
    node.replicas.waiting.release(ORDERS)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.spec("D5")
async def test_a_rolled_segment_ends_the_wait(node: Node, client: Client, dial: Dial) -> None:
    await create_topic(node, "orders", segment_bytes=2000)
    producer = await dial(node)
    await producer.produce("orders", b"x" * 900)
    waiting = client.send(fetch_request("orders", 1, max_wait_ms=LONG_MS, min_bytes=1 << 20), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    await producer.produce("orders", b"y" * 900)
    await turns()
    assert not waiting.done()
    await producer.produce("orders", b"z" * 900)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert values_in(fetched.records) == [b"y" * 900], "what the closed segment has"


async def test_whoever_leaves_while_waiting_is_forgotten(topic_id: UUID, node: Node, dial: Dial) -> None:
    client, producer = await dial(node), await dial(node)
    waiting = client.send(fetch_request("orders", 3, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    client.close()
    with pytest.raises(ConnectionError):
        await in_time(waiting)
    await producer.produce("orders", b"d")  # the answer goes nowhere, and its file is released
    await eventually(lambda: waiting_fetches(node) == 0, "the fetch to be dropped")


async def test_a_consumer_ahead_of_the_high_watermark_gets_nothing_yet(
    topic_id: UUID, node: Node, client: Client
) -> None:
    leader = led(node, ORDERS).leader
    assert leader is not None
    leader.high_watermark = 1
    for offset, expected in [(0, [b"a"]), (1, []), (2, []), (3, [])]:
        fetched = await client.fetch("orders", offset)
        assert (values_in(fetched.records), fetched.error_code) == (expected, 0)


# -- damage ----------------------------------------------------------------------------


@pytest.mark.spec("P5")
async def test_damaged_bytes_are_not_served(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    node = await start_node()
    client = await dial(node)
    await create_topic(node, "orders")
    await create_topic(node, "other")
    await client.produce("orders", b"precious" * 10)
    await client.produce("other", b"fine")
    segment = tmp_path / "data/orders-0/00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    await node.stop()
    node = await start_node()
    client = await dial(node)
    fetched = await client.fetch("orders", 0)
    assert b"precious" not in bytes(fetched.records or b"")
    assert values_in((await client.fetch("other")).records) == [b"fine"]
    assert node.failure is None


async def test_times_are_bounded_by_the_loop_not_by_the_wall(start_node: StartNode, dial: Dial) -> None:
    wall = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall[0])
    client = await dial(node)
    await create_topic(node, "orders")
    waiting = client.send(fetch_request("orders", 0, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: waiting_fetches(node) == 1, "the fetch to be parked")
    wall[0] += 86_400
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await (await dial(node)).ask(produce_request("orders", batch(b"x")))
    await in_time(waiting)


@pytest.mark.spec("P5")
async def test_bytes_that_no_consumer_can_read_are_found(start_node: StartNode, dial: Dial) -> None:
    """They went bad under the leader that wrote them, and only followers' fetches were evidence."""
    node = await start_node()
    client = await dial(node)
    tp = await create_topic(node, "orders")
    for number in range(3):
        await client.produce("orders", b"%d" % number * 500)
    log = led(node, tp).log
    segment = Path(log.directory) / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    for _ in range(READS_PER_SAMPLE):
        await client.fetch("orders", 2)
    await eventually(lambda: log.corruption is not None, "the damage to be found")
    assert "a batch fails its checksum at byte" in str(log.corruption)


@pytest.mark.spec("P5")
async def test_what_nobody_read_lately_is_verified_beside_the_loop(start_node: StartNode, dial: Dial) -> None:
    node = await start_node()
    client = await dial(node)
    await create_topic(node, "orders", segment_bytes=4_000)
    for number in range(20):
        await client.produce("orders", b"%d" % number * 500)
    await node.stop()
    node = await start_node()
    client = await dial(node)
    threads: list[str] = []
    run = ReadJob.run

    def noted(job: ReadJob[object]) -> None:
        threads.append(threading.current_thread().name)
        run(job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ReadJob, "run", noted)
        first = await client.fetch("orders", 0)
        again = await client.fetch("orders", 0)
    assert values_in(first.records)[0] == b"0" * 500
    assert values_in(again.records) == values_in(first.records)
    assert len(threads) == 1, "the second time it is known to be good"
    assert threading.current_thread().name not in threads
