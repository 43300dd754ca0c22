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
from typing import Final

from minikafka.broker.absences import Absences
from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import NOT_ASKED, Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.long_answers import LongAnswers
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
from minikafka.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from minikafka.wire.codec import encode
from minikafka.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

AUTHORIZATION: Final = (
    ByHandler(
        "DESCRIBE on each topic; CREATE on it, or on the cluster, to create it",
        ((AclOperation.DESCRIBE, ResourceType.TOPIC),),
    ),
)

FIRST_VERSION_WITHOUT_NAMES = 12  # from 10 on a topic may be named by its id, from 12 on the answer may lack its name
TOPICS_AT_ONCE = 500
OPERATIONS_ROWS = 8
"""What may be done with a topic costs as much as these of a long answer."""


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
    authorizer: Authorizer
    long_answers: LongAnswers


async def handle(request: MetadataRequest, context: RequestContext, parts: Parts) -> None:
    """Answer from this node's image; a missing topic is created first where client and configuration allow it."""
    wanted = request.topics if request.topics is None else _each_once(request.topics)
    if wanted is not None and not wanted and context.version == 0:
        wanted = None  # version 0 had no null: an empty list asked for all topics
    for topic in wanted or () if context.version >= FIRST_VERSION_WITHOUT_NAMES else ():
        if topic.topic_id != ZERO_TOPIC_ID:
            topic.name = None if topic.name else topic.name  # the id counts
    denied: list[MetadataRequestTopic] = []
    if wanted is not None and parts.authorizer.is_enabled:
        asked, wanted = wanted, []
        async for topic in paced(asked, TOPICS_AT_ONCE, context):
            (wanted if _may_describe(topic, context, parts) else denied).append(topic)
    await parts.absences.wait_until_decided(None if wanted is None else _named(wanted, parts.metadata.image))
    tells_operations = request.include_topic_authorized_operations
    if wanted is None:
        topics = await _all_topics(tells_operations, context, parts)
    else:
        may_create = parts.config.auto_create_topics_enable and (
            request.allow_auto_topic_creation or context.version < 4
        )
        missing = [topic.name for topic in wanted if topic.name and parts.metadata.image.topic(topic.name) is None]
        errors: dict[str, ErrorCode] = {}
        if missing and may_create:
            errors = dict.fromkeys(_not_to_be_created(missing, context, parts), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            missing = [name for name in missing if name not in errors]
            if context.may_wait_for_controller():
                errors |= await parts.topic_creation.create_missing(missing, context.client)
            else:
                errors |= dict.fromkeys(missing, ErrorCode.LEADER_NOT_AVAILABLE)
        image = parts.metadata.image
        answered = [topic for topic in wanted if topic.name != "" or not _is_by_id(topic) or _find(topic, image)]
        portions = paced(answered, TOPICS_AT_ONCE, context)
        topics = [_wanted_topic(topic, errors, tells_operations, context, parts) async for topic in portions]
        topics += [
            encode(_denied(topic, context.version), context.version)
            async for topic in paced(denied, TOPICS_AT_ONCE, context)
        ]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in parts.absences.listed(context.connection)
            if (endpoint := broker.listeners.get(context.listener)) is not None
        ],
        cluster_id=parts.identity.cluster_id,
        controller_id=parts.quorum.controller_id(parts.metadata.image),
        cluster_authorized_operations=parts.authorizer.operations_on_cluster(context)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )
    context.send_around(response, "topics", topics)


async def _all_topics(tells_operations: bool, context: RequestContext, parts: Parts) -> list[bytes]:
    """Those that whoever asks may describe. To look at one that is not shown takes its time, too."""
    topics = []
    async with parts.long_answers.prepare(context) as answer:
        for name in parts.metadata.image.topics_by_name:
            topic, rows = parts.metadata.image.topic(name), 1  # which may be another one by now
            if topic is not None and parts.authorizer.sees(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                topics.append(_encoded(topic, tells_operations, context, parts))
                rows += len(topic.partitions) + tells_operations * OPERATIONS_ROWS
            await answer.add(rows)
    return topics


def _each_once(topics: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """A topic named 40,000 times is answered once, as by Kafka."""
    if len(topics) < 2:
        return topics
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())


def _named(wanted: list[MetadataRequestTopic], image: MetadataImage) -> list[TopicImage]:
    """The topics of a request that are there."""
    return [found for topic in wanted if (found := _find(topic, image)) is not None]


def _find(wanted: MetadataRequestTopic, image: MetadataImage) -> TopicImage | None:
    return image.topic_by_id(wanted.topic_id) if _is_by_id(wanted) else image.topic(wanted.name or "")


def _is_by_id(wanted: MetadataRequestTopic) -> bool:
    return wanted.name is None or (not wanted.name and wanted.topic_id != ZERO_TOPIC_ID)


def _may_describe(wanted: MetadataRequestTopic, context: RequestContext, parts: Parts) -> bool:
    """An unknown id is no secret."""
    found = _find(wanted, parts.metadata.image)
    name = (wanted.name or "") if found is None else found.name
    if not name and _is_by_id(wanted):
        return True
    return parts.authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _not_to_be_created(names: list[str], context: RequestContext, parts: Parts) -> list[str]:
    """Of these topics, which do not exist."""
    authorizer = parts.authorizer
    if authorizer.sees(context, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        return []
    return [name for name in names if not authorizer.permits(context, AclOperation.CREATE, ResourceType.TOPIC, name)]


def _denied(wanted: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    """Whether it exists is not told, except by its id, which is no secret."""
    name = "" if wanted.name is None and version < FIRST_VERSION_WITHOUT_NAMES else wanted.name
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=wanted.topic_id)


def _operations(tells: bool, topic: str, context: RequestContext, parts: Parts) -> int:
    return parts.authorizer.operations(context, ResourceType.TOPIC, topic) if tells else NOT_ASKED


def _encoded(topic: TopicImage, tells_operations: bool, context: RequestContext, parts: Parts) -> bytes:
    image, listener = parts.metadata.image, context.listener
    operations = _operations(tells_operations, topic.name, context, parts)

    def make() -> MetadataResponseTopic:
        return _topic(image, topic, operations, listener)

    return parts.encodings.encoded(image, topic, context.version, (listener, operations), make)


def _wanted_topic(
    wanted: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
    tells_operations: bool,
    context: RequestContext,
    parts: Parts,
) -> bytes:
    topic = _find(wanted, parts.metadata.image)
    if topic is not None and not _may_describe(wanted, context, parts):  # the id was unknown when the request came
        return encode(_denied(wanted, context.version), context.version)
    if topic is not None:
        return _encoded(topic, tells_operations, context, parts)
    if _is_by_id(wanted) and context.version < FIRST_VERSION_WITHOUT_NAMES:
        missing = MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name="", topic_id=wanted.topic_id)
    elif _is_by_id(wanted):
        missing = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
    else:
        name = wanted.name or ""
        error = errors.get(name) or why_missing(name)
        missing = MetadataResponseTopic(error_code=error, name=name, topic_id=ZERO_TOPIC_ID)
    missing.topic_authorized_operations = _operations(tells_operations, wanted.name or "", context, parts)
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
