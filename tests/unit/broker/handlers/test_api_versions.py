from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client

from minikafka.broker.node import Node
from minikafka.config.node import CLIENT
from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode
from minikafka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

Dial = Callable[..., Awaitable[Client]]

REQUEST = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.mark.parametrize("version", range(ApiKey.API_VERSIONS.versions.first, ApiKey.API_VERSIONS.versions.last + 1))
async def test_it_says_what_is_served(client: Client, version: int) -> None:
    for _ in range(2):  # the second comes from what the first left
        answer = await client.ask(REQUEST, version)
        assert answer.error_code == 0
        ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        assert set(ranges) == {key for key in ApiKey if CLIENT in key.listeners}
        assert ranges[ApiKey.FETCH] == (ApiKey.FETCH.versions.first, ApiKey.FETCH.versions.last)
        assert ranges[ApiKey.PRODUCE][0] == 0
        assert list(ranges) == sorted(ranges)


async def test_followers_are_told_what_their_listener_serves(node: Node, dial: Dial) -> None:
    answer = await (await dial(node, "REPLICATION")).ask(REQUEST)
    assert {row.api_key for row in answer.api_keys} == {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
    }


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_levels_of_features_are_announced_as_they_are_now(node: Node, client: Client, version: int) -> None:
    async def levels() -> tuple[dict[str, tuple[int, int]], dict[str, int], int]:
        answer = await client.ask(REQUEST, version)
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        finalised = {each.name: each.max_version_level for each in answer.finalized_features}
        return supported, finalised, answer.finalized_features_epoch

    supported, finalised, epoch = await levels()
    assert supported == ({"group.version": (0, 1), "transaction.version": (0, 2)} if version > 3 else {}), (
        "Java's clients that ask in version 3 refuse an answer with a range from 0"
    )
    assert finalised == {"group.version": 1, "transaction.version": 2}
    lower = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    answer = await client.ask(UpdateFeaturesRequest(feature_updates=[lower]))
    assert answer.error_code == 0
    _supported, finalised, later = await levels()
    assert finalised == {"group.version": 1, "transaction.version": 1}
    assert later > epoch
    refused = await client.ask(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="x")]), 1)
    assert refused.error_code == refused.results[0].error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.spec("P6")
@pytest.mark.parametrize("version", [6, 99, 32767])
async def test_an_unknown_version_is_told_what_is_known(client: Client, version: int) -> None:
    frame = await client.send_body(ApiKey.API_VERSIONS, version, b"\x04xyz\x02a\0")
    answer, end = decode(ApiVersionsResponse, 0, frame, 4)
    assert end == len(frame)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    versions = ApiKey.API_VERSIONS.versions
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
        (ApiKey.API_VERSIONS, versions.first, versions.last)
    ]
    assert (await client.ask(REQUEST)).error_code == 0, "the connection goes on"


@pytest.mark.spec("P6")
async def test_a_client_that_means_another_node_is_sent_back_to_its_bootstrap_servers(
    client: Client, node: Node
) -> None:
    cluster_id, node_id = node.identity.cluster_id, node.config.node_id

    async def error(cluster_id: str | None, node_id: int) -> int:
        asked = ApiVersionsRequest(
            client_software_name="test", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )
        return (await client.ask(asked, 5)).error_code

    assert await error(cluster_id, node_id) == ErrorCode.NONE
    assert await error(None, -1) == ErrorCode.NONE, "a bootstrap server: nothing is known of it"
    assert await error("a former cluster", node_id) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert await error(cluster_id, node_id + 1) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert await error(cluster_id, -1) == await error(None, node_id) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("software", [("", "1"), ("test", ""), ("a b", "1"), ("test", "1-"), ("-", "1")])
async def test_a_client_says_what_software_it_is(client: Client, software: tuple[str, str]) -> None:
    asked = ApiVersionsRequest(client_software_name=software[0], client_software_version=software[1])
    assert (await client.ask(asked, 3)).error_code == ErrorCode.INVALID_REQUEST
    assert (await client.ask(asked, 2)).error_code == ErrorCode.NONE, "it could not say then"


async def test_a_body_that_is_none_closes(client: Client) -> None:
    unanswered = client.send_body(ApiKey.API_VERSIONS, 3, b"\xff\xff")
    await client.wait_closed()
    with pytest.raises(ConnectionError):
        await unanswered
