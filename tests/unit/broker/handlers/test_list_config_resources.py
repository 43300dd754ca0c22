"""What has settings."""

from __future__ import annotations

import pytest
from broker_client import Client
from broker_node import create_topic

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGERS, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], [(BROKER, "1"), (TOPIC, "a"), (TOPIC, "b"), (LOGGERS, "1"), (GROUP, "g")]),
        ([TOPIC, TOPIC], [(TOPIC, "a"), (TOPIC, "b")]),
        ([BROKER], [(BROKER, "1")]),
        ([METRICS], []),
        ([GROUP], [(GROUP, "g")]),
    ],
)
async def test_resources_are_listed_by_type(
    node: Node, client: Client, kinds: list[int], found: list[tuple[int, str]]
) -> None:
    for name in "ba":
        await create_topic(node, name)
    setting = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value="5000")
    group = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[setting])
    assert (await client.ask(IncrementalAlterConfigsRequest(resources=[group]))).responses[0].error_code == 0
    answer = await client.ask(ListConfigResourcesRequest(resource_types=kinds))
    named = [(each.resource_type, each.resource_name) for each in answer.config_resources]
    assert sorted(named, key=lambda one: (one[0] != BROKER, one)) == found
    before = await client.ask(ListConfigResourcesRequest(), 0)
    assert (before.error_code, before.config_resources) == (0, []), "version 0 lists telemetry's only"


async def test_an_unknown_type_is_refused(client: Client) -> None:
    answer = await client.ask(ListConfigResourcesRequest(resource_types=[TOPIC, 99]))
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
