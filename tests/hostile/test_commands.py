"""Commands for the controller by the thousand, on three nodes, while a client writes.

They come through a node that passes them on, at the controller itself, and on the link between the two. All shared one
budget with the quorum's fetches and the heartbeats: 1,500 pipelined changes of a setting deposed the controller.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

import pytest
from live_attack import HONEST_TOPIC, Honest, Target
from live_cluster import PATIENCE_S, controller_of, http_get, metrics_url, running_cluster, wait_until_known
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import CLUSTER_METADATA_TOPIC, Endpoint, OffsetAndEpoch
from minikafka.net.control import ControlLink
from minikafka.net.identity import Identity
from minikafka.raft.messages import VoteRequest
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.forwarded import decode_answer, encode_forwarded
from minikafka.wire.headers import encode_request
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

pytestmark = pytest.mark.spec("P6")

COMMANDS: Final = 1_500
"""To each node, and on the link: more than may wait there (1,000, and 128 of a peer)."""
CONNECTIONS: Final = 2
"""One has no more than 1,000 requests under way."""
BETWEEN_OWN: Final = 50
VERSION: Final = 1


def command(number: int) -> IncrementalAlterConfigsRequest:
    """Changes a setting, each to another value."""
    configs = [AlterableConfig(name="retention.ms", config_operation=0, value=str(1_000_000_000 + number))]
    topic = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=HONEST_TOPIC, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[topic])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes. A busy machine deposes and fences none; a link that breaks is seen at once, by :func:`calling`."""
    long_ms = dict.fromkeys(("controller_quorum_fetch_timeout_ms", "broker_session_timeout_ms"), "30000")
    directory = tmp_path_factory.mktemp("commanded") / "cluster"
    with running_cluster(directory, metrics_listener="127.0.0.1:0", **long_ms) as cluster:
        with Wire(cluster.layout.client_port(1)) as wire:
            wire.create_topic(HONEST_TOPIC, [[1, 2, 3]])
        wait_until_known(cluster, HONEST_TOPIC, 1)
        yield cluster


def test_commands_by_the_thousand_depose_no_controller(cluster: LocalCluster) -> None:
    controller = controller_of(cluster)
    follower = next(node_id for node_id in cluster.node_ids if node_id != controller)
    said_before = {node_id: len(log_of(cluster, node_id)) for node_id in cluster.node_ids}
    led_before, calling_before = quorum(cluster, follower), calling(cluster, controller)
    with Honest(Target(cluster)) as honest, ThreadPoolExecutor(3) as pool:
        honest.wait_for(1)
        at_nodes = [pool.submit(pipelined, cluster.layout.client_port(each)) for each in (follower, controller)]
        on_link = pool.submit(asyncio.run, called(cluster, follower, controller, epoch=led_before[1]))
        to_commands, to_own = on_link.result()
        answers = [to_commands, *(each.result() for each in at_nodes)]
        honest.wait_for(honest.count + 3)
    assert not honest.failures
    assert all(each.total() == COMMANDS for each in answers)
    assert set(to_commands) == {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}, "too many are refused, for now"
    assert all(set(each) <= set(to_commands) for each in answers)
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED.retriable
    assert set(to_own) == {("raft", ErrorCode.NONE), ("broker", ErrorCode.STALE_BROKER_EPOCH)}, (
        "it waits for no command"
    )
    assert quorum(cluster, follower) == led_before
    assert calling(cluster, controller) == calling_before + 1, "no link but the test's was made anew"
    for node_id, before in said_before.items():
        said = log_of(cluster, node_id)[before:]
        assert "fenced" not in said
        assert "regist" not in said


def pipelined(port: int) -> Counter[ErrorCode]:
    """The answers to commands at a node's client port, which are all sent before the first answer is read."""
    found: Counter[ErrorCode] = Counter()
    bodies = [encode(command(number), VERSION) for number in range(COMMANDS // CONNECTIONS)]
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    sent = b"".join(encode_request(key, VERSION, number, "test", body) for number, body in enumerate(bodies))
    with ExitStack() as opened:
        wires = [opened.enter_context(Wire(port)) for _ in range(CONNECTIONS)]
        for wire in wires:
            wire.send_bytes(sent)
        for wire in wires:
            for _ in bodies:
                (result,) = wire.receive(command(0), VERSION).responses
                found[ErrorCode(result.error_code)] += 1
    return found


async def called(
    cluster: LocalCluster, follower: int, controller: int, *, epoch: int
) -> tuple[Counter[ErrorCode], Counter[tuple[str, ErrorCode]]]:
    """The answers to commands that follow one another on a link to the controller, as if the follower did not know how
    many it may send; and to what it asks for itself in between, of a former life so that nothing comes of it."""
    layout = cluster.layout
    identity = Identity(layout.cluster_id, follower, layout.secret_file.read_bytes().strip(), lambda: os.urandom(32))
    link = ControlLink(identity, controller, Endpoint("127.0.0.1", layout.ports(controller)[2]))
    vote = VoteRequest(layout.cluster_id, follower, epoch, OffsetAndEpoch(0, 0), True).to_wire()
    heartbeat = encode_forwarded(BrokerHeartbeatRequest(broker_id=follower, broker_epoch=0, current_metadata_offset=0))

    async def answer(method: str, body: Any) -> tuple[str, ErrorCode, Any]:
        try:
            return method, ErrorCode.NONE, await link.call(method, body, timeout_s=PATIENCE_S)
        except KafkaError as error:
            return method, error.code, None

    calls = []
    for number in range(COMMANDS):
        calls.append(answer("controller", encode_forwarded(command(number))))
        if number % BETWEEN_OWN == 0:
            calls += [answer("raft", vote), answer("broker", heartbeat)]
    answers = await asyncio.gather(*calls)
    link.close()
    to_commands: Counter[ErrorCode] = Counter()
    to_own: Counter[tuple[str, ErrorCode]] = Counter()
    for method, error, body in answers:
        if method != "controller":
            to_own[method, error] += 1
        elif body is None:
            to_commands[error] += 1
        else:
            (result,) = decode_answer(command(0), IncrementalAlterConfigsResponse, body).responses
            to_commands[ErrorCode(result.error_code)] += 1
    return to_commands, to_own


def quorum(cluster: LocalCluster, node_id: int) -> tuple[int, int]:
    """Who leads the quorum, and in which epoch."""
    topic = RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
    with Wire(cluster.layout.client_port(node_id)) as wire:
        answer = wire.ask(DescribeQuorumRequest(topics=[topic]), 2)
    (partition,) = answer.topics[0].partitions
    return partition.leader_id, partition.leader_epoch


def calling(cluster: LocalCluster, node_id: int) -> int:
    """Connections that were made to a node by others for calls, so far."""
    _, body = http_get(metrics_url(cluster, node_id), "/metrics")
    (made,) = re.findall(r'connection_creation_total{listener="CONTROLLER"} (\d+)', body)
    return int(made)


def log_of(cluster: LocalCluster, node_id: int) -> str:
    """All that a node logged."""
    return cluster.layout.log_file(node_id).read_text()
