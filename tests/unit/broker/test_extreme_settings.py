"""Every setting that may change on a running cluster, at the ends of what it may be: what works on logs survives it.

A value that a client may set is there again after each start. The largest ``delete.retention.ms`` ended each node that
had a copy of the topic. The values are tried out on the kinds of the settings, so a new setting is in here by itself.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final

from broker_client import NOW_MS, Client, batch
from broker_node import PATIENCE_S, eventually
from captured_logs import capture_logs

from minikafka.broker.node import Node
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.config.kinds import INT_MAX, LONG_MAX
from minikafka.config.setting import ConfigError, Setting
from minikafka.errors import ErrorCode
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import TopicPartition
from minikafka.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

CANDIDATES: Final = (
    *map(str, (-LONG_MAX - 1, -131_072, -2, -1, 0, 1, 2, 4, 1023, 1024, INT_MAX, 2**53, LONG_MAX)),
    *("", "0.0", "5e-324", "1.0", "nan", "inf", "true", "false", "*", "0:1", "999999999:999999999", "127.0.0.1:0"),
)
ALL_AT_WORK: Final = {
    "cleanup.policy": "compact,delete",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
    "message.timestamp.after.max.ms": str(LONG_MAX),
    "min.cleanable.dirty.ratio": "0",
    "segment.bytes": "1024",
}
"""Of each topic, beside the one setting: so there are segments to delete and to compact."""
STAMPS_MS: Final = (NOW_MS, -1, 0, LONG_MAX)
EXPECTED: Final = {ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP}
"""What a record may meet, by some setting."""
OF_CONNECTIONS: Final = "max.connections"
"""They may keep the test out, as they say."""


def extremes(row: Setting[Any]) -> Iterator[str]:
    """Texts of different values that a setting may have, the smallest and the largest among them."""
    words = re.findall(r"\w+", row.kind.allowed)
    found: list[object] = []
    for text in (*CANDIDATES, *words, ",".join(words)):
        try:
            value = row.parse(text)
        except ConfigError:
            continue
        if value not in found:
            found.append(value)
            yield text


async def fill(client: Client, topics: Collection[str]) -> None:
    """Records and tombstones in each topic, of all times; some of a producer with a sequence."""
    for number, stamp_ms in enumerate(STAMPS_MS * 2):
        records = [
            bytes(batch(b"x" * 400, None, keys=(b"a", b"b%d" % number), timestamp=stamp_ms)),
            bytes(batch(b"y", keys=(b"c",), timestamp=stamp_ms, producer=(LONG_MAX - number, 32767, INT_MAX))),
        ]
        for each in records:
            data = [
                TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=each)])
                for name in topics
            ]
            answer = await client.ask(ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=data))
            errors = {each.partition_responses[0].error_code for each in answer.responses}
            assert errors <= EXPECTED, errors


async def maintain(node: Node) -> None:
    """All that is done with logs now and then."""
    upkeep, logs = node.data_plane.maintenance, [partition.log for partition in node.data_plane.replicas]
    await upkeep._checkpoint()
    await upkeep._flush_due()
    await eventually(lambda: all(each.recovery_point >= each.segments.active.base_offset for each in logs), "syncs")
    await upkeep._compact()
    await upkeep._apply_retention()
    await upkeep._check_lagging()
    assert node.failure is None


async def alter(node: Node, values: Mapping[str, str | None]) -> None:
    """Set what all brokers have; None takes it back. Those that are refused, each on its own, are left out."""
    for name, value in values.items():
        operation = AlterConfigOp.DELETE if value is None else AlterConfigOp.SET
        config = AlterableConfig(name=name, config_operation=operation, value=value)
        asked = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[asked])
        await node.controller.call(request, IncrementalAlterConfigsResponse, timeout_s=PATIENCE_S)


def complaints(logs: list[Any]) -> list[Any]:
    """What must not be said."""
    return [each for each in logs if each["log_level"] in ("warning", "error", "critical")]


async def create_extreme_topics(node: Node, client: Client) -> list[str]:
    """One for each extreme of each setting of topics."""
    plans = {
        f"{row.name}-{number}": ALL_AT_WORK | {row.name: text}
        for row in TopicConfig.rows().values()
        for number, text in enumerate(extremes(row))
    }
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=each, value=value) for each, value in plan.items()],
        )
        for name, plan in plans.items()
    ]
    answer = await client.ask(CreateTopicsRequest(topics=topics))
    assert not [each for each in answer.topics if each.error_code]
    replicas = node.data_plane.replicas
    await eventually(lambda: all(replicas.get(TopicPartition(name, 0)) for name in plans), "the topics")
    return list(plans)


async def test_any_value_of_any_topic(start_node: StartNode, dial: Dial) -> None:
    wall = [NOW_MS / 1000]
    with capture_logs() as logs:
        node = await start_node(wall_s=lambda: wall[0])
        client = await dial(node)
        topics = await create_extreme_topics(node, client)
        await fill(client, topics)
        await maintain(node)
        assert any(each.log.first_dirty_offset > 0 for each in node.data_plane.replicas), "nothing was compacted"
        await node.stop()
        wall[0] += 365 * 86_400  # what is old by then goes
        node = await start_node(wall_s=lambda: wall[0])
        await maintain(node)
        await fill(await dial(node), topics)
        await maintain(node)
    assert not complaints(logs)


async def test_any_value_of_all_brokers(start_node: StartNode, dial: Dial) -> None:
    rows = [row for row in BrokerConfig.rows().values() if row.dynamic and not row.of_one_node]
    values = {row.name: list(extremes(row)) for row in rows}
    assert all(values.values()), "each setting has some value"
    with capture_logs() as logs:
        node = await start_node()
        client = await dial(node)
        configs = [CreatableTopicConfig(name="cleanup.policy", value="compact,delete")]
        topic = CreatableTopic(name="table", num_partitions=1, replication_factor=1, configs=configs)
        await client.ask(CreateTopicsRequest(topics=[topic]))
        await eventually(lambda: node.data_plane.replicas.get(TopicPartition("table", 0)), "the topic")
        for name, texts in values.items():
            for text in texts:
                await alter(node, {name: text})
                await maintain(node)
            await alter(node, {name: None})
        for which in (0, -1):
            together = {name: texts[which] for name, texts in values.items() if not name.startswith(OF_CONNECTIONS)}
            await alter(node, together)
            await fill(client, ["table"])
            await maintain(node)
            await node.stop()
            node = await start_node()
            client = await dial(node)
            await fill(client, ["table"])
            await maintain(node)
    assert not complaints(logs)
