"""Offsets in transactions on a real node: its log, markers and reloads. The transactions' coordinator is a pretence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from at_once import compact
from broker_client import Client
from broker_node import create_topic, eventually, led, turns

from minikafka.broker.node import Node
from minikafka.broker.topic_creation import TopicCreation
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from minikafka.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

SHARD = TopicPartition("__consumer_offsets", 0)
PRODUCER = ProducerIdentity(7, 0)
VERSIONS = ApiKey.TXN_OFFSET_COMMIT.versions
NAMES = VERSIONS.last - 1
"""The last version that names topics."""
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    """Its one shard of groups is loaded, and there is a topic."""
    node = await start_node(offsets_topic_num_partitions=1, offsets_topic_replication_factor=1)
    await node.parts.part(TopicCreation).create_internal("__consumer_offsets")
    await loaded(node)
    await create_topic(node, "orders", partitions=2)
    return node


async def loaded(node: Node) -> None:
    await eventually(lambda: any(shard.coordinator.phase is Phase.ACTIVE for shard in node.groups), "the groups")


class Coordinator:
    """Of the transactions: answers as told, and remembers what it was asked."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.error = ErrorCode.NONE
        self.answers: list[ErrorCode] = []
        """The next ones, before that."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        monkeypatch.setattr(node.parts.part(TransactionAdmission), "admit", self.admit)

    async def admit(self, *what: object, adds: bool) -> ErrorCode:
        self.asked.append((*what, adds))
        await self.may_answer.wait()
        return self.answers.pop(0) if self.answers else self.error


@pytest.fixture
def coordinator(node: Node, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    return Coordinator(node, monkeypatch)


def commit(
    offset: int,
    *topics: str,
    group: str = "g",
    producer: ProducerIdentity = PRODUCER,
    partitions: tuple[int, ...] = (0,),
    **consumer: object,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index in partitions
                ],
            )
            for topic in topics or ("orders",)
        ],
        **consumer,  # type: ignore[arg-type]
    )


def errors(answer: TxnOffsetCommitResponse) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


async def end(node: Node, *, commits: bool = True, epoch: int = 1) -> int:
    """The marker, as another node's coordinator sends it."""
    marker = WritableTxnMarker(
        producer_id=PRODUCER.producer_id,
        producer_epoch=epoch,
        transaction_result=commits,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name=SHARD.topic, partition_indexes=[SHARD.partition])],
    )
    coordinator = await Client.connect_as_node(node)
    answer = await coordinator.ask(WriteTxnMarkersRequest(markers=[marker]))
    coordinator.close()
    return int(answer.markers[0].topics[0].partitions[0].error_code)


async def fetched(client: Client, *, group: str = "g", stable: bool = True) -> dict[tuple[str, int], tuple[int, int]]:
    """(offset, error) of all partitions."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=stable)
    (found,) = (await client.ask(request)).groups
    assert not found.error_code
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.error_code)
        for topic in found.topics
        for each in topic.partitions
    }


@pytest.mark.spec("T40")
@pytest.mark.parametrize("version", range(VERSIONS.first, VERSIONS.last + 1))
async def test_offsets_are_visible_with_the_commit(
    node: Node, client: Client, coordinator: Coordinator, version: int
) -> None:
    request = commit(5)
    if version > NAMES:
        request.topics[0].name = ""
        request.topics[0].topic_id = node.image.topics_by_name["orders"].topic_id
    answer = await client.ask(request, version)
    assert [each.error_code for each in answer.topics[0].partitions] == [0]
    assert coordinator.asked == [("x", 7, 0, SHARD, version >= 5)]
    assert await fetched(client) == {("orders", 0): (-1, UNSTABLE)}
    assert await fetched(client, stable=False) == {}
    assert await end(node) == 0
    assert await fetched(client) == {("orders", 0): (5, 0)}


@pytest.mark.spec("T40")
async def test_the_batch_belongs_to_the_transaction(node: Node, client: Client, coordinator: Coordinator) -> None:
    """Several of one producer, without sequences, are no repetitions of each other."""
    log = led(node, SHARD).log
    for offset in (5, 6):
        assert errors(await client.ask(commit(offset), NAMES)) == {("orders", 0): 0}
    headers = [header for _, header in iter_batches(log.read(0, 10_000).read())]
    assert {(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers} == {(7, 0, -1)}
    assert all(each.is_transactional and not each.is_control for each in headers)
    assert log.last_stable_offset(2) == 0
    assert await end(node) == 0
    assert log.last_stable_offset(3) == 3
    assert await fetched(client) == {("orders", 0): (6, 0)}


@pytest.mark.spec("T47")
async def test_a_producer_of_an_older_epoch_is_refused(node: Node, client: Client, coordinator: Coordinator) -> None:
    await client.ask(commit(5), NAMES)
    assert await end(node, commits=False) == 0
    late = await client.ask(commit(5), NAMES)
    assert errors(late) == {("orders", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await fetched(client) == {}


@pytest.mark.spec("T44")
@pytest.mark.parametrize("commits", [True, False])
async def test_the_next_leader_reads_records_and_markers(
    node: Node, client: Client, coordinator: Coordinator, commits: bool
) -> None:
    plain = OffsetCommitRequestPartition(partition_index=1, committed_offset=1)
    await client.ask(
        OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[plain])])
    )
    await client.ask(commit(5), NAMES)
    await reload(node)
    assert await fetched(client) == {("orders", 0): (-1, UNSTABLE), ("orders", 1): (1, 0)}
    assert await end(node, commits=commits) == 0
    await client.ask(commit(6, producer=ProducerIdentity(7, 1), partitions=(1,)), NAMES)
    expected = {("orders", 0): (5, 0)} if commits else {}
    for _ in range(2):
        assert await fetched(client) == {**expected, ("orders", 1): (-1, UNSTABLE)}
        assert await fetched(client, stable=False) == {**expected, ("orders", 1): (1, 0)}
        await reload(node)


@pytest.mark.spec("T44")
async def test_compaction_keeps_what_is_visible_and_what_is_pending(
    node: Node, client: Client, coordinator: Coordinator
) -> None:
    """Of an aborted transaction, an overtaken one, a committed one and an open one."""
    log = led(node, SHARD).log
    for epoch, (partitions, commits) in enumerate([((0,), True), ((0, 1), False), ((1,), True), ((0,), None)]):
        request = commit(epoch, partitions=partitions, producer=ProducerIdentity(7, epoch))
        assert set(errors(await client.ask(request, NAMES)).values()) == {0}
        if epoch == 2:
            plain = OffsetCommitRequestPartition(partition_index=1, committed_offset=9)
            topics = [OffsetCommitRequestTopic(name="orders", partitions=[plain])]
            await client.ask(OffsetCommitRequest(group_id="g", topics=topics))
        if commits is not None:
            assert await end(node, commits=commits, epoch=epoch + 1) == 0
        log.roll()
    expected = await fetched(client), await fetched(client, stable=False)
    assert expected == (
        {("orders", 0): (-1, UNSTABLE), ("orders", 1): (9, 0)},
        {("orders", 0): (0, 0), ("orders", 1): (9, 0)},
    )
    log.flush()
    before = log.size_in_bytes
    assert compact(log, led(node, SHARD).high_watermark, node.clock.wall_ms())
    assert log.size_in_bytes < before
    await reload(node)
    assert (await fetched(client), await fetched(client, stable=False)) == expected
    assert await end(node, epoch=4) == 0
    assert await fetched(client) == {("orders", 0): (3, 0), ("orders", 1): (9, 0)}


async def reload(node: Node) -> None:
    """The shard's log is led again."""
    node.groups.on_leading(led(node, SHARD))
    await loaded(node)


@pytest.mark.spec("T44")
@pytest.mark.parametrize("is_read", [True, False])
async def test_a_marker_while_the_log_is_loaded_counts_once(
    node: Node, client: Client, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """Whether the load has come to it, or it was written behind the end that the load found."""
    await client.ask(commit(5), NAMES)
    may_read, read = asyncio.Event(), node.threads.read

    async def slow(act: Callable[[], bytes]) -> bytes:
        data = act() if not is_read else b""
        await may_read.wait()
        return data or act()

    monkeypatch.setattr(node.threads, "read", slow)
    node.groups.on_leading(led(node, SHARD))
    await turns(5)
    assert await end(node) == 0
    monkeypatch.setattr(node.threads, "read", read)
    may_read.set()
    await loaded(node)
    assert await fetched(client) == {("orders", 0): (5, 0)}


async def test_records_of_the_next_transaction_wait_for_their_own_marker(
    node: Node, client: Client, coordinator: Coordinator
) -> None:
    """Marker and next records pass the high watermark in one step."""
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms())  # another replica that has yet to fetch
    waiting = [client.send(commit(5), NAMES)]
    await eventually(lambda: partition.log.log_end_offset == 1, "the first write")
    node.replicas.stage_marker(partition, 7, 1, 0, commits=True, transaction_version=2)
    node.replicas.commit_staged()
    waiting.append(client.send(commit(6, producer=ProducerIdentity(7, 1)), NAMES))
    await eventually(lambda: partition.log.log_end_offset == 3, "the second write")
    node.replicas.on_follower_fetch(partition, 2, 1, 3, 0, node.clock.monotonic_ms())
    for each in waiting:
        assert errors(await each) == {("orders", 0): 0}
    assert await fetched(client, stable=False) == {("orders", 0): (5, 0)}
    assert await fetched(client) == {("orders", 0): (-1, UNSTABLE)}


async def test_who_leads_no_more_takes_no_marker(node: Node) -> None:
    partition = led(node, SHARD)
    node.groups.on_leading_no_more(SHARD)
    assert SHARD not in node.replicas.marker_listeners
    node.replicas.stage_marker(partition, 7, 1, 0, commits=True, transaction_version=2)
    node.replicas.commit_staged()


async def test_a_damaged_marker_is_skipped(node: Node, client: Client, coordinator: Coordinator) -> None:
    await client.ask(commit(5), NAMES)
    (shard,) = node.groups
    batch = build_end_txn_marker(7, 1, EndTxnMarker(True, 0), timestamp=0)
    _, header = next(iter_batches(batch))
    for key, value in [(b"\0\0\0\1", b""), (b"\0", b""), (b"\0\0\0\x09", b"\0\0\0\0\0\0"), (None, None)]:
        shard._replay_record(header, Record(0, 0, key, value))
    assert await fetched(client) == {("orders", 0): (-1, UNSTABLE)}


async def test_who_asked_may_be_gone_when_the_answer_comes(
    node: Node, client: Client, coordinator: Coordinator, dial: Dial
) -> None:
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms())  # another replica that has yet to fetch
    gone = await dial(node)
    waiting = gone.send(commit(5), NAMES)
    await eventually(lambda: partition.log.log_end_offset == 1, "the write")
    gone.close()
    waiting.cancel()
    await turns(5)
    node.replicas.on_follower_fetch(partition, 2, 1, 1, 0, node.clock.monotonic_ms())
    await turns(5)
    assert await fetched(client) == {("orders", 0): (-1, UNSTABLE)}
    assert node.failure is None


# -- the transaction's coordinator ------------------------------------------------------------------------------------


@pytest.mark.spec("T48")
@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_nothing_is_written_that_the_coordinator_does_not_admit(
    node: Node, client: Client, coordinator: Coordinator, error: ErrorCode, version: int, told: ErrorCode
) -> None:
    coordinator.error = error
    answer = await client.ask(commit(5, "orders", "nowhere"), version)
    assert errors(answer) == {("orders", 0): told, ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert led(node, SHARD).log.log_end_offset == 0


async def test_without_a_coordinator_nobody_is_admitted(node: Node, client: Client) -> None:
    assert errors(await client.ask(commit(5), NAMES)) == {("orders", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_verification_may_be_turned_off(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For clients that have added the partition themselves; nobody else would add it for the others."""
    node = await start_node(
        offsets_topic_num_partitions=1,
        offsets_topic_replication_factor=1,
        transaction_partition_verification_enable=False,
    )
    await node.parts.part(TopicCreation).create_internal("__consumer_offsets")
    await loaded(node)
    await create_topic(node, "orders")
    coordinator, client = Coordinator(node, monkeypatch), await dial(node)
    for version, asked in [(4, []), (5, [("x", 7, 0, SHARD, True)])]:
        assert errors(await client.ask(commit(5), version)) == {("orders", 0): 0}
        assert coordinator.asked == asked


@pytest.mark.spec("T48")
@pytest.mark.parametrize("version", [4, NAMES])
async def test_a_transaction_that_ends_before_the_answer_comes(
    node: Node, client: Client, coordinator: Coordinator, dial: Dial, version: int
) -> None:
    """The coordinator is asked again. Epochs need not tell: a client may end it as version 1 does, or an operator."""
    coordinator.may_answer.clear()
    waiting = client.send(commit(5), version)
    await eventually(lambda: coordinator.asked, "the question")
    assert await end(node, commits=False, epoch=0) == 0
    coordinator.answers = [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.may_answer.set()
    assert errors(await waiting) == {("orders", 0): ErrorCode.TRANSACTION_ABORTABLE}
    assert led(node, SHARD).log.last_stable_offset(1) == 1
    assert errors(await client.ask(commit(5), version)) == {("orders", 0): 0}, "that was the next transaction"


@pytest.mark.spec("T48")
async def test_the_end_of_the_transaction_before_is_waited_for(
    node: Node, client: Client, coordinator: Coordinator, dial: Dial
) -> None:
    """A client of version 5 begins the next one at once. The coordinator answers when its markers are written."""
    await client.ask(commit(5), NAMES)
    coordinator.may_answer.clear()
    waiting = client.send(commit(6, producer=ProducerIdentity(7, 1)), NAMES)
    await eventually(lambda: len(coordinator.asked) == 2, "the question")
    assert await end(node) == 0
    coordinator.may_answer.set()
    assert errors(await waiting) == {("orders", 0): 0}
    assert await fetched(client, stable=False) == {("orders", 0): (5, 0)}


@pytest.mark.spec("T48")
async def test_an_answer_that_comes_after_the_end_is_too_late(
    node: Node, client: Client, coordinator: Coordinator, dial: Dial
) -> None:
    """The marker has the next epoch."""
    coordinator.may_answer.clear()
    waiting = client.send(commit(5), NAMES)
    await eventually(lambda: coordinator.asked, "the question")
    assert await end(node) == 0
    coordinator.may_answer.set()
    assert errors(await waiting) == {("orders", 0): ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.mark.spec("T48")
@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_shard_that_moves_before_the_answer_comes(
    node: Node, client: Client, coordinator: Coordinator, comes_back: bool
) -> None:
    coordinator.may_answer.clear()
    waiting = client.send(commit(5), NAMES)
    await eventually(lambda: coordinator.asked, "the question")
    node.groups.on_leading_no_more(SHARD)
    if comes_back:
        await reload(node)
    coordinator.may_answer.set()
    assert errors(await waiting) == {("orders", 0): ErrorCode.NOT_COORDINATOR}
    assert led(node, SHARD).log.log_end_offset == 0


async def test_who_does_not_serve_asks_nobody(node: Node, client: Client, coordinator: Coordinator) -> None:
    (shard,) = node.groups
    assert errors(await client.ask(commit(5, group=""), NAMES)) == {("orders", 0): ErrorCode.INVALID_GROUP_ID}
    shard.coordinator.phase = Phase.LOADING
    for version, told in [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]:
        assert errors(await client.ask(commit(5), version)) == {("orders", 0): told}
    shard.coordinator.phase = Phase.ACTIVE
    node.groups.on_leading_no_more(SHARD)
    assert errors(await client.ask(commit(5), NAMES)) == {("orders", 0): ErrorCode.NOT_COORDINATOR}
    assert not coordinator.asked


@pytest.mark.spec("T43")
async def test_the_consumer_is_checked(client: Client, coordinator: Coordinator) -> None:
    stranger = commit(5, member_id="m", generation_id=1)
    assert errors(await client.ask(stranger, NAMES)) == {("orders", 0): ErrorCode.ILLEGAL_GENERATION}
    await client.ask(commit(5), NAMES)
    assert errors(await client.ask(stranger, NAMES)) == {("orders", 0): ErrorCode.UNKNOWN_MEMBER_ID}


# -- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("T46")
async def test_what_does_not_exist_is_refused_one_by_one(node: Node, client: Client, coordinator: Coordinator) -> None:
    answer = await client.ask(commit(5, "orders", "nowhere", partitions=(0, 9)), NAMES)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(answer) == {
        ("orders", 0): 0,
        ("orders", 9): unknown,
        ("nowhere", 0): unknown,
        ("nowhere", 9): unknown,
    }
    assert [topic.name for topic in answer.topics] == ["orders", "nowhere"], "each topic once"
    by_id = commit(5, "")
    by_id.topics[0].topic_id = UUID(int=7)
    answer = await client.ask(by_id, VERSIONS.last)
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert len(coordinator.asked) == 1, "nothing was left to ask for"
    assert (await client.ask(TxnOffsetCommitRequest(group_id="g"), NAMES)).topics == []


@pytest.mark.spec("T46")
async def test_a_partition_that_is_named_10_000_times_is_written_once(
    node: Node, client: Client, coordinator: Coordinator
) -> None:
    request = commit(5, partitions=(0,) * 9_990)
    request.topics[0].partitions[-1].committed_offset = 7
    answer = await client.ask(request, NAMES)
    assert [each.error_code for each in answer.topics[0].partitions] == [0]
    assert led(node, SHARD).log.log_end_offset == 1
    await end(node)
    assert await fetched(client) == {("orders", 0): (7, 0)}


@pytest.mark.spec("T46")
async def test_huge_metadata_and_foreign_producers_are_refused(
    node: Node, client: Client, coordinator: Coordinator
) -> None:
    request = commit(5)
    request.topics[0].partitions[0].committed_metadata = "x" * 30_000
    assert errors(await client.ask(request, NAMES)) == {("orders", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    nobody = commit(5, producer=ProducerIdentity(-1, -1))
    assert errors(await client.ask(nobody, NAMES)) == {("orders", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert led(node, SHARD).log.log_end_offset == 0


async def test_a_stable_fetch_waits_for_an_ordinary_commit_too(node: Node, client: Client) -> None:
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms())
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    waiting = client.send(
        OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[offset])])
    )
    await eventually(lambda: partition.log.log_end_offset == 1, "the write")
    (shard,) = node.groups
    answer = shard.coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id="g", topics=None), require_stable=True)
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [UNSTABLE]
    node.replicas.on_follower_fetch(partition, 2, 1, 1, 0, node.clock.monotonic_ms())
    await waiting
    assert await fetched(client) == {("orders", 0): (1, 0)}
    assert (await client.ask(HeartbeatRequest(group_id="g", member_id="m"))).error_code
