"""The picture of the cluster is kept current, and topics are waited for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from scripted_cluster import HANG, HANG_UP, ScriptedCluster, until

from minikafka.client import metadata as metadata_module
from minikafka.client.connections import Connections
from minikafka.client.errors import UnreachableError
from minikafka.client.metadata import Metadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.tasks import TaskOwner
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.metadata import MetadataRequest


class Client:
    """Connections with metadata, and how often it was updated."""

    def __init__(self, servers: str, max_age_s: float = 300) -> None:
        rng = random.Random(1)
        self.failures: list[BaseException] = []
        self.updates = 0
        self.connections = Connections(servers, client_id="test", rng=rng)
        self.tasks = TaskOwner("test", lambda name, error: self.failures.append(error))
        self.metadata = Metadata(self.connections, self.tasks, rng, self._on_update, max_age_s=max_age_s)

    def _on_update(self) -> None:
        self.updates += 1

    async def start(self) -> None:
        await self.connections.bootstrap()
        self.metadata.start()

    async def close(self) -> None:
        await self.tasks.close()
        await self.connections.close()
        assert not self.failures


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[Client]:
    made = Client(cluster.servers)
    await made.start()
    yield made
    await made.close()


async def test_a_topic_is_found_and_kept_current(cluster: ScriptedCluster, client: Client) -> None:
    view = await client.metadata.topic("t", timeout_s=30, may_create=False)
    assert len(view.partitions) == 2
    cluster.partition(0).lead(2)
    client.metadata.request_refresh()
    await until(lambda: client.connections.cluster.topics["t"].partitions[0].leader == 2)


async def test_many_who_wait_for_a_topic_cause_few_requests(cluster: ScriptedCluster, client: Client) -> None:
    before = len(cluster.asked(MetadataRequest))
    waiting = (client.metadata.topic("t", timeout_s=30, may_create=True) for _ in range(100))
    await asyncio.gather(*waiting)
    assert len(cluster.asked(MetadataRequest)) - before <= 4


async def test_a_topic_may_be_created_on_the_way(cluster: ScriptedCluster, client: Client) -> None:
    waiting = asyncio.ensure_future(client.metadata.topic("new", timeout_s=30, may_create=True))
    await until(lambda: any(request.allow_auto_topic_creation for request in cluster.asked(MetadataRequest)))
    cluster.create_topic("new", leaders=[1])
    assert (await waiting).is_usable


async def test_only_the_topic_that_is_waited_for_may_be_created(cluster: ScriptedCluster, client: Client) -> None:
    await client.metadata.topic("t", timeout_s=30, may_create=True)
    cluster.requests.clear()
    with pytest.raises(KafkaError):
        await client.metadata.topic("new", timeout_s=0.05, may_create=True)
    for request in cluster.asked(MetadataRequest):
        names = [topic.name for topic in request.topics]
        assert request.allow_auto_topic_creation == ("new" in names)
        assert not ("t" in names and "new" in names)


async def test_a_topic_that_does_not_exist_is_given_up_and_forgotten(cluster: ScriptedCluster, client: Client) -> None:
    with pytest.raises(KafkaError, match="topic 'new' not found") as raised:
        await client.metadata.topic("new", timeout_s=0.05, may_create=False)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "new" not in client.metadata.topics


async def test_one_who_gives_up_leaves_the_topic_to_the_others(cluster: ScriptedCluster, client: Client) -> None:
    """Whoever asked first: it is asked for, and may be created, as long as somebody waits, and kept once found."""
    first, second = (
        asyncio.ensure_future(client.metadata.topic("new", timeout_s=10, may_create=True)) for _ in range(2)
    )
    await until(lambda: any(request.allow_auto_topic_creation for request in cluster.asked(MetadataRequest)))
    first.cancel()
    await asyncio.wait((first,))
    before = len(cluster.asked(MetadataRequest))
    await until(lambda: len(cluster.asked(MetadataRequest)) > before + 4)
    assert any(request.allow_auto_topic_creation for request in cluster.asked(MetadataRequest)[before + 2 :])
    cluster.create_topic("new", leaders=[1])
    assert (await second).is_usable
    assert client.metadata.topics == {"new"}


async def test_a_name_that_is_not_legal_is_refused_at_once(cluster: ScriptedCluster, client: Client) -> None:
    cluster.topic_errors["a/b"] = ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError, match="the cluster rejected topic 'a/b'"):
        await client.metadata.topic("a/b", timeout_s=60, may_create=True)


async def test_a_cluster_that_is_gone_is_named_as_the_reason(cluster: ScriptedCluster, client: Client) -> None:
    cluster.kill(1)
    cluster.kill(2)
    with pytest.raises(KafkaError, match="cannot look up topic 't': no broker answers"):
        await client.metadata.topic("t", timeout_s=0.1, may_create=False)


async def test_it_is_refreshed_when_it_is_old(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_module, "LOOK_INTERVAL_S", 0.01)
    client = Client(cluster.servers, max_age_s=0.02)
    await client.start()
    await until(lambda: client.updates > 3)
    await client.close()


async def test_refreshing_does_not_spin(cluster: ScriptedCluster, client: Client) -> None:
    cluster.on(ApiKey.METADATA, lambda node_id, request: HANG_UP)
    client.metadata.request_refresh()
    await until(lambda: client.updates >= 5)
    assert len(cluster.asked(MetadataRequest)) <= 12


async def test_when_an_answer_is_late_the_cluster_is_asked_whether_the_broker_lives(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is how a client leaves a broker that hangs: the others fence it, and then it is hung up on."""
    monkeypatch.setattr(metadata_module, "LOOK_INTERVAL_S", 0.01)
    client = Client(cluster.servers)
    await client.start()
    cluster.on(ApiKey.FIND_COORDINATOR, lambda node_id, request: HANG)
    connection = await client.connections.to_node(1, "group")
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    call = asyncio.ensure_future(connection.call(request, FindCoordinatorResponse, timeout_s=60, patience_s=0))
    await until(client.connections.has_slow_calls)
    cluster.live.discard(1)
    with pytest.raises(UnreachableError):
        await call
    await client.close()
