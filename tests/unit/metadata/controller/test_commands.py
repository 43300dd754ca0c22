"""Commands and responses on their way between nodes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgpack
import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import (
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    ConfigValue,
    CreateTopics,
    DirectoryAssignment,
    ElectionType,
    ElectLeaders,
    NewTopic,
    ReassignPartition,
    ReassignTopic,
    RegisterBroker,
    ReplicaAssignment,
    UnregisterBroker,
    decode_command,
    decode_response,
)
from minikafka.model import Endpoint, TopicPartition

COMMANDS = [
    RegisterBroker(1, "c", UUID(int=5), {"CLIENT": Endpoint("h", 1)}, None, (UUID(int=6),), previous_broker_epoch=7),
    BrokerHeartbeat(1, 2, 3, want_shutdown=True, offline_log_dirs=(UUID(int=6),)),
    AlterPartitionReassignments(
        (ReassignTopic("t", (ReassignPartition(0, (1, 2)), ReassignPartition(1, None))),), False
    ),
    UnregisterBroker(1),
    AssignReplicasToDirs(1, 2, (DirectoryAssignment(UUID(int=5), 0, UUID(int=6)),)),
    CreateTopics((NewTopic("t", -1, -1, (ReplicaAssignment(0, (1, 2)),), (ConfigValue("a", None),)),), True),
    ElectLeaders(ElectionType.UNCLEAN, (TopicPartition("t", 1),)),
    ElectLeaders(ElectionType.PREFERRED),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_there_and_back(command: Any) -> None:
    wire = msgpack.unpackb(msgpack.packb(command.to_wire()))
    decoded = decode_command(wire)
    assert decoded == command
    assert type(decoded) is type(command)


@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        (None, "not a controller command"),
        ([], "not a controller command"),
        (["1"], "not a controller command"),
        ([[1]], "not a controller command"),
        ([True, 1, 2, 3, False, False], "not a controller command"),
        ([99], "command 99 is unknown"),
        ([2, 1, 2], "BrokerHeartbeat: 6 fields are expected"),
        ([2, 1, 2, 3, False, False, [], 1], "BrokerHeartbeat: 6 fields are expected"),
        ([2, 1, 2, 3, False, 0], "BrokerHeartbeat.want_shutdown: bool is expected"),
    ],
)
def test_refuses_what_is_none(wire: Any, problem: str) -> None:
    with pytest.raises(KafkaError, match=problem) as raised:
        decode_command(wire)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_a_command_of_an_older_node_lacks_what_came_since() -> None:
    assert decode_command([2, 1, 2, 3, False, True]) == BrokerHeartbeat(1, 2, 3, want_shutdown=True)


def test_responses() -> None:
    command = BrokerHeartbeat(1, 2, 3)
    response = BrokerHeartbeatResponse(True, False, False)
    assert decode_response(command, response.to_wire()) == response
    with pytest.raises(KafkaError, match="malformed") as raised:
        decode_response(command, [1])
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
