"""Settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.client.admin import base
from minikafka.client.admin.base import NO_TOPIC, AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SET: Final = 0
DELETE: Final = 1
SOURCE_DEFAULT: Final = 5


class ConfigEntry(NamedTuple):
    """One setting: its value, and whether that is Kafka's own default. Sensitive values are None."""

    name: str
    value: str | None
    is_default: bool


class ConfigCalls(AdminCalls):
    """Calls about settings."""

    async def describe_configs(self, topic: str) -> list[ConfigEntry]:
        """Every setting of a topic, by name."""

        async def attempt() -> list[ConfigEntry]:
            return await self._describe_resource(await self._connections.to_controller(), TOPIC_RESOURCE, topic)

        return await self._retrying(
            attempt, f"describing {topic!r}", final=NO_TOPIC, believed_after_s=base.PROPAGATION_S
        )

    async def describe_broker_configs(self, node_id: int) -> list[ConfigEntry]:
        """Every setting of a broker, by name, from itself."""

        async def attempt() -> list[ConfigEntry]:
            connection = await self._connections.to_node(node_id)
            return await self._describe_resource(connection, BROKER_RESOURCE, str(node_id))

        return await self._retrying(attempt, f"describing broker {node_id}")

    async def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None takes one back to its default. The others stay (KIP-339)."""
        await self._alter_resource(TOPIC_RESOURCE, topic, changes, repr(topic))

    async def alter_broker_configs(self, node_id: int | None, changes: Mapping[str, str | None]) -> None:
        """Change dynamic settings of a broker, or of all (None), while they run; None takes one back."""
        name, what = ("", "all brokers") if node_id is None else (str(node_id), f"broker {node_id}")
        await self._alter_resource(BROKER_RESOURCE, name, changes, what)

    async def _alter_resource(self, kind: int, name: str, changes: Mapping[str, str | None], what: str) -> None:
        configs = [
            AlterableConfig(name=setting, config_operation=DELETE if value is None else SET, value=value)
            for setting, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, IncrementalAlterConfigsResponse, timeout_s=self._answer_s)
            result = answer.responses[0]
            check(result.error_code, result.error_message, f"changing settings of {what}")

        await self._change(attempt, f"changing settings of {what}", final=NO_TOPIC)

    async def _describe_resource(self, connection: BrokerConnection, kind: int, name: str) -> list[ConfigEntry]:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource])
        answer = await connection.call(request, DescribeConfigsResponse, timeout_s=self._answer_s)
        result = answer.results[0]
        check(result.error_code, result.error_message, f"describing {name!r}")
        return sorted(
            ConfigEntry(entry.name, entry.value, entry.config_source == SOURCE_DEFAULT) for entry in result.configs
        )
