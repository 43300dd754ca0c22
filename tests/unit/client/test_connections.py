"""Addresses, versions, who is asked, and what happens to connections that break or hang."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from scripted_cluster import HANG, HANG_UP, ScriptedCluster, until

from minikafka.client import connections as connections_module
from minikafka.client.backoff import retrying
from minikafka.client.broker_connection import BrokerConnection, api_key_of
from minikafka.client.connections import Connections, parse_bootstrap_servers
from minikafka.client.errors import UnreachableError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.api_versions import ApiVersionsRequest
from minikafka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.metadata import MetadataRequest, MetadataResponse


@pytest.fixture
async def connections(cluster: ScriptedCluster) -> AsyncIterator[Connections]:
    made = Connections(cluster.servers, client_id="test", rng=random.Random(1), request_timeout_s=5)
    yield made
    await made.close()


def endpoint(cluster: ScriptedCluster, node_id: int) -> Endpoint:
    return Endpoint("127.0.0.1", cluster.ports[node_id])


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("a:1", [Endpoint("a", 1)]),
        (" a:1 , b.c:65535,", [Endpoint("a", 1), Endpoint("b.c", 65535)]),
        ("[::1]:9092", [Endpoint("::1", 9092)]),
    ],
)
def test_bootstrap_servers(text: str, endpoints: list[Endpoint]) -> None:
    assert parse_bootstrap_servers(text) == endpoints


@pytest.mark.parametrize("entry", ["a", "a:", ":1", "a:0", "a:65536", "a:b", "a:-1", "::1:9092", "a:\u0661"])
def test_a_wrong_bootstrap_server_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match=f"bootstrap server '{entry}' is not HOST:PORT"):
        parse_bootstrap_servers(f"ok:1,{entry}")


@pytest.mark.parametrize("text", ["", " , "])
def test_no_bootstrap_server(text: str) -> None:
    with pytest.raises(ValueError, match="no bootstrap server"):
        parse_bootstrap_servers(text)


def test_the_api_of_every_request() -> None:
    for key in ApiKey:
        assert api_key_of(key.request_class) is key


# -- one connection ---------------------------------------------------------------------------------------------------


async def test_the_newest_common_version_is_used(cluster: ScriptedCluster) -> None:
    cluster.versions = {ApiKey.METADATA: (0, 5), ApiKey.CREATE_TOPICS: (8, 9)}
    connection = await BrokerConnection.open(endpoint(cluster, 1), "test")
    assert connection.version_for(ApiKey.METADATA) == 5
    assert connection.version_for(ApiKey.METADATA, at_most=3) == 3
    assert connection.version_for(ApiKey.FETCH) == ApiKey.FETCH.versions.last
    with pytest.raises(KafkaError, match="does not support CreateTopics"):
        await connection.call(CreateTopicsRequest(), CreateTopicsResponse, timeout_s=5)
    connection.close()


async def test_an_old_broker_answers_in_version_0(cluster: ScriptedCluster) -> None:
    cluster.versions = {ApiKey.API_VERSIONS: (0, 2)}
    connection = await BrokerConnection.open(endpoint(cluster, 1), "test")
    assert connection.version_for(ApiKey.FETCH) == ApiKey.FETCH.versions.last
    connection.close()


async def test_an_address_where_nobody_listens(cluster: ScriptedCluster) -> None:
    cluster.kill(1)
    with pytest.raises(UnreachableError, match=r"cannot reach .*: connection refused"):
        await BrokerConnection.open(endpoint(cluster, 1), "test")


async def test_an_address_where_something_else_listens() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + await reader.read(1) * 0)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    with pytest.raises(UnreachableError):
        await BrokerConnection.open(Endpoint(host, port), "test")
    server.close()


async def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(UnreachableError, match="cannot reach"):
        await BrokerConnection.open(Endpoint("no-such-host.invalid", 1), "test")


async def test_a_broken_connection_fails_its_calls(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.METADATA, lambda node_id, request: HANG_UP)
    connection = await BrokerConnection.open(endpoint(cluster, 1), "test")
    with pytest.raises(UnreachableError):
        await connection.call(MetadataRequest(topics=[]), MetadataResponse, timeout_s=5)
    assert not connection.is_open


async def test_a_call_that_times_out_closes_the_connection(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.METADATA, lambda node_id, request: HANG)
    connection = await BrokerConnection.open(endpoint(cluster, 1), "test")
    with pytest.raises(KafkaError) as raised:
        await connection.call(MetadataRequest(topics=[]), MetadataResponse, timeout_s=0.05)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert not connection.is_open


async def test_a_message_that_cannot_be_written_is_our_mistake(cluster: ScriptedCluster) -> None:
    connection = await BrokerConnection.open(endpoint(cluster, 1), "test")
    with pytest.raises(KafkaError) as raised:
        await connection.call(CreateTopicsRequest(timeout_ms=1 << 40), CreateTopicsResponse, timeout_s=5)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert connection.is_open
    connection.close()


async def test_late_answers_are_noticed(cluster: ScriptedCluster, connections: Connections) -> None:
    cluster.on(ApiKey.METADATA, lambda node_id, request: HANG)
    connection = await connections.to_endpoint(endpoint(cluster, 1))
    request = MetadataRequest(topics=[])
    call = asyncio.ensure_future(connection.call(request, MetadataResponse, timeout_s=5, patience_s=0))
    await until(connections.has_slow_calls)
    connection.close()
    with pytest.raises(UnreachableError):
        await call
    assert not connections.has_slow_calls()


# -- all of them ------------------------------------------------------------------------------------------------------


async def test_those_who_want_the_same_connection_share_the_attempt(
    cluster: ScriptedCluster, connections: Connections
) -> None:
    where = endpoint(cluster, 1)
    made = await asyncio.gather(*(connections.to_endpoint(where) for _ in range(5)))
    assert len(set(map(id, made))) == 1
    assert len(cluster.asked(ApiVersionsRequest)) == 1
    assert await connections.to_endpoint(where, "other") is not made[0]


async def test_a_waiter_that_is_cancelled_does_not_disturb_the_others(
    cluster: ScriptedCluster, connections: Connections
) -> None:
    first, second = (asyncio.ensure_future(connections.to_endpoint(endpoint(cluster, 1))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).is_open


async def test_a_broken_connection_is_opened_again(cluster: ScriptedCluster, connections: Connections) -> None:
    first = await connections.to_endpoint(endpoint(cluster, 1))
    first.close()
    second = await connections.to_endpoint(endpoint(cluster, 1))
    assert second is not first
    assert second.is_open


async def test_bootstrap_needs_one_broker_only(cluster: ScriptedCluster, connections: Connections) -> None:
    cluster.kill(1)
    found = await connections.bootstrap()
    assert set(found.brokers) == {1, 2}
    assert found.cluster_id == "scripted"


async def test_bootstrap_says_whom_it_asked(
    cluster: ScriptedCluster, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "BOOTSTRAP_TIMEOUT_S", 0.05)
    cluster.kill(1)
    cluster.kill(2)
    with pytest.raises(UnreachableError) as raised:
        await connections.bootstrap()
    for port in cluster.ports.values():
        assert f"cannot reach 127.0.0.1:{port}" in str(raised.value)


async def test_a_node_that_is_not_listed(connections: Connections) -> None:
    await connections.bootstrap()
    with pytest.raises(UnreachableError, match="broker 9 is not a live member"):
        await connections.to_node(9)


async def test_the_controller_or_any_other(cluster: ScriptedCluster, connections: Connections) -> None:
    await connections.bootstrap()
    assert (await connections.to_controller()).endpoint == endpoint(cluster, 1)
    cluster.kill(1)
    await asyncio.sleep(0.01)
    assert (await connections.to_controller()).endpoint == endpoint(cluster, 2)


async def test_another_broker_is_asked_when_one_fails(cluster: ScriptedCluster, connections: Connections) -> None:
    await connections.bootstrap()
    cluster.on(ApiKey.FIND_COORDINATOR, lambda node_id, request: HANG_UP if node_id == 1 else None)

    async def ask() -> FindCoordinatorResponse:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        return await connections.call_once(request, FindCoordinatorResponse, 2.0)

    for _ in range(5):
        answer = await retrying(ask, timeout_s=60.0, rng=random.Random(1), doing="asking")
        assert answer.coordinators[0].port == cluster.ports[1]
    assert len(cluster.asked(FindCoordinatorRequest, 1)) <= 1, "one that failed lately is asked last"


async def test_a_broker_that_hangs_is_asked_last(cluster: ScriptedCluster, connections: Connections) -> None:
    await connections.bootstrap()
    hanging = await connections.to_endpoint(endpoint(cluster, 1))
    await connections.to_endpoint(endpoint(cluster, 2))
    cluster.on(ApiKey.FIND_COORDINATOR, lambda node_id, request: HANG if node_id == 1 else None)
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    call = asyncio.ensure_future(hanging.call(request, FindCoordinatorResponse, timeout_s=60, patience_s=0))
    await until(connections.has_slow_calls)
    for _ in range(10):
        assert (await connections.to_any()).endpoint == endpoint(cluster, 2)
    call.cancel()


async def test_a_broker_that_leaves_the_cluster_is_hung_up_on(
    cluster: ScriptedCluster, connections: Connections
) -> None:
    await connections.bootstrap()
    cluster.on(ApiKey.FIND_COORDINATOR, lambda node_id, request: HANG)
    connection = await connections.to_node(1, "group")
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    call = asyncio.ensure_future(connection.call(request, FindCoordinatorResponse, timeout_s=60))
    await asyncio.sleep(0)
    cluster.live.discard(1)
    await connections.refresh([])
    with pytest.raises(UnreachableError):
        await call
    with pytest.raises(UnreachableError):
        await connections.to_node(1)


async def test_a_leader_that_hangs_and_was_replaced_is_hung_up_on(
    cluster: ScriptedCluster, connections: Connections
) -> None:
    await connections.refresh(["t"])
    cluster.on(ApiKey.FIND_COORDINATOR, lambda node_id, request: HANG)
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    calls = []
    for node_id, patience_s in ((1, 0.0), (2, 60.0)):
        connection = await connections.to_node(node_id, "group")
        call = connection.call(request, FindCoordinatorResponse, timeout_s=60, patience_s=patience_s)
        calls.append(asyncio.ensure_future(call))
    await until(connections.has_slow_calls)
    await connections.refresh(["t"])
    assert not calls[0].done(), "it hangs, but nobody has replaced it"
    cluster.partition(0).lead(2)
    cluster.partition(1).lead(1)
    await connections.refresh(["t"])
    with pytest.raises(UnreachableError):
        await calls[0]
    assert not calls[1].done(), "it was replaced, but its answer is not late"
    calls[1].cancel()


async def test_nothing_is_left_after_close(cluster: ScriptedCluster, connections: Connections) -> None:
    connection = await connections.to_endpoint(endpoint(cluster, 1))
    opening = asyncio.ensure_future(connections.to_endpoint(endpoint(cluster, 2)))
    await asyncio.sleep(0)
    await connections.close()
    with pytest.raises(UnreachableError, match="the client was closed"):
        await opening
    await asyncio.sleep(0)
    assert not connection.is_open
    with pytest.raises(RuntimeError, match="this client is closed"):
        await connections.to_any()
