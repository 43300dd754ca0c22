"""Replication between real nodes of one process; leader, fetcher and epochs are tested in tests/unit/replication."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from at_once import compact, delete_old_segments
from broker_client import Client, batch, values_in
from broker_node import Cluster, FailingDisk, create_topic, eventually, in_time, led, listener_of, turns
from captured_logs import capture_logs

from minikafka.broker.drivers import leader_calls
from minikafka.broker.drivers import replication as replication_module
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.net.peer import PeerConnection
from minikafka.raft import effects as raft_effects
from minikafka.records.batch import assign_offsets, iter_batches, parse_header
from minikafka.records.read import iter_records
from minikafka.replication import effects as do
from minikafka.replication import replica_effects
from minikafka.replication.local_replica import LocalReplica
from minikafka.storage.log import IllegalLogState, ReadJob, StorageFailure
from minikafka.storage.positions import find
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState

Dial = Callable[..., Awaitable[Client]]
HELD_LONG = {"replica_fetch_wait_max_ms": 30_000, "replica_lag_time_max_ms": 60_000}
"""A fetch is answered only when there is something new, or it is abandoned."""

ORDERS = TopicPartition("orders", 0)
NEVER_MS = 1 << 50


def replica(node: Node, tp: TopicPartition = ORDERS) -> Partition:
    partition = node.replicas.get(tp)
    assert partition is not None
    return partition


def whole_log(partition: Partition) -> bytes:
    log, parts = partition.log, []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        *_, (_, header) = iter_batches(data)
        offset = header.next_offset
        parts.append(data)
    return b"".join(parts)


def values(partition: Partition) -> list[bytes | None]:
    data = whole_log(partition)
    return [record.value for at, header in iter_batches(data) for record in iter_records(data, at, header)]


async def follows(node: Node, offset: int, tp: TopicPartition = ORDERS) -> Partition:
    """The node's replica, once it has everything below ``offset`` and knows that it is committed."""
    await eventually(lambda: node.replicas.get(tp), "the replica")
    partition = replica(node, tp)
    await eventually(lambda: (partition.log.log_end_offset, partition.high_watermark) == (offset, offset), "its log")
    await eventually(lambda: partition.replica.is_followed or partition.leader is not None, "its role")
    return partition


async def started(cluster: Cluster, *replicas: int, **configs: object) -> Node:
    """The cluster with topic orders on these replicas; its leader."""
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[list(replicas)], **configs)
    leader = cluster.nodes[replicas[0]]
    await eventually(lambda: leader.replicas.get(ORDERS), "the leader's replica")
    return leader


async def in_sync(node: Node, *members: int) -> None:
    leader = led(node, ORDERS).leader
    assert leader is not None
    await eventually(lambda: leader.isr == tuple(sorted(members)), f"an ISR of {members}, not {leader.isr}")


# -- the way of a record ----------------------------------------------------------------------------------------------


@pytest.mark.spec("R3")
@pytest.mark.spec("R11")
@pytest.mark.spec("R23")
async def test_what_is_acknowledged_is_on_every_replica(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2, 3)
    client = await dial(leader)
    for number in range(20):
        result = await client.produce("orders", b"%d" % number)
        assert (result.error_code, result.base_offset) == (0, number)
        for node in cluster.nodes.values():
            assert replica(node).log.log_end_offset > number
    expected = whole_log(led(leader, ORDERS))
    for node_id in (2, 3):
        follower = await follows(cluster.nodes[node_id], 20)
        assert whole_log(follower) == expected
        assert (follower.leader, follower.leader_id, follower.leader_epoch) == (None, 1, 0)
        fetched = await (await dial(cluster.nodes[node_id])).fetch("orders", version=10)
        assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        refused = await (await dial(cluster.nodes[node_id])).produce("orders", b"x")
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await (await dial(cluster.nodes[2])).fetch("nowhere")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.spec("E3")
async def test_a_node_without_a_replica_sends_clients_away(cluster: Cluster, dial: Dial) -> None:
    await started(cluster, 1, 2)
    await eventually(lambda: cluster.nodes[3].image.partition(ORDERS), "it to hear of the topic")
    fetched = await (await dial(cluster.nodes[3])).fetch("orders")
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.nodes[3].replicas.get(ORDERS) is None


@pytest.mark.spec("P1")
@pytest.mark.spec("C4")
async def test_a_leader_that_dies_loses_nothing_acknowledged(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2, 3, min_insync_replicas=2)
    client = await dial(leader)
    for number in range(10):
        await client.produce("orders", b"%d" % number)
    await cluster.kill(1)
    await cluster.wait_for_controller()
    heirs = list(cluster.nodes.values())  # of whom a new controller takes one that it has heard of
    new = await eventually(lambda: next((node for node in heirs if replica(node).leader is not None), None), "an heir")
    client = await dial(new)
    result = await client.produce("orders", b"after")
    assert (result.error_code, result.base_offset) == (0, 10)
    assert values_in((await client.fetch("orders")).records) == [b"%d" % number for number in range(10)] + [b"after"]
    await cluster.start(1)
    await cluster.ready()
    back = await follows(cluster.nodes[1], 11)
    assert whole_log(back) == whole_log(led(new, ORDERS))
    await in_sync(new, 1, 2, 3)


@pytest.mark.spec("E5")
@pytest.mark.spec("R4")
async def test_what_only_a_dead_leader_had_is_cut_when_it_returns(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2)
    client = await dial(leader)
    await client.produce("orders", b"both")
    await follows(cluster.nodes[2], 1)
    cluster.nodes[2].data_plane.fetchers.unfollow([ORDERS])  # the follower hears nothing of what comes now
    for value in (b"lost 1", b"lost 2"):
        await client.produce("orders", value, acks=1)
    await cluster.kill(1)
    await cluster.wait_for_controller()
    new = cluster.nodes[2]
    await eventually(lambda: replica(new).leader is not None, "the other to lead")
    await (await dial(new)).produce("orders", b"new")
    await cluster.start(1)
    await cluster.ready()
    back = await follows(cluster.nodes[1], 2)
    assert values(back) == [b"both", b"new"]
    assert whole_log(back) == whole_log(led(new, ORDERS))


@pytest.mark.spec("R23")
@pytest.mark.spec("R19")
async def test_with_too_few_in_sync_acks_all_is_refused_and_comes_back(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2, min_insync_replicas=2)
    client = await dial(leader)
    assert (await client.produce("orders", b"a")).error_code == 0
    await cluster.kill(2)
    await in_sync(leader, 1)
    assert (await client.produce("orders", b"b")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await client.produce("orders", b"c", acks=1)).error_code == 0
    assert values_in((await client.fetch("orders")).records) == [b"a"], "what one replica has is not shown"
    await cluster.start(2)
    await in_sync(leader, 1, 2)
    assert (await client.produce("orders", b"d")).error_code == 0
    assert values_in((await client.fetch("orders")).records) == [b"a", b"c", b"d"]


@pytest.mark.spec("R13")
async def test_a_follower_whose_records_are_gone_starts_anew(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2, segment_bytes=1500)
    client = await dial(leader)
    await client.produce("orders", b"a")
    await follows(cluster.nodes[2], 1)
    await cluster.kill(2)
    await in_sync(leader, 1)
    for _ in range(4):
        await client.produce("orders", b"x" * 1200)
    log = led(leader, ORDERS).log
    log.delete_records(4, 5)
    await cluster.start(2)
    follower = await follows(cluster.nodes[2], 5)
    assert follower.log.log_start_offset == 4
    await in_sync(leader, 1, 2)


@pytest.mark.spec("T28")
async def test_a_follower_that_was_away_for_long_fetches_open_transactions_again(cluster: Cluster) -> None:
    """The leader has cleaned away the end of one, and the follower waited for that for ever."""
    leader = await started(cluster, 1, 2, cleanup_policy="compact", delete_retention_ms=0, min_cleanable_dirty_ratio=0)
    partition, log = led(leader, ORDERS), led(leader, ORDERS).log

    def put(key: bytes, producer: tuple[int, int, int], *, is_transactional: bool = False) -> None:
        data = memoryview(batch(b"x", keys=(key,), producer=producer, is_transactional=is_transactional))
        leader.replicas.stage(partition, data, parse_header(data))
        leader.replicas.commit_staged()

    put(b"a", (7, 0, 0), is_transactional=True)
    await follows(cluster.nodes[2], 1)
    await cluster.kill(2)
    await in_sync(leader, 1)
    leader.replicas.stage_marker(partition, 7, 1, 0, commits=False, transaction_version=2)
    for number in range(4):
        put(b"c", (8, 0, number))
        log.roll()
        log.flush()
        assert compact(log, log.log_end_offset, NEVER_MS + number)
    await cluster.start(2)
    follower = await follows(cluster.nodes[2], log.log_end_offset)
    assert whole_log(follower) == whole_log(partition)
    assert follower.log.last_stable_offset(follower.high_watermark) == follower.high_watermark
    await in_sync(leader, 1, 2)


@pytest.mark.spec("T28")
async def test_a_follower_whose_leader_did_not_answer_for_long_was_away(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await started(cluster, 1, 2)
    client = await dial(leader)
    await client.produce("orders", b"a")
    follower = await follows(cluster.nodes[2], 1)
    assert follower.log.appender._followed_from == 0
    monkeypatch.setattr(leader_calls, "ABSENCE_S", -1.0)
    await client.produce("orders", b"b")
    await eventually(lambda: follower.log.appender._followed_from == 2, "it to note where it begins anew")


@pytest.mark.spec("T28")
async def test_a_follower_that_lost_its_connection_was_away(cluster: Cluster, dial: Dial) -> None:
    """Maybe for days: the clock stands still while its machine is suspended."""
    leader = await started(cluster, 1, 2)
    client = await dial(leader)
    await client.produce("orders", b"a")
    follower = await follows(cluster.nodes[2], 1)
    assert follower.log.appender._followed_from == 0
    (fetcher,) = cluster.nodes[2].data_plane.fetchers._fetchers.values()
    await eventually(lambda: fetcher._calls.is_fetching and fetcher._calls.connection, "a fetch")
    assert fetcher._calls.connection is not None
    fetcher._calls.connection.close()
    await eventually(lambda: follower.log.appender._followed_from == 1, "it to note where it begins anew")


@pytest.mark.spec("T21")
async def test_a_follower_of_transactions_keeps_no_ends_that_are_replicated(cluster: Cluster) -> None:
    """Finding: only who asks for the last stable offset let go of them, and of a follower's log nobody does."""
    leader = await started(cluster, 1, 2)
    partition = led(leader, ORDERS)
    for number in range(3):
        data = memoryview(batch(b"x", producer=(7, 0, number), is_transactional=True))
        leader.replicas.stage(partition, data, parse_header(data))
        leader.replicas.stage_marker(partition, 7, 0, 0, commits=True, transaction_version=0)
        leader.replicas.commit_staged()
    for node in (leader, cluster.nodes[2]):
        producers = (await follows(node, 6)).log.producers
        await eventually(lambda kept=producers: not kept.unreplicated_ends, "it to let go of them")  # type: ignore[misc]


@pytest.mark.spec("R13")
async def test_a_replica_is_made_whose_leaders_log_begins_inside_a_batch(cluster: Cluster, dial: Dial) -> None:
    """Finding: after DeleteRecords no replica that begins anew was ever in sync: it refused the batch, for ever."""
    leader = await started(cluster, 1, 2, segment_bytes=1500)
    client = await dial(leader)
    await client.produce("orders", b"a")
    await follows(cluster.nodes[2], 1)
    await cluster.kill(2)
    await in_sync(leader, 1)
    for _ in range(4):
        await client.produce("orders", *[b"x" * 400] * 3)
    log = led(leader, ORDERS).log
    log.delete_records(8, 13)
    assert delete_old_segments(log, 13, 0), "what the follower lacks is gone"
    await cluster.start(2)
    follower = await follows(cluster.nodes[2], 13)
    await eventually(lambda: follower.log.log_start_offset == 8, "the follower's log start")
    await in_sync(leader, 1, 2)
    with pytest.raises(KafkaError, match="holds offsets 8 to 13, not 7"):
        log.read(7, 1000)


@pytest.mark.spec("R13")
@pytest.mark.spec("R26")
async def test_a_follower_that_knows_a_former_isr_only_does_not_take_its_log_for_damaged(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding: its process had been stopped, and woke up in the ISR that it knew."""
    await cluster.start(replica_lag_time_max_ms=1000)
    await cluster.ready()
    leader = cluster.controller
    other = next(node for node in cluster.nodes.values() if node is not leader)
    leader_id, other_id = leader.config.node_id, other.config.node_id
    await create_topic(leader, "orders", replicas=[[leader_id, other_id]], segment_bytes=1500)
    client = await dial(leader)
    await eventually(lambda: leader.replicas.get(ORDERS), "the leader's replica")
    await client.produce("orders", b"a")
    follower = await follows(other, 1)
    send, may_send = other.control_plane.raft._send, asyncio.Event()

    async def send_later(effect: raft_effects.Send) -> None:
        await may_send.wait()
        await send(effect)

    monkeypatch.setattr(other.control_plane.raft, "_send", send_later)
    other.data_plane.fetchers.unfollow([ORDERS])
    for _ in range(4):
        await client.produce("orders", b"x" * 1200, acks=1)
    await in_sync(leader, leader_id)
    led(leader, ORDERS).log.delete_records(4, 5)
    follower.replica.configure(follower.replica._settings._replace(lag_time_max_ms=1 << 40), 0)
    with capture_logs() as logs:
        other.data_plane.fetchers.follow(follower)
        delayed = "following is delayed"
        await eventually(lambda: sum(line["event"] == delayed for line in logs) > 2, "it to ask again and again")
        may_send.set()
        await follows(other, 5)
    assert follower.log.log_start_offset == 4
    said = str(replica_effects.Saying.FOLLOWER_FALLS_SHORT.value)
    assert not [line for line in logs if line["event"] in (said, "replica damaged")]
    await in_sync(leader, leader_id, other_id)


@pytest.mark.spec("R11")
async def test_a_follower_drops_what_its_leader_dropped(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2)
    client = await dial(leader)
    await client.produce("orders", b"a", b"b", b"c")
    follower = await follows(cluster.nodes[2], 3)
    led(leader, ORDERS).log.delete_records(2, 3)
    await client.produce("orders", b"d")
    await eventually(lambda: follower.log.log_start_offset == 2, "the follower's log start")


@pytest.mark.spec("P2")
async def test_with_flush_messages_every_replica_has_synced_before_the_ack(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2, 3, flush_messages=1)
    client = await dial(leader)
    for number in range(5):
        assert (await client.produce("orders", b"%d" % number)).base_offset == number
        assert [replica(node).log.recovery_point > number for node in cluster.nodes.values()] == [True] * 3


@pytest.mark.spec("R12")
async def test_a_follower_whose_disk_fails_leaves_the_others_alone(cluster: Cluster, dial: Dial) -> None:
    disk = FailingDisk()
    await cluster.start(1, 3)
    await cluster.start(2, disk=disk)
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]], min_insync_replicas=2)
    leader = cluster.nodes[1]
    await eventually(lambda: leader.replicas.get(ORDERS), "the leader's replica")
    client = await dial(leader)
    await client.produce("orders", b"a")
    disk.refuse("append", "orders-0")
    writing = client.send_produce("orders", b"b")
    await eventually(cluster.nodes[2].stopped.is_set, "the follower to halt")
    await cluster.kill(2)
    result = await in_time(writing)
    assert result.responses[0].partition_responses[0].error_code == 0
    await in_sync(leader, 1, 3)


async def test_a_follower_that_cannot_sync_does_not_count(cluster: Cluster, dial: Dial) -> None:
    disk = FailingDisk()
    await cluster.start(1, 3)
    await cluster.start(2, disk=disk)
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]], flush_messages=1)
    leader = cluster.nodes[1]
    await eventually(lambda: leader.replicas.get(ORDERS), "the leader's replica")
    client = await dial(leader)
    await client.produce("orders", b"a")
    disk.refuse("fsync", "orders-0")
    writing = client.send_produce("orders", b"b")
    await eventually(cluster.nodes[2].stopped.is_set, "the follower to halt")
    await asyncio.sleep(0.05)  # it may live on for a moment, and must not claim what it could not sync
    assert not writing.done()
    await cluster.kill(2)
    assert (await in_time(writing)).responses[0].partition_responses[0].error_code == 0


@pytest.mark.spec("R10")
async def test_all_of_an_answer_is_appended_before_anything_is_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one partition is synced, another may come to follow another leader: then it is too late for it."""
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2], [1, 2]], flush_messages=1)
    node = cluster.nodes[2]
    both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    for tp in both:
        await follows(node, 0, tp)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    node.data_plane.fetchers.unfollow(both)
    ends: list[list[int]] = []

    async def sync(_: Partition) -> None:
        ends.append([replica(node, tp).log.log_end_offset for tp in both])

    monkeypatch.setattr(node.data_plane.fetchers._parts, "jobs", SimpleNamespace(sync=sync))
    await fetcher._carry_out([do.Append(tp, batch(b"x"), 0, 0) for tp in both])
    assert ends == []
    await fetcher._sync_unsynced()
    assert ends == [[1, 1], [1, 1]]


@pytest.mark.parametrize("long", [{"APPENDED_AT_ONCE": 900}, {"ROLL_BYTES": 1 << 30}], ids=["bytes", "segments"])
@pytest.mark.spec("P6")
async def test_a_long_answer_leaves_turns_to_others(
    cluster: Cluster, long: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 10 MiB, in which each record had a batch, took a turn of 0.23 s of CPU, 2.3 s on a busy machine; one in
    which a thousand partitions began a segment 0.5 s, and 2.8 s."""
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2], [1, 2]], segment_bytes=1024)
    node = cluster.nodes[2]
    both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    for tp in both:
        await follows(node, 0, tp)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    node.data_plane.fetchers.unfollow(both)
    seen: list[object] = []

    def appends(offset: int) -> Iterator[do.Effect]:
        records = batch(b"x" * 900)
        assign_offsets(records, 0, offset, 0)
        for tp in both:
            seen.append(tp)
            yield do.Append(tp, records, 0, 0)

    async def send(_: object) -> Iterator[do.Effect]:
        asyncio.get_running_loop().call_soon(seen.append, "another")
        return appends(1)

    await fetcher._carry_out(appends(0))
    seen.clear()
    for name, value in long.items():
        monkeypatch.setattr(replication_module, name, value)
    monkeypatch.setattr(fetcher, "_send", send)
    await fetcher._carry_out([do.SendFetch(FetchRequest())])
    assert [len(replica(node, tp).log.segments) for tp in both] == [2, 2]
    assert seen == [both[0], "another", both[1]]


async def test_what_another_fetcher_appended_is_synced_before_the_first_fetch(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been taken away from that one in between, and the new leader counts it as ours."""
    await cluster.start()
    await cluster.ready()
    tp = await create_topic(cluster.controller, "orders", replicas=[[1, 2]], flush_messages=1)
    node = cluster.nodes[2]
    followed = await follows(node, 0, tp)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    node.data_plane.fetchers.unfollow([tp])
    monkeypatch.setattr(LocalReplica, "is_sync_due", property(lambda replica: replica is followed.replica))
    done: list[object] = []

    async def sync(partition: Partition) -> None:
        done.append(partition.topic_partition)

    async def send(effect: object) -> None:
        done.append(type(effect))
        await asyncio.Event().wait()

    monkeypatch.setattr(node.data_plane.fetchers._parts, "jobs", SimpleNamespace(sync=sync))
    monkeypatch.setattr(fetcher, "_send", send)
    node.data_plane.fetchers.follow(followed)
    await eventually(lambda: len(done) > 1, "the fetcher to ask")
    assert done == [tp, do.SendFetch]


# -- fetchers ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R9")
async def test_partitions_share_a_fetcher_per_leader_and_idle_ones_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication_module, "IDLE_SHUTDOWN_S", 0.01)
    await started(cluster, 1, 2)
    await create_topic(cluster.controller, "more", replicas=[[1, 2], [1, 2], [3, 2]])
    fetchers = cluster.nodes[2].data_plane.fetchers._fetchers
    await eventually(lambda: len(cluster.nodes[2].replicas) == 4, "all replicas")
    assert sorted(key.source_id for key in fetchers) == [1, 3]
    cluster.nodes[2].data_plane.fetchers.unfollow([TopicPartition("more", 2)])
    await eventually(lambda: sorted(key.source_id for key in fetchers) == [1], "the idle fetcher to end")
    cluster.nodes[2].data_plane.fetchers.follow(replica(cluster.nodes[2], TopicPartition("more", 2)))
    assert sorted(key.source_id for key in fetchers) == [1, 3]


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("held_after_s", "is_receiving", "is_abandoned"), [(0, False, True), (0, True, False), (3600, False, False)]
)
async def test_only_a_fetch_that_the_leader_holds_is_abandoned_for_a_further_partition(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, held_after_s: float, is_receiving: bool, is_abandoned: bool
) -> None:
    """Finding: a reassignment of many partitions threw answers away, and their leader took the follower for unable."""
    monkeypatch.setattr(leader_calls, "HELD_AFTER_S", held_after_s)
    monkeypatch.setattr(PeerConnection, "is_receiving", is_receiving)
    await cluster.start(**HELD_LONG if is_abandoned else {})
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]])
    node = cluster.nodes[2]
    await follows(node, 0)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    await eventually(lambda: fetcher._calls.is_fetching and fetcher._calls.connection, "a fetch")
    before = fetcher._calls.connection
    await create_topic(cluster.controller, "more", replicas=[[1, 2]])
    more = TopicPartition("more", 0)
    await follows(node, 0, more)
    if is_abandoned:
        await eventually(lambda: fetcher._calls.connection not in (None, before), "another connection")
        return
    state = await eventually(lambda: fetcher._machine.state(more), "it to be fetched")
    await eventually(lambda: state.has_agreed, "its first answer")
    assert fetcher._calls.connection is before


@pytest.mark.spec("R9")
async def test_a_fetch_is_abandoned_for_a_partition_that_came_while_its_connection_was_opened(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding: after a failover some partitions had no follower for half a second, as long as that fetch was held."""
    monkeypatch.setattr(leader_calls, "ANSWER_TIMEOUT_S", 3600.0)
    await cluster.start(**HELD_LONG)
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]])
    node = cluster.nodes[2]
    await follows(node, 0)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    before = await eventually(lambda: fetcher._calls.is_fetching and fetcher._calls.connection, "a fetch")
    may_open, open_now = asyncio.Event(), PeerConnection.open

    async def open_when_allowed(*args: Any) -> PeerConnection:
        await may_open.wait()
        return await open_now(*args)

    monkeypatch.setattr(PeerConnection, "open", open_when_allowed)
    fetcher._calls._is_abandoning = True
    before.close()
    await eventually(
        lambda: fetcher._calls.is_fetching and fetcher._calls.connection is None, "a fetch without a connection"
    )
    await create_topic(cluster.controller, "more", replicas=[[1, 2]])
    more = TopicPartition("more", 0)
    await eventually(lambda: fetcher._machine.state(more), "it to be followed")
    may_open.set()
    await eventually(lambda: cluster.nodes[1].replicas.get(more), "its leader")
    produced = await (await dial(cluster.nodes[1])).produce("more", b"first", acks=1)
    assert not produced.error_code
    await eventually(lambda: replica(node, more).log.log_end_offset, "its first record")


@pytest.mark.spec("R9")
async def test_several_fetchers_per_leader_where_asked_for(cluster: Cluster) -> None:
    await cluster.start(num_replica_fetchers=4)
    await cluster.ready()
    await create_topic(cluster.controller, "many", replicas=[[1, 2]] * 16)
    fetchers = cluster.nodes[2].data_plane.fetchers._fetchers
    await eventually(lambda: len(cluster.nodes[2].replicas) == 16, "all replicas")
    assert {key.source_id for key in fetchers} == {1}
    assert len(fetchers) == 4
    followed = [tp for fetcher in fetchers.values() for tp in fetcher._machine._states._states]
    assert sorted(followed) == [TopicPartition("many", index) for index in range(16)], "each by one of them"


@pytest.mark.spec("R12")
async def test_a_partition_that_its_fetcher_gave_up_may_move_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fetcher drops a partition that is fenced, or that cannot be appended to, and may have ended by the time that
    # metadata tells what comes next.
    monkeypatch.setattr(replication_module, "IDLE_SHUTDOWN_S", 0.01)
    await cluster.start(replica_lag_time_max_ms=60_000)  # it stays in sync, however slow the machine
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]])
    node = cluster.nodes[2]
    await eventually(lambda: node.data_plane.fetchers._fetchers, "the fetcher")
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    fetcher._machine.remove_partitions([ORDERS])
    await eventually(lambda: not node.data_plane.fetchers._fetchers, "the fetcher to end")
    await cluster.kill(1)
    await cluster.wait_for_controller()
    await eventually(lambda: replica(node).leader is not None, "it to lead")
    assert node.failure is None


async def test_a_leader_that_is_not_registered_is_waited_for(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2)
    node = cluster.nodes[2]
    follower = await follows(node, 0)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    connection = await eventually(lambda: fetcher._calls.connection, "its connection")
    endpoint_of = node.data_plane.fetchers._parts.endpoint_of
    node.data_plane.fetchers._parts.endpoint_of = lambda _node_id: None
    connection.close()
    writing = (await dial(leader)).send_produce("orders", b"x")
    await turns(10)
    assert follower.log.log_end_offset == 0
    node.data_plane.fetchers._parts.endpoint_of = endpoint_of
    assert (await in_time(writing)).responses[0].partition_responses[0].error_code == 0


@pytest.mark.spec("R12")
@pytest.mark.parametrize(
    "error", [IllegalLogState("the base is not the end"), KafkaError(ErrorCode.CORRUPT_MESSAGE, "damaged")]
)
async def test_an_append_that_fails_hurts_its_partition_only(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    leader = await started(cluster, 1, 2)
    tp = await create_topic(cluster.controller, "other", replicas=[[1, 2]])
    await eventually(lambda: leader.replicas.get(tp), "the leader to hear of it, as the follower may before it")
    node = cluster.nodes[2]
    other = await follows(node, 0, tp)
    await follows(node, 0)

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(replica(node).log, "append_as_follower", refuse)
    client = await dial(leader)
    await client.produce("orders", b"x", acks=1)
    assert (await client.produce("other", b"y")).error_code == 0
    assert other.log.log_end_offset == 1
    assert replica(node).log.log_end_offset == 0
    assert node.failure is None


def flip(path: Path, position: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


@pytest.mark.spec("P5")
async def test_a_leader_whose_own_bytes_went_bad_hands_over_and_fetches_them_again(
    cluster: Cluster, dial: Dial
) -> None:
    """Finding: followers refused its bytes for ever, and it never looked at them."""
    leader = await started(cluster, 1, 2, 3, min_insync_replicas=2)
    client = await dial(leader)
    await client.produce("orders", b"before")
    ahead, behind = await follows(cluster.nodes[2], 1), await follows(cluster.nodes[3], 1)
    cluster.nodes[3].data_plane.fetchers.unfollow([ORDERS])
    await client.produce("orders", b"committed", acks=1)
    await eventually(lambda: ahead.log.log_end_offset == 2, "a member of the ISR to have it")
    active = replica(leader).log.segments.active
    flip(Path(active.path(".log")), -1)
    assert active.tail is not None
    active.tail.newest = None  # as after a further write: the last one is not read from the file
    with capture_logs() as logs:
        cluster.nodes[3].data_plane.fetchers.follow(behind)
        await eventually(lambda: ahead.leader is not None, "the member that has it to lead")
        whole = await follows(cluster.nodes[1], 2), await follows(cluster.nodes[3], 2)
    assert [line["partition"] for line in logs if line["event"] == "replica damaged"] == ["orders-0"]
    assert {tuple(values(each)) for each in (ahead, *whole)} == {(b"before", b"committed")}


@pytest.mark.spec("P5")
async def test_a_base_offset_that_rose_on_the_leader_s_disk_is_no_gap(cluster: Cluster, dial: Dial) -> None:
    """Finding: as the last batch of an answer it was appended, far behind the follower's end, who stayed in the ISR."""
    await cluster.start(replica_fetch_max_bytes=1)  # an answer is one batch
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]], min_insync_replicas=2)
    leader = cluster.nodes[1]
    await eventually(lambda: leader.replicas.get(ORDERS), "the leader's replica")
    client = await dial(leader)
    for number in range(4):
        await client.produce("orders", b"%d" % number)
    ahead, behind = await follows(cluster.nodes[2], 4), await follows(cluster.nodes[3], 4)
    cluster.nodes[3].data_plane.fetchers.unfollow([ORDERS])
    for number in range(4, 12):
        await client.produce("orders", b"%d" % number, acks=1)
    await eventually(lambda: ahead.log.log_end_offset == 12, "a member of the ISR to have all")
    segment = replica(leader).log.segments.active
    found = find(segment, 4)
    assert found is not None
    flip(Path(segment.path(".log")), found[0] + 7, bit=2)  # 4 becomes 6
    with capture_logs() as logs:
        cluster.nodes[3].data_plane.fetchers.follow(behind)
        await eventually(lambda: ahead.leader is not None, "the member that has all to lead")
        whole = await follows(cluster.nodes[1], 12), await follows(cluster.nodes[3], 12)
    assert [line["partition"] for line in logs if line["event"] == "replica damaged"] == ["orders-0"]
    assert {tuple(values(each)) for each in (ahead, *whole)} == {tuple(b"%d" % number for number in range(12))}


@pytest.mark.spec("P5")
async def test_a_follower_that_cannot_append_what_is_whole_costs_the_leader_little(
    cluster: Cluster, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await started(cluster, 1, 2)
    await follows(cluster.nodes[2], 0)
    jobs = []
    prepare = replica(leader).log.prepare_verification

    def prepared(offset: int, size: int) -> ReadJob[None] | None:
        jobs.append(offset)
        return prepare(offset, size)

    def refuse(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "its memory is bad")

    monkeypatch.setattr(replica(leader).log, "prepare_verification", prepared)
    with capture_logs() as logs:
        with monkeypatch.context() as broken:
            broken.setattr(replica(cluster.nodes[2]).log, "append_as_follower", refuse)
            await (await dial(leader)).produce("orders", b"x", acks=1)
            await eventually(lambda: len(jobs) == 2, "the leader to look, and to look again later")
        await follows(cluster.nodes[2], 1)
    refused = sum(line["event"] == "following is delayed" for line in logs)
    assert refused > len(jobs)
    assert leader.replicas.leader_of(ORDERS).log.corruption is None
    assert any(line["event"].startswith("a follower cannot append") for line in logs)


@pytest.mark.spec("R17")
@pytest.mark.spec("R18")
async def test_neither_a_former_process_of_a_replica_nor_a_stranger_gets_or_counts_for_anything(
    cluster: Cluster, dial: Dial
) -> None:
    leader = await started(cluster, 1, 2)
    await (await dial(leader)).produce("orders", b"a")
    await follows(cluster.nodes[2], 1)
    state = led(leader, ORDERS).leader
    assert state is not None

    async def fetch(node_id: int, *, age: int) -> tuple[int, bytes]:
        """The error and the records that a process of a node gets that registered ``age`` before the present one."""
        node = cluster.nodes[node_id]
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=node_id, replica_epoch=node.control_plane.lifecycle.broker_epoch - age
            ),
            topics=[FetchTopic(topic_id=led(leader, ORDERS).topic_id, partitions=[asked])],
            session_epoch=-1,
        )
        peer = await PeerConnection.open(listener_of(leader, "REPLICATION").endpoint, node.identity, 1)
        try:
            answer = await peer.call(request, FetchResponse, timeout_s=30)
        finally:
            peer.close()
        (data,) = answer.responses[0].partitions
        return data.error_code, bytes(data.records or b"")

    assert await fetch(2, age=1) == (ErrorCode.STALE_BROKER_EPOCH, b"")
    with capture_logs() as said:
        assert await fetch(3, age=0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
    assert "fetch by a broker without a replica" in [line["event"] for line in said]
    assert not [line for line in said if line["log_level"] == "warning"], "its metadata is older for a moment"
    assert {member.replica_id: member.log_end_offset for member in state._remotes} == {2: 1}
    error, records = await fetch(2, age=0)
    assert (error, values_in(records)) == (0, [b"a"])


@pytest.mark.spec("R26")
@pytest.mark.spec("R4", "P5")
async def test_who_is_to_cut_below_its_high_watermark_leaves_the_isr_first(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2)
    await (await dial(leader)).produce("orders", b"a", b"b")
    follower = await follows(cluster.nodes[2], 2)
    (fetcher,) = cluster.nodes[2].data_plane.fetchers._fetchers.values()
    with capture_logs() as said:
        await fetcher._carry_out([do.TruncateTo(ORDERS, 1)])
        assert follower.log.log_end_offset == 2, "others may count on it"
        await eventually(lambda: "the log is whole again" in events(said), "the damage to be mended")
    assert events(said, "error") == [replica_effects.Saying.FOLLOWER_DIVERGES.value]
    assert "refetching from where the log is damaged" in events(said)
    await follows(cluster.nodes[2], 2)
    await in_sync(leader, 1, 2)
    assert values(follower) == [b"a", b"b"]


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
async def test_a_leader_that_lost_its_tail_has_nobody_cut_to_it(cluster: Cluster, dial: Dial) -> None:
    leader = await started(cluster, 1, 2, 3)
    await (await dial(leader)).produce("orders", b"a")
    await (await dial(leader)).produce("orders", b"b")
    followers = [await follows(cluster.nodes[node_id], 2) for node_id in (2, 3)]
    short = led(leader, ORDERS)
    job = short.log.prepare_truncation(1)
    assert job is not None
    job.run()
    short.log.complete_cut(job)
    with capture_logs() as said:
        for node_id in (2, 3):  # as with a new leader epoch: it is asked where it ends, and told what is known
            fetchers = cluster.nodes[node_id].data_plane.fetchers
            fetchers.unfollow([ORDERS])
            fetchers.follow(replica(cluster.nodes[node_id]))
        await eventually(lambda: "the log is whole again" in events(said), "the leader to hand over and be mended")
    assert events(said, "error") == [replica_effects.Saying.LEADER_FALLS_SHORT.value]
    assert short.leader is None
    await follows(leader, 2)
    assert values(short) == values(followers[0]) == values(followers[1]) == [b"a", b"b"]


@pytest.mark.spec("R26")
async def test_whom_a_follower_waits_for_is_said(cluster: Cluster) -> None:
    leader = await started(cluster, 1, 2)
    with capture_logs() as said:
        waits = replica_effects.Say(replica_effects.Saying.FOLLOWER_WAITS, 5, 8, (3,))
        leader.data_plane.driver.carry_out(led(leader, ORDERS), [waits])
    (line,) = [line for line in said if line["event"] == replica_effects.Saying.FOLLOWER_WAITS.value]
    assert (line["log_level"], line["unheard"], line["partition"]) == ("warning", [3], str(ORDERS))


def events(said: list[MutableMapping[str, Any]], *levels: str) -> list[str]:
    return [line["event"] for line in said if not levels or line["log_level"] in levels]


async def test_a_directory_that_fails_does_not_end_the_fetcher(cluster: Cluster, dial: Dial) -> None:
    """A log refuses as soon as its directory failed; its partition hears of that a moment later."""
    leader = await started(cluster, 1, 2)
    await (await dial(leader)).produce("orders", b"a", b"b")
    node = cluster.nodes[2]
    follower = await follows(node, 2)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    node.data_plane.fetchers.unfollow([ORDERS])
    follower.log.go_offline(StorageFailure("its directory failed"))
    await fetcher._carry_out([do.Append(ORDERS, b"", 2, 0)])
    assert follower.replica.is_offline


async def test_effects_for_what_is_not_followed_any_more_are_nothing(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    node = cluster.nodes[2]
    await follows(node, 0)
    (fetcher,) = node.data_plane.fetchers._fetchers.values()
    gone = TopicPartition("gone", 0)
    append = do.Append(gone, b"", 0, 0)
    for effect in (append, do.RestartAt(gone, 5), do.FollowOffsets(gone, 1, 1)):
        await fetcher._carry_out([effect])
    assert node.failure is None
