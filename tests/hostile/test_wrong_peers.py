"""A node that knows the cluster's secret and asks the controller and the quorum for what makes no sense.

It is no voter. What voters may send is tried in ``tests/unit/broker/drivers/test_wrong_peers.py``."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any, Final
from uuid import UUID

import msgpack
import pytest
from live_attack import Target
from test_mutations import SEED, mutated

from minikafka.errors import KafkaError
from minikafka.metadata.controller.elections import ElectionType
from minikafka.model import Endpoint, OffsetAndEpoch
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink
from minikafka.net.identity import Identity
from minikafka.raft.messages import FetchRequest, FetchSnapshotRequest, VoteRequest
from minikafka.wire.forwarded import encode_forwarded
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

pytestmark = pytest.mark.spec("P6")

CALLS: Final = int(os.environ.get("HOSTILE_SENT", "300"))
WE: Final = 9
TIMEOUT_S: Final = 2.0
REGISTRATION: Final = BrokerRegistrationRequest(
    broker_id=WE,
    cluster_id="another",
    incarnation_id=UUID(int=9),
    listeners=[Listener(name="CLIENT", host="host", port=9092)],
)
HEARTBEAT: Final = BrokerHeartbeatRequest(broker_id=WE, broker_epoch=1, current_metadata_offset=1)
GROWTH: Final = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="nowhere", count=3)])
ELECTION: Final = ElectLeadersRequest(
    election_type=ElectionType.PREFERRED, topic_partitions=[TopicPartitions(topic="nowhere", partitions=[0])]
)
REASSIGNMENT: Final = AlterPartitionReassignmentsRequest(
    topics=[ReassignableTopic(name="nowhere", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
)


def valid_calls(cluster_id: str) -> list[tuple[str, list[Any]]]:
    """Method and body of what a node of ours might ask, none of which changes anything."""
    end = OffsetAndEpoch(3, 1)
    return [
        ("raft", FetchRequest(cluster_id, WE, 1, end, 0, 0, 1 << 20).to_wire()),
        ("raft", FetchRequest(cluster_id, WE, 1, OffsetAndEpoch(0, 0), 0, 500, 1 << 20).to_wire()),
        ("raft", FetchSnapshotRequest(cluster_id, WE, 1, end, 0, 1 << 20).to_wire()),
        ("raft", VoteRequest(cluster_id, WE, 1, end, False).to_wire()),
        *(("broker", encode_forwarded(request)) for request in (REGISTRATION, HEARTBEAT)),
        *(("controller", encode_forwarded(request)) for request in (GROWTH, ELECTION, REASSIGNMENT)),
        ("describe-quorum", []),
        ("no such method", []),
    ]


def changed(body: list[Any], rng: random.Random) -> Any:
    """The body with accidents, where they leave a value."""
    while True:
        try:
            return msgpack.unpackb(mutated(msgpack.packb(body), rng), strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException):
            continue


async def _ask(target: Target, *, offsets: int) -> None:
    layout = target.cluster.layout
    identity = Identity(layout.cluster_id, WE, layout.secret_file.read_bytes().strip(), lambda: os.urandom(32))
    link = ControlLink(identity, 1, Endpoint("127.0.0.1", layout.ports(1)[2]))
    rng = random.Random(SEED)
    calls = valid_calls(layout.cluster_id)
    bodies = [(method, changed(body, rng)) for method, body in (rng.choice(calls) for _ in range(CALLS))]
    for offset in range(offsets):
        request = FetchRequest(layout.cluster_id, WE, 1, OffsetAndEpoch(offset, 1), 0, 0, 1 << 20)
        bodies.append(("raft", request.to_wire()))
    for method, body in bodies:
        try:
            await link.call(method, body, timeout_s=TIMEOUT_S)
        except (KafkaError, ChannelClosedError, TimeoutError):
            continue
    link.close()


def test_a_wrong_peer_harms_nobody(target: Target) -> None:
    """Among what it asks is every offset of the metadata log, those inside of batches too."""
    asyncio.run(_ask(target, offsets=50))
