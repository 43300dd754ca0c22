"""What handlers of committed offsets have in common: topics that exist, and each topic and partition once.

Offsets of partitions that do not exist are refused one by one. Of a partition that is named several times the last
offset counts: one request could write 10,000 for it, 0.16 s of the loop.

A leader epoch that the partition has not had yet is left out. It is that of an earlier cluster with this address.
With it Java's client would wait for such a leader before it reads, and librdkafka would take its later commits for
older ones. (Apache Kafka keeps it.) Where only the image lags behind, a hint is lost that nobody depends on. Leader
epochs of a topic that was made anew are above those that clients know (decision 0031).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage, TopicImage
from minikafka.model import NO_EPOCH
from minikafka.wire.messages.offset_commit import OffsetCommitRequest
from minikafka.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class Refused(NamedTuple):
    """Partitions of a topic that do not exist."""

    name: str
    topic_id: UUID
    partitions: list[int]
    error: ErrorCode


def take_unknown(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, image: MetadataImage, *, by_id: bool
) -> list[Refused]:
    """Take out of the request, and return, what does not exist. A topic that is left has its name, and is there once.

    ``by_id``: the request names topics by their ids.
    """
    refused: list[Refused] = []
    known: dict[str, Any] = {}
    offsets: dict[str, dict[int, Any]] = {}
    for topic in request.topics:
        found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
        missing = {
            partition.partition_index: None
            for partition in topic.partitions
            if found is None or partition.partition_index not in found.partitions
        }
        if missing:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            name = topic.name if found is None else found.name
            refused.append(Refused(name, topic.topic_id, list(missing), error))
        kept = {each.partition_index: each for each in topic.partitions if each.partition_index not in missing}
        if kept and found is not None:
            _leave_out_coming_epochs(kept, found)
            topic.name = found.name
            known.setdefault(found.name, topic)
            offsets.setdefault(found.name, {}).update(kept)
    for name, topic in known.items():
        topic.partitions = list(offsets[name].values())
    request.topics = list(known.values())
    return refused


def add_refusals(topics: list[Any], refusals: Iterable[Any]) -> None:
    """Put what is refused into the topics of an answer, in which each topic is once. franz-go's admin client keeps
    topics in a map: beside a refused partition of the same topic it took what was committed for missing."""
    by_identity = {_identity(topic): topic for topic in topics}
    for refusal in refusals:
        topic = by_identity.setdefault(_identity(refusal), refusal)
        if topic is refusal:
            topics.append(refusal)
        else:
            topic.partitions += refusal.partitions


def _identity(topic: Any) -> tuple[str, UUID | None]:
    return topic.name, getattr(topic, "topic_id", None)


def _leave_out_coming_epochs(offsets: dict[int, Any], topic: TopicImage) -> None:
    for index, offset in offsets.items():
        if offset.committed_leader_epoch > topic.partitions[index].leader_epoch:
            offset.committed_leader_epoch = NO_EPOCH
