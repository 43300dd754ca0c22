"""Metadata (key 3), versions 0-13: brokers, the controller, topics by name or id, and creation on first use.

Any live broker may be asked for the controller's work, so ``controller_id`` names the active controller while it is
alive and this node otherwise: both accept or forward admin requests.

An unknown id beside an empty name, as Java's client asks, is left out of the answer. Apache Kafka answers without a
name: the client fails (4.3: "Use errorsByTopicId()"), and never asks for metadata again; a consumer with a regular
expression of the broker's would not notice that a topic was made anew. With an empty name in the answer it takes up
partitions of a topic called "", and its next poll raises UnsupportedVersionException.
"""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.broker.absences import Absences
from minikafka.broker.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.pacing import paced
from minikafka.broker.quorum import Quorum
from minikafka.broker.topic_creation import TopicCreation
from minikafka.broker.topic_encodings import TopicEncodings
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from minikafka.metadata.topic_names import check_topic_name
from minikafka.model import INTERNAL_TOPICS, ZERO_TOPIC_ID
from minikafka.net.identity import Identity
from minikafka.wire.codec import encode, encode_around
from minikafka.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_VERSION_WITHOUT_NAMES = 12  # from 10 on a topic may be named by its id, from 12 on the answer may lack its name
TOPICS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Parts:
    """What an answer is made of."""

    config: BrokerConfig
    identity: Identity
    metadata: Metadata
    absences: Absences
    topic_creation: TopicCreation
    encodings: TopicEncodings
    quorum: Quorum


async def handle(request: MetadataRequest, context: RequestContext, parts: Parts) -> None:
    """Answer from this node's image; a missing topic is created first where client and configuration allow it."""
    wanted = request.topics if request.topics is None else _each_once(request.topics)
    if wanted is not None and not wanted and context.version == 0:
        wanted = None  # version 0 had no null: an empty list asked for all topics
    for topic in wanted or () if context.version >= FIRST_VERSION_WITHOUT_NAMES else ():
        if topic.topic_id != ZERO_TOPIC_ID:
            topic.name = None if topic.name else topic.name  # the id counts
    await parts.absences.wait_until_decided(_named(wanted, parts.metadata.image))
    operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    if wanted is None:
        topics = [_encoded(topic, operations, context, parts) for topic in parts.metadata.image.topics()]
    else:
        may_create = parts.config.auto_create_topics_enable and (
            request.allow_auto_topic_creation or context.version < 4
        )
        missing = [topic.name for topic in wanted if topic.name and parts.metadata.image.topic(topic.name) is None]
        errors: dict[str, ErrorCode] = {}
        if missing and may_create:
            errors = await parts.topic_creation.create_missing(missing, context.client)
        image = parts.metadata.image
        answered = [topic for topic in wanted if topic.name != "" or not _is_by_id(topic) or _find(topic, image)]
        portions = paced(answered, TOPICS_AT_ONCE, context)
        topics = [_wanted_topic(topic, errors, operations, context, parts) async for topic in portions]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in parts.absences.listed(context.connection)
            if (endpoint := broker.listeners.get(context.listener)) is not None
        ],
        cluster_id=parts.identity.cluster_id,
        controller_id=parts.quorum.controller_id(parts.metadata.image),
        cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
    )
    context.send_body(encode_around(response, context.version, "topics", topics))


def _each_once(topics: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """A topic named 40,000 times is answered once, as by Kafka."""
    if len(topics) < 2:
        return topics
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())


def _named(wanted: list[MetadataRequestTopic] | None, image: MetadataImage) -> list[TopicImage]:
    """The topics of a request that are there."""
    if wanted is None:
        return list(image.topics())
    return [found for topic in wanted if (found := _find(topic, image)) is not None]


def _find(wanted: MetadataRequestTopic, image: MetadataImage) -> TopicImage | None:
    return image.topic_by_id(wanted.topic_id) if _is_by_id(wanted) else image.topic(wanted.name or "")


def _is_by_id(wanted: MetadataRequestTopic) -> bool:
    return wanted.name is None or (not wanted.name and wanted.topic_id != ZERO_TOPIC_ID)


def _encoded(topic: TopicImage, operations: int, context: RequestContext, parts: Parts) -> bytes:
    image, listener = parts.metadata.image, context.listener

    def make() -> MetadataResponseTopic:
        return _topic(image, topic, operations, listener)

    return parts.encodings.encoded(image, topic, context.version, (listener, operations), make)


def _wanted_topic(
    wanted: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
    operations: int,
    context: RequestContext,
    parts: Parts,
) -> bytes:
    topic = _find(wanted, parts.metadata.image)
    if topic is not None:
        return _encoded(topic, operations, context, parts)
    if _is_by_id(wanted) and context.version < FIRST_VERSION_WITHOUT_NAMES:
        missing = MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name="", topic_id=wanted.topic_id)
    elif _is_by_id(wanted):
        missing = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
    else:
        name = wanted.name or ""
        error = errors.get(name) or why_missing(name)
        missing = MetadataResponseTopic(error_code=error, name=name, topic_id=ZERO_TOPIC_ID)
    missing.topic_authorized_operations = operations
    return encode(missing, context.version)


def why_missing(name: str) -> ErrorCode:
    """The error for a topic that is not there: its name may be none that a topic can have."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(image: MetadataImage, topic: TopicImage, operations: int, listener: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(image, index, partition, listener) for index, partition in sorted(topic.partitions.items())
        ],
        topic_authorized_operations=operations,
    )


def _partition(image: MetadataImage, index: int, partition: PartitionImage, listener: str) -> MetadataResponsePartition:
    leader = image.broker(partition.leader)
    # One that is fenced is in no list of brokers; kafka-python stops for good at a leader that it cannot look up.
    reachable = leader is not None and leader.is_live and listener in leader.listeners
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if reachable else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if reachable else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[replica for replica in partition.replicas if not image.is_live(replica)],
    )
