"""A leader that comes back with records that nobody else has: it must give them up, and acknowledge nothing more.

How records come to be on one node alone, without any race: its followers are stopped (SIGSTOP), so that they fetch no
more. One fetch of theirs may still be parked at the leader and would carry the next records into their sockets; a bait
in another topic of the same fetcher brings it home first.
"""

from __future__ import annotations

import pytest
from live_cluster import PATIENCE_S, assert_replicas_equal, batches_on_disk, eventually, leader_of, partition_view
from live_wire import Wire, batch, fetch_request, produce_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode

TOPIC = "contested"
BAIT = "bait"
A, B, C = 1, 2, 3


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A topic that A leads, with the offsets 0 to 4 on every node."""
    with Wire(cluster.layout.client_port(A)) as wire:
        for name in (TOPIC, BAIT):
            wire.create_topic(name, [[A, B, C]])
            eventually(lambda name=name: leader_of(cluster, name) == A, f"A to lead {name}")  # type: ignore[misc]
        for number in range(5):
            assert eventually(lambda n=number: wire.produce(TOPIC, b"%d" % n) + 1, "a write") == number + 1  # type: ignore[misc]
    assert_replicas_equal(cluster, TOPIC)
    return TOPIC


def write_to_one_alone(cluster: LocalCluster, node_id: int, topic: str, *values: bytes) -> None:
    """Append records, acks=1, to a leader whose followers are paused, and see that nobody else has them."""
    with Wire(cluster.layout.client_port(node_id)) as wire:
        assert wire.produce(BAIT, b"takes home a parked fetch", acks=1) >= 0
        for value in values:
            assert wire.produce(topic, value, acks=1) >= 0


def values_on_disk(cluster: LocalCluster, node_id: int, topic: str) -> list[bytes | None]:
    return [record.value for batch in batches_on_disk(cluster, node_id, topic) for record in batch.records()]


def epochs_on_disk(cluster: LocalCluster, node_id: int, topic: str) -> list[tuple[int, int]]:
    """(epoch, start offset) of each leader that wrote to the log, as its batches tell."""
    starts: dict[int, int] = {}
    for each in batches_on_disk(cluster, node_id, topic):
        starts.setdefault(each.header.leader_epoch, each.header.base_offset)
    return sorted(starts.items())


@pytest.mark.spec("E5", "R4", "R14", "P1")
@pytest.mark.parametrize("fate", [pytest.param("killed", marks=pytest.mark.long), "paused"])
def test_the_example_of_row_e5(cluster: LocalCluster, topic: str, fate: str) -> None:
    """A has 0..6, B and C have 0..4; B leads and appends 5..7; A returns, cuts 5 and 6 and fetches 5..7."""
    epoch = batches_on_disk(cluster, A, topic)[0].header.leader_epoch
    cluster.pause(B, C)
    write_to_one_alone(cluster, A, topic, b"5 of A", b"6 of A")
    assert len(values_on_disk(cluster, A, topic)) == 7
    assert len(values_on_disk(cluster, B, topic)) == len(values_on_disk(cluster, C, topic)) == 5
    if fate == "killed":
        cluster.kill(A)
    else:
        cluster.pause(A)
    cluster.resume(B, C)

    eventually(lambda: leader_of(cluster, topic) in (B, C), "another node to lead")
    with Wire(cluster.layout.client_port(leader_of(cluster, topic))) as wire:
        for number in (5, 6, 7):
            value = b"%d of the next leader" % number
            assert eventually(lambda value=value: wire.produce(topic, value) + 1, "a write") == number + 1  # type: ignore[misc]
    if fate == "killed":
        cluster.start_node(A, PATIENCE_S)
    else:
        cluster.resume(A)
        cluster.wait_ready(timeout_s=PATIENCE_S)

    cluster.wait_in_sync(PATIENCE_S)
    assert_replicas_equal(cluster, topic)
    expected = [b"0", b"1", b"2", b"3", b"4"] + [b"%d of the next leader" % number for number in (5, 6, 7)]
    assert values_on_disk(cluster, A, topic) == expected
    (first, second) = epochs_on_disk(cluster, A, topic)
    assert first == (epoch, 0)
    assert second[0] > epoch
    assert second[1] == 5


@pytest.mark.spec("E6", "R20", "R23", "P1")
def test_a_zombie_acknowledges_nothing_to_acks_all(cluster: LocalCluster, topic: str) -> None:
    """It is asked to write while it sleeps, and answers when it wakes: by then it leads no more."""
    with Wire(cluster.layout.client_port(A)) as to_one, Wire(cluster.layout.client_port(A)) as to_all:
        one, every = batch(b"to the zombie, acks=1"), batch(b"to the zombie, acks=all")
        cluster.pause(A)
        to_one.send(produce_request(topic, one, acks=1), 9)
        to_all.send(produce_request(topic, every, acks=-1), 9)

        eventually(lambda: leader_of(cluster, topic) != A, "another node to lead")
        leader = leader_of(cluster, topic)
        with Wire(cluster.layout.client_port(leader)) as wire:
            assert eventually(lambda: wire.produce(topic, b"to the leader") + 1, "a write") == 6
        cluster.resume(A)

        answer = to_all.receive(produce_request(topic, every), 9).responses[0].partition_responses[0]
        assert answer.error_code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.REQUEST_TIMED_OUT,
        )
        to_one.receive(produce_request(topic, one), 9)  # whatever it says: acks=1 promises nothing here

    cluster.wait_ready(timeout_s=PATIENCE_S)
    assert_replicas_equal(cluster, topic)
    values = values_on_disk(cluster, A, topic)
    assert values == [b"0", b"1", b"2", b"3", b"4", b"to the leader"]


@pytest.mark.spec("R15", "E6")
def test_a_zombie_shows_consumers_nothing_that_was_not_acknowledged(cluster: LocalCluster, topic: str) -> None:
    cluster.pause(B, C)
    write_to_one_alone(cluster, A, topic, b"never acknowledged by all")
    with Wire(cluster.layout.client_port(A)) as wire:
        answer = wire.ask(fetch_request(topic, 0), 11).responses[0].partitions[0]
        assert answer.high_watermark == 5
        assert b"never acknowledged" not in bytes(answer.records)
    cluster.resume(B, C)
    cluster.wait_ready(timeout_s=PATIENCE_S)
    assert_replicas_equal(cluster, topic)


@pytest.mark.spec("R15", "E6", "P1")
def test_a_zombie_that_wakes_shows_consumers_nothing_that_another_leader_replaced(
    cluster: LocalCluster, topic: str
) -> None:
    """Asked while it sleeps, it answers when it wakes: with what was committed, or that it leads no more."""
    cluster.pause(B, C)
    write_to_one_alone(cluster, A, topic, b"5 of A", b"6 of A")
    with Wire(cluster.layout.client_port(A)) as from_start, Wire(cluster.layout.client_port(A)) as from_end:
        cluster.pause(A)
        from_start.send(fetch_request(topic, 0), 11)
        from_end.send(fetch_request(topic, 5), 11)
        cluster.resume(B, C)
        eventually(lambda: leader_of(cluster, topic) in (B, C), "another node to lead")
        with Wire(cluster.layout.client_port(leader_of(cluster, topic))) as wire:
            assert eventually(lambda: wire.produce(topic, b"5 of the next leader") + 1, "a write") == 6
        cluster.resume(A)
        for wire in (from_start, from_end):
            answer = wire.receive(fetch_request(topic, 0), 11).responses[0].partitions[0]
            assert answer.error_code in (
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.OFFSET_OUT_OF_RANGE,
            )
            assert b" of A" not in bytes(answer.records or b"")
            assert answer.error_code or answer.high_watermark <= 6
    cluster.wait_ready(timeout_s=PATIENCE_S)
    assert_replicas_equal(cluster, topic)
    assert values_on_disk(cluster, A, topic)[5:] == [b"5 of the next leader"]


@pytest.mark.spec("R19", "R20", "R18")
def test_a_paused_follower_leaves_the_isr_and_returns(cluster: LocalCluster, topic: str) -> None:
    cluster.pause(C)
    with Wire(cluster.layout.client_port(A)) as wire:
        assert eventually(lambda: wire.produce(topic, b"without C") + 1, "a write") == 6
    eventually(lambda: set(partition_view(cluster, topic).in_sync_replicas) == {A, B}, "C to leave the ISR")
    cluster.resume(C)
    eventually(lambda: set(partition_view(cluster, topic).in_sync_replicas) == {A, B, C}, "C to return")
    assert_replicas_equal(cluster, topic)
