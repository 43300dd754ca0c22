"""Requests to the group coordinator that it must refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from live_cluster import eventually
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.leave_group import LeaveGroupRequest
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopics
from minikafka.wire.messages.sync_group import SyncGroupRequest

pytestmark = [pytest.mark.spec("P6"), pytest.mark.usefixtures("nodes_are_unharmed")]

GROUP = "troubled-group"


@pytest.fixture
def coordinator(server: LocalCluster, wire: Wire) -> Iterator[Wire]:
    """A connection to the coordinator of the group, once it is ready."""

    def find() -> int:
        answer = wire.ask(FindCoordinatorRequest(key=GROUP), 2)
        return int(answer.node_id) if answer.error_code == ErrorCode.NONE else 0

    node_id = eventually(find, "a coordinator")
    with Wire(server.layout.client_port(node_id)) as connection:
        heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")
        known = ErrorCode.UNKNOWN_MEMBER_ID  # while it loads, every heartbeat is good
        eventually(lambda: connection.ask(heartbeat, 3).error_code == known, "the coordinator to be ready")
        yield connection


def join(wire: Wire, group: str = GROUP, *, session_ms: int = 10_000, member_id: str = "") -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    return wire.ask(request, 5)


@pytest.mark.parametrize("session_ms", [0, -1, 5999, 1_800_001, 2**31 - 1])
def test_a_session_time_out_out_of_range_is_refused(coordinator: Wire, session_ms: int) -> None:
    assert join(coordinator, session_ms=session_ms).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_an_empty_group_id_is_refused_everywhere(wire: Wire, coordinator: Wire) -> None:
    invalid = ErrorCode.INVALID_GROUP_ID
    assert join(wire, "").error_code == invalid
    assert wire.ask(FindCoordinatorRequest(key=""), 2).error_code == invalid
    assert wire.ask(SyncGroupRequest(group_id=""), 3).error_code == invalid
    assert wire.ask(HeartbeatRequest(group_id=""), 3).error_code == invalid
    assert wire.ask(LeaveGroupRequest(group_id="", member_id="m"), 1).error_code == invalid
    assert wire.ask(DeleteGroupsRequest(groups_names=[""]), 1).results[0].error_code == invalid
    assert wire.ask(DescribeGroupsRequest(groups=[""]), 4).groups[0].error_code == invalid
    assert wire.ask(OffsetFetchRequest(group_id="", topics=None), 7).error_code == invalid


def test_a_member_that_is_not_known_is_refused(coordinator: Wire) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert join(coordinator, member_id="nobody").error_code == unknown
    assert coordinator.ask(HeartbeatRequest(group_id=GROUP, member_id="nobody"), 3).error_code == unknown
    assert coordinator.ask(SyncGroupRequest(group_id=GROUP, member_id="nobody"), 3).error_code == unknown
    assert coordinator.ask(LeaveGroupRequest(group_id=GROUP, member_id="nobody"), 1).error_code == unknown


def test_a_stale_generation_is_refused(coordinator: Wire) -> None:
    member_id = join(coordinator).member_id
    joined = join(coordinator, member_id=member_id)
    assert joined.error_code == ErrorCode.NONE
    stale = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id + 7, member_id=member_id)
    assert coordinator.ask(stale, 3).error_code == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.ask(LeaveGroupRequest(group_id=GROUP, member_id=member_id), 1).error_code == ErrorCode.NONE


def commit(wire: Wire, topic: str, *, generation: int = -1, member_id: str = "", metadata: str = "") -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata=metadata)
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return int(wire.ask(request, 7).topics[0].partitions[0].error_code)


def test_a_commit_that_does_not_fit_is_refused(coordinator: Wire, topic: str) -> None:
    eventually(lambda: coordinator.has_topic(topic), "the coordinator to know the topic")
    assert commit(coordinator, topic, generation=5, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, "no-such-topic") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(coordinator, topic, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(coordinator, topic) == ErrorCode.NONE


def test_an_unknown_group_has_no_offsets_and_no_error(coordinator: Wire, topic: str) -> None:
    # The group must have this coordinator: its own name with an offset that it never committed will do.
    request = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])])
    answer = coordinator.ask(request, 7)
    found = answer.topics[0].partitions[0]
    assert (answer.error_code, found.error_code, found.committed_offset) == (ErrorCode.NONE, ErrorCode.NONE, -1)


def test_another_node_is_not_the_coordinator(server: LocalCluster, wire: Wire, coordinator: Wire) -> None:
    codes = []
    for node_id in server.node_ids:
        with Wire(server.layout.client_port(node_id)) as node:
            codes.append(node.ask(HeartbeatRequest(group_id=GROUP, member_id="nobody"), 3).error_code)
    assert sorted(codes) == sorted([ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID])
