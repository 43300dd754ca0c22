"""Reads that must be refused: beyond the log, in another epoch, out of session, in a broker's name."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from live_cluster import eventually, leader_of
from live_wire import Wire, fetch_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.metadata.controller.elections import ElectionType
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

pytestmark = [pytest.mark.spec("P6"), pytest.mark.usefixtures("nodes_are_unharmed")]


BEFORE_RACKS = 10  # the last version whose consumers read from leaders only


def fetched(wire: Wire, request: FetchRequest, version: int = 11) -> Any:
    """The partition's part of the answer."""
    answer = wire.ask(request, version)
    assert answer.error_code == ErrorCode.NONE
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("offset", [4, 10**9, 2**63 - 1, -1, -(2**63)])
def test_an_offset_outside_of_the_log_is_refused(wire: Wire, topic: str, offset: int) -> None:
    for number in range(3):
        wire.produce(topic, b"%d" % number)
    answer = fetched(wire, fetch_request(topic, offset, wait_ms=20_000))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not answer.records


def test_the_end_of_the_log_is_not_outside(wire: Wire, topic: str) -> None:
    wire.produce(topic, b"x")
    assert fetched(wire, fetch_request(topic, 1, wait_ms=1)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "partition"), [("no-such-topic", 0), ("", 0), ("../x", 0), ("honest", 999), ("honest", -1)]
)
def test_what_does_not_exist_is_not_read(wire: Wire, topic: str, name: str, partition: int) -> None:
    request = fetch_request(name, 0, wait_ms=20_000)
    request.topics[0].partitions[0].partition = partition
    assert fetched(wire, request).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_id_is_refused(wire: Wire) -> None:
    request = fetch_request("", 0, wait_ms=20_000)
    request.topics[0].topic_id = UUID(int=99)
    assert fetched(wire, request, 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_follower_serves_no_consumer_that_cannot_know_of_it(server: LocalCluster, topic: str) -> None:
    with Wire(server.layout.client_port(2)) as other:
        eventually(lambda: other.has_topic(topic), "node 2 to know the topic")
        code = eventually(lambda: fetched(other, fetch_request(topic, 0), BEFORE_RACKS).error_code, "an error")
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- epochs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moved_topic(server: LocalCluster) -> tuple[str, int]:
    """A topic whose leadership moved to node 1, and its leader epoch, which is above 0."""
    name = "moved"
    with Wire(server.layout.client_port(1)) as wire:
        wire.create_topic(name, [[3, 1, 2]])
        eventually(lambda: leader_of(server, name) == 3, "node 3 to lead")
        asked = [ReassignablePartition(partition_index=0, replicas=[1, 2, 3])]
        order = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=asked)])
        assert wire.ask(order, 0).responses[0].partitions[0].error_code == ErrorCode.NONE
        of = [TopicPartitions(topic=name, partitions=[0])]
        wire.ask(ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=of), 2)
        eventually(lambda: leader_of(server, name) == 1, "node 1 to lead")
        eventually(lambda: wire.produce(name, b"x") == 0, "a write to succeed")
        epoch = next(e for e in range(1, 100) if not fetched(wire, fetch_request(name, 0, epoch=e)).error_code)
    return name, epoch


@pytest.mark.spec("E6")
def test_a_fetch_in_another_epoch_is_fenced(wire: Wire, moved_topic: tuple[str, int]) -> None:
    name, epoch = moved_topic
    assert fetched(wire, fetch_request(name, 0, epoch=epoch)).error_code == ErrorCode.NONE
    assert fetched(wire, fetch_request(name, 0, epoch=-1)).error_code == ErrorCode.NONE
    stale = fetched(wire, fetch_request(name, 0, epoch=epoch - 1, wait_ms=20_000))
    assert stale.error_code == ErrorCode.FENCED_LEADER_EPOCH
    newer = fetched(wire, fetch_request(name, 0, epoch=epoch + 1, wait_ms=20_000))
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.spec("E6")
def test_offsets_are_not_listed_in_another_epoch(wire: Wire, moved_topic: tuple[str, int]) -> None:
    name, epoch = moved_topic

    def error(asked_epoch: int) -> int:
        partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=asked_epoch, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[partition])])
        return int(wire.ask(request, 7).topics[0].partitions[0].error_code)

    assert error(epoch) == ErrorCode.NONE
    assert error(epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.spec("E3")
def test_the_end_of_an_epoch_is_told_or_refused(server: LocalCluster, wire: Wire, moved_topic: tuple[str, int]) -> None:
    name, epoch = moved_topic

    def ask(to: Wire, topic: str, *, current: int, wanted: int, partition: int = 0) -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=wanted)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        )
        answer = to.ask(request, 4).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert ask(wire, name, current=epoch, wanted=epoch) == (ErrorCode.NONE, epoch, 1)
    assert ask(wire, name, current=epoch, wanted=epoch + 5) == (ErrorCode.NONE, -1, -1)
    assert ask(wire, name, current=epoch, wanted=-1) == (ErrorCode.NONE, -1, -1)
    assert ask(wire, name, current=epoch - 1, wanted=epoch)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(wire, name, current=epoch + 1, wanted=epoch)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(wire, name, current=-1, wanted=0, partition=5)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(wire, "no-such-topic", current=-1, wanted=0)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with Wire(server.layout.client_port(2)) as other:
        assert ask(other, name, current=-1, wanted=0)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R6")
def test_a_fetch_session_must_be_known_and_its_epoch_right(wire: Wire, topic: str) -> None:
    opened = wire.ask(fetch_request(topic, 0, session_epoch=0), 11)
    session = opened.session_id
    assert session > 0

    def go_on(session_id: int, epoch: int) -> Any:
        return wire.ask(FetchRequest(session_id=session_id, session_epoch=epoch), 11)

    assert go_on(session, 1).error_code == ErrorCode.NONE
    assert go_on(session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert go_on(0, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert go_on(session, 5).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert go_on(session, 1).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert go_on(session, 2).error_code == ErrorCode.NONE
    assert wire.ask(FetchRequest(session_id=session, session_epoch=-1), 11).error_code == ErrorCode.NONE
    assert go_on(session, 3).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# -- a broker's name --------------------------------------------------------------------------------------------------


@pytest.mark.spec("R17")
@pytest.mark.parametrize("version", [4, 11, 12, 15, 16])
@pytest.mark.parametrize("listener", [0, 1], ids=["client", "replication"])
def test_a_forged_follower_fetch_is_refused_and_moves_nothing(
    server: LocalCluster, wire: Wire, topic: str, version: int, listener: int
) -> None:
    """A client that names itself broker 2 and says it has everything: the high watermark must not believe it."""
    wire.produce(topic, b"x")
    asked = FetchPartition(partition=0, fetch_offset=10**6, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=2,
        replica_state=ReplicaState(replica_id=2, replica_epoch=-1),
        max_wait_ms=20_000,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    with Wire(server.layout.ports(1)[listener]) as forger:
        if listener == 1:  # nobody is heard there who did not prove the cluster secret
            forger.send(request, version)
            assert forger.is_closed_by_node()
        else:
            answer = forger.ask(request, version)
            codes = {answer.error_code} | {p.error_code for each in answer.responses for p in each.partitions}
            assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes or version < 7
            assert not any(p.records for each in answer.responses for p in each.partitions)
    assert fetched(wire, fetch_request(topic, 0)).high_watermark == 1
