"""DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from broker_client import Client
from broker_node import create_topic, eventually

from minikafka.broker import pacing
from minikafka.broker.handlers import incremental_alter_configs
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.schema import Message

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def describe(
    client: Client, kind: int, name: str, *keys: str, version: int = 4, **how: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return (await client.ask(DescribeConfigsRequest(resources=[resource], **how), version)).results[0]


async def alter(
    client: Client, kind: int, name: str, setting: str, operation: int, value: str | None, **how: bool
) -> tuple[int, str | None]:
    config = AlterableConfig(name=setting, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    answer = (await client.ask(IncrementalAlterConfigsRequest(resources=[resource], **how))).responses[0]
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


async def test_settings_of_a_topic_with_their_source(node: Node, client: Client) -> None:
    await create_topic(node, "orders", retention_ms=1000)
    for version in (1, 2, 3, 4):
        result = await describe(client, TOPIC, "orders", version=version)
        rows = {row.name: row for row in result.configs}
        assert rows["retention.ms"].value == "1000"
        assert rows["cleanup.policy"].value == "delete"
        if version >= 1:
            assert (rows["retention.ms"].config_source, rows["cleanup.policy"].config_source) == (1, 5)
        assert not rows["retention.ms"].synonyms
        assert not rows["retention.ms"].documentation
    chosen = await describe(client, TOPIC, "orders", "retention.ms", include_synonyms=True, include_documentation=True)
    assert [row.name for row in chosen.configs] == ["retention.ms"]
    assert (chosen.configs[0].synonyms[0].name, chosen.configs[0].synonyms[0].source) == ("retention.ms", 1)
    assert chosen.configs[0].documentation


async def test_an_empty_list_of_settings_asks_for_all(node: Node, client: Client) -> None:
    """As in Kafka: clients that never touch the field send one."""
    await create_topic(node, "orders")
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="orders", configuration_keys=[])
    answer = await client.ask(DescribeConfigsRequest(resources=[resource]), 4)
    assert answer.results[0].configs == (await describe(client, TOPIC, "orders")).configs != []


async def test_settings_of_this_node_without_secrets(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(cluster_secret="do not tell anybody")
    client = await dial(node)
    rows = {row.name: row for row in (await describe(client, BROKER, "1", include_synonyms=True)).configs}
    assert rows["node.id"].read_only
    assert rows["cluster.secret"].value is None
    assert rows["cluster.secret"].is_sensitive
    assert all(each.value is None for each in rows["cluster.secret"].synonyms)
    unset = rows["log.retention.ms"]
    assert (unset.value, unset.config_source, unset.synonyms) == (None, 5, [])


async def test_a_broker_without_a_name_has_what_is_set_for_all(node: Node, client: Client) -> None:
    assert (await describe(client, BROKER, "")).configs == []
    assert await alter(client, BROKER, "", "log.retention.ms", SET, "5000") == (0, None)
    assert await alter(client, BROKER, "1", "log.retention.ms", SET, "6000") == (0, None)
    (row,) = (await describe(client, BROKER, "", include_synonyms=True)).configs
    assert (row.name, row.value, row.config_source) == ("log.retention.ms", "5000", 3)
    assert [(each.name, each.value, each.source) for each in row.synonyms] == [("log.retention.ms", "5000", 3)]


async def test_what_cannot_be_described(node: Node, client: Client) -> None:
    for kind, name, error in [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (8, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
    ]:
        result = await describe(client, kind, name)
        assert (result.error_code, result.configs) == (error, [])
        assert result.error_message


async def test_a_topic_is_changed_step_by_step(node: Node, client: Client) -> None:
    tp = await create_topic(node, "orders")

    async def policy() -> tuple[str | None, int]:
        row = (await describe(client, TOPIC, "orders", "cleanup.policy")).configs[0]
        return row.value, row.config_source

    assert await alter(client, TOPIC, "orders", "cleanup.policy", SET, "compact") == (0, None)
    assert await policy() == ("compact", 1)
    partition = node.replicas.get(tp)
    assert partition is not None
    assert partition.needs_keys
    assert await alter(client, TOPIC, "orders", "cleanup.policy", APPEND, "delete") == (0, None)
    assert await policy() == ("compact,delete", 1)
    assert await alter(client, TOPIC, "orders", "cleanup.policy", SUBTRACT, "compact") == (0, None)
    assert await policy() == ("delete", 1)
    assert await alter(client, TOPIC, "orders", "cleanup.policy", DELETE, None) == (0, None)
    assert await policy() == ("delete", 5)
    assert await alter(client, TOPIC, "orders", "cleanup.policy", SET, "compact", validate_only=True) == (0, None)
    assert await policy() == ("delete", 5)


@pytest.mark.spec("P6")
async def test_changes_that_make_no_sense_are_refused(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    for kind, name, setting, operation, value, error in [
        (TOPIC, "orders", "retention.ms", SET, "soon", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "no.such.setting", SET, "1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "retention.ms", SET, None, ErrorCode.INVALID_REQUEST),
        (TOPIC, "nowhere", "retention.ms", SET, "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", "node.id", SET, "7", ErrorCode.INVALID_REQUEST),
    ]:
        code, message = await alter(client, kind, name, setting, operation, value)
        assert code == error, (name, setting, value)
        assert message
    for kind, operation in [(9, SET), (TOPIC, 9), (TOPIC, -1), (-1, SET)]:
        code, _ = await alter(client, kind, "orders", "retention.ms", operation, "1")
        assert code != 0
    assert node.failure is None


async def test_a_node_is_changed_while_it_runs(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    assert await alter(client, BROKER, "", "log.retention.ms", SET, "5000") == (0, None)
    partition = node.replicas.get(TopicPartition("orders", 0))
    assert partition is not None
    await eventually(lambda: partition.log.config.retention_ms == 5000, "the node's settings to reach the log")
    assert (await describe(client, TOPIC, "orders", "retention.ms")).configs[0].value == "5000"
    assert await alter(client, BROKER, "1", "log.retention.ms", SET, "6000") == (0, None)
    await eventually(lambda: partition.log.config.retention_ms == 6000, "its own before the cluster's")
    row = (await describe(client, BROKER, "1", "log.retention.ms")).configs[0]
    assert (row.value, row.config_source) == ("6000", 2)


async def test_without_a_controller_nothing_is_changed(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_request: object) -> object:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")

    monkeypatch.setattr(node.control_plane.controller, "handle", never)
    monkeypatch.setattr(incremental_alter_configs, "LONGEST_TIMEOUT_S", 0.02)
    assert (await alter(client, TOPIC, "x", "retention.ms", SET, "1"))[0] == ErrorCode.NOT_CONTROLLER


@pytest.mark.spec("P6")
async def test_many_resources_are_altered_by_several_requests(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller carries one out in one turn. What is named twice is refused, wherever it stands."""
    monkeypatch.setattr(pacing, "PER_REQUEST", 3)
    names = [f"t{number}" for number in range(8)]
    for name in names:
        await create_topic(node, name)
    sizes, handle = [], node.control_plane.controller.handle

    async def counted(request: Message) -> Any:
        if isinstance(request, IncrementalAlterConfigsRequest):
            sizes.append(len(request.resources))
        return await handle(request)

    monkeypatch.setattr(node.control_plane.controller, "handle", counted)
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[AlterableConfig(name="retention.ms", config_operation=0, value="1000")],
            )
            for name in [*names, names[0]]
        ]
    )
    answers = {each.resource_name: each.error_code for each in (await client.ask(request)).responses}
    assert answers == dict.fromkeys(names, ErrorCode.NONE) | {names[0]: ErrorCode.INVALID_REQUEST}
    assert sizes == [3, 3, 3]
