from __future__ import annotations

from uuid import UUID

import pytest
from broker_client import Client
from broker_node import create_topic

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.mark.parametrize("version", [10, 11])
async def test_an_unknown_id_before_answers_could_lack_a_name_is_an_error(client: Client, version: int) -> None:
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=UUID(int=7))])
    (topic,) = (await client.ask(unknown, version)).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.INVALID_REQUEST, "", UUID(int=7))


@pytest.mark.parametrize("version", [12, 13])
async def test_an_unknown_id_is_said_to_be_unknown(client: Client, version: int) -> None:
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=UUID(int=7))])
    (topic,) = (await client.ask(unknown, version)).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=7))


@pytest.mark.parametrize("version", [10, 11, 12, 13])
async def test_a_topic_is_found_by_its_id(node: Node, client: Client, version: int) -> None:
    await create_topic(node, "orders")
    found = node.image.topic("orders")
    assert found is not None
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=found.topic_id)])
    (topic,) = (await client.ask(request, version)).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (ErrorCode.NONE, "orders", 1)
