"""Settings of topics, brokers, and whatever else has some: one path by the type of the resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.client.admin import base
from minikafka.client.admin.base import NO_TOPIC, AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.errors import UnreachableError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse
from minikafka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.wire.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from minikafka.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
GROUP_RESOURCE: Final = 32
ALL_BROKERS: Final = ""
"""As the name of a broker: what is set for all of them."""
SET: Final = 0
DELETE: Final = 1
SOURCE_ALL_BROKERS: Final = 3
SOURCE_DEFAULT: Final = 5
OF_FILES: Final = "ssl."
"""Begins settings of a broker that name files, which nobody else can read."""


class ConfigEntry(NamedTuple):
    """One setting: its value, and whether that is Kafka's own default. Sensitive values are None.

    ``source``: Kafka's number for where the value comes from. ``synonyms``: (source, value) of every place that has
    one, the value that counts first.
    """

    name: str
    value: str | None
    is_default: bool
    source: int = SOURCE_DEFAULT
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[tuple[int, str | None], ...] = ()


class ConfigCalls(AdminCalls):
    """Calls about settings."""

    async def describe_configs(self, topic: str) -> list[ConfigEntry]:
        """Every setting of a topic, by name."""
        return await self.describe_resource(TOPIC_RESOURCE, topic)

    async def describe_broker_configs(self, node_id: int) -> list[ConfigEntry]:
        """Every setting of a broker, by name, from itself."""
        return await self.describe_resource(BROKER_RESOURCE, str(node_id))

    async def describe_resource(self, kind: int, name: str) -> list[ConfigEntry]:
        """Every setting of a resource of Kafka's type ``kind``, by name. A broker is asked itself.

        KafkaError(BROKER_NOT_AVAILABLE) at once when the cluster does not list the broker.
        """
        is_of_one = kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE) and name != ALL_BROKERS
        node_id = int(name) if is_of_one else None

        async def attempt() -> list[ConfigEntry]:
            connection = await (self._connections.to_controller() if node_id is None else self._to_live(node_id))
            return await self._describe_resource(connection, kind, name)

        doing = f"describing {repr(name) if node_id is None else f'broker {name}'}"
        return await self._retrying(attempt, doing, final=NO_TOPIC, believed_after_s=base.PROPAGATION_S)

    async def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None takes one back to its default. The others stay (KIP-339)."""
        await self.alter_resource(TOPIC_RESOURCE, topic, changes, what=repr(topic))

    async def alter_broker_configs(self, node_id: int | None, changes: Mapping[str, str | None]) -> None:
        """Change dynamic settings of a broker, or of all (None), while they run; None takes one back."""
        name, what = (ALL_BROKERS, "all brokers") if node_id is None else (str(node_id), f"broker {node_id}")
        await self.alter_resource(BROKER_RESOURCE, name, changes, what=what)

    async def alter_resource(
        self,
        kind: int,
        name: str,
        changes: Mapping[str, str | None],
        *,
        what: str | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a resource; None takes one back to its default. All or none. A logger is its broker's,
        and so are the files of its certificates: it looks at them.

        ``what``: the resource in an error's words. ``validate_only``: only find out whether it would be refused.
        """
        what = repr(name) if what is None else what
        configs = [
            AlterableConfig(name=setting, config_operation=DELETE if value is None else SET, value=value)
            for setting, value in changes.items()
        ]
        resource = ChangedResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, IncrementalAlterConfigsResponse, timeout_s=self._answer_s)
            result = answer.responses[0]
            check(result.error_code, result.error_message, f"changing settings of {what}")

        are_its_files = kind == BROKER_RESOURCE and name and any(each.startswith(OF_FILES) for each in changes)
        if kind != BROKER_LOGGER_RESOURCE and not are_its_files:
            await self._change(attempt, f"changing settings of {what}", final=NO_TOPIC)
            return

        async def attempt_there() -> None:
            await attempt(await self._to_live(int(name)))

        await self._retrying(attempt_there, f"changing settings of {what}")

    async def clear_resources(self, resources: Iterable[tuple[int, str]]) -> None:
        """Take back whatever was set of resources (type, name), in one request. Raises the first error."""
        named = [AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in resources]
        request = AlterConfigsRequest(resources=named)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, AlterConfigsResponse, timeout_s=self._answer_s)
            for result in answer.responses:
                check(result.error_code, result.error_message, f"taking back settings of {result.resource_name!r}")

        await self._change(attempt, "taking back settings")

    async def list_config_resources(self, kind: int) -> list[str]:
        """The names of the resources of a type that can have settings (KIP-1142)."""

        async def attempt() -> list[str]:
            request = ListConfigResourcesRequest(resource_types=[kind])
            answer = await self._connections.call_once(request, ListConfigResourcesResponse, self._answer_s)
            check(answer.error_code, None, "listing what has settings")
            return sorted(each.resource_name for each in answer.config_resources if each.resource_type == kind)

        return await self._retrying(attempt, "listing what has settings")

    async def _to_live(self, node_id: int) -> BrokerConnection:
        connections = self._connections
        if node_id not in connections.cluster.brokers:
            await connections.refresh([])
        live = connections.cluster.brokers
        if node_id not in live:
            listed = ", ".join(map(str, sorted(live)))
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not alive; live brokers are {listed}"
            )
        try:
            return await connections.to_node(node_id)
        except UnreachableError:
            await connections.refresh([])  # it may be gone: the next attempt sees that
            raise

    async def _describe_resource(self, connection: BrokerConnection, kind: int, name: str) -> list[ConfigEntry]:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        answer = await connection.call(request, DescribeConfigsResponse, timeout_s=self._answer_s)
        result = answer.results[0]
        check(result.error_code, result.error_message, f"describing {name!r}")
        return sorted(map(_entry, result.configs))


def _entry(row: DescribeConfigsResourceResult) -> ConfigEntry:
    synonyms = tuple((each.source, each.value) for each in row.synonyms)
    is_default = row.config_source == SOURCE_DEFAULT
    return ConfigEntry(row.name, row.value, is_default, row.config_source, row.read_only, row.is_sensitive, synonyms)
