from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.model import ZERO_TOPIC_ID, TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode, encode_around
from minikafka.wire.encoder import INLINE_MAX
from minikafka.wire.errors import WireError
from minikafka.wire.headers import encode_response
from minikafka.wire.hot import (
    EncodedTopics,
    ProduceResponses,
    encode_fetch_response,
    records_slot,
)
from minikafka.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from minikafka.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from minikafka.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from minikafka.wire.schema import Message, RecordsSlot

quick = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
Messages = Callable[..., st.SearchStrategy[Message]]
fetch_versions = st.integers(*ApiKey.FETCH.versions)
metadata_versions = st.integers(*ApiKey.METADATA.versions)


@quick
@given(data=st.data(), version=fetch_versions)
def test_a_fetch_response_in_segments_is_the_plain_one(messages: Messages, data: st.DataObject, version: int) -> None:
    response = data.draw(messages(FetchResponse, version))
    assert isinstance(response, FetchResponse)
    expected = encode_response(ApiKey.FETCH, version, 77, encode(response, version))
    stored: list[bytes] = []
    for partition in (partition for topic in response.responses for partition in topic.partitions):
        choice = data.draw(st.sampled_from(["inline", "slot"]))
        if partition.records is not None and choice == "slot":
            stored.append(bytes(partition.records))
            partition.records = records_slot(len(partition.records), len(stored) - 1)
    segments = encode_fetch_response(response, version, 77)
    parts = [stored[int(str(s.handle))] if isinstance(s, RecordsSlot) else bytes(s) for s in segments]
    assert b"".join(parts) == expected


def test_large_records_are_not_copied_and_small_ones_are_joined() -> None:
    large, small = memoryview(bytes(INLINE_MAX + 1)), memoryview(bytes(INLINE_MAX))
    stored, nothing = records_slot(9, "f"), records_slot(0, "g")
    partitions = [PartitionData(records=records) for records in (large, small, nothing, stored)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    first, second, third, fourth = encode_fetch_response(response, 4, 1)
    assert isinstance(first, bytes)
    assert second is large
    assert isinstance(third, bytes)
    assert isinstance(fourth, RecordsSlot)
    assert (fourth.size, fourth.handle) == (9, "f")
    assert repr(fourth) == "RecordsSlot(size=9, handle='f')"


def test_a_slot_cannot_be_encoded_into_plain_bytes() -> None:
    partition = PartitionData(records=records_slot(9, "f"))
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    with pytest.raises(WireError, match="records"):
        encode(response, 12)


@quick
@given(data=st.data(), version=metadata_versions)
def test_a_metadata_response_of_encoded_topics_is_the_plain_one(
    messages: Messages, data: st.DataObject, version: int
) -> None:
    response = data.draw(messages(MetadataResponse, version))
    assert isinstance(response, MetadataResponse)
    expected = encode(response, version)
    topics = [encode(topic, version) for topic in response.topics]
    assert encode_around(response, version, "topics", topics) == expected


def test_topics_are_encoded_again_only_when_they_changed() -> None:
    built: list[str] = []

    def build() -> MetadataResponseTopic:
        built.append("t")
        return MetadataResponseTopic(name="t")

    topics, image, next_image = EncodedTopics(entries_max=2), object(), object()
    first = topics.encoded(12, "t", "", image, build)
    assert first == encode(MetadataResponseTopic(name="t"), 12)
    assert topics.encoded(12, "t", "", image, build) is first
    assert len(built) == 1
    topics.encoded(12, "t", "", next_image, build)
    assert len(built) == 2
    topics.encoded(5, "t", "", next_image, build)
    topics.encoded(5, "u", "", next_image, build)
    assert len(built) == 4
    topics.encoded(12, "t", "", next_image, build)
    assert len(built) == 5, "the cache is emptied when it is full"


def test_deleted_topics_are_forgotten() -> None:
    """Up to 10,000 images of deleted topics were kept: half a gigabyte, of 100 partitions each."""
    topics, living, deleted = EncodedTopics(entries_max=3), object(), object()
    topics.encoded(12, "t", "", living, lambda: MetadataResponseTopic(name="t"))
    before = getrefcount(deleted)
    for asked in ("", "more"):
        topics.encoded(12, "u", asked, deleted, lambda: MetadataResponseTopic(name="u"))
    topics.forget("u")
    topics.forget("never asked for")
    assert getrefcount(deleted) == before
    kept = topics.encoded(12, "t", "", living, lambda: MetadataResponseTopic(name="t"))
    topics.encoded(12, "v", "", living, lambda: MetadataResponseTopic(name="v"))
    assert topics.encoded(12, "t", "", living, lambda: MetadataResponseTopic(name="t")) is kept


int64s = st.integers(-(2**63), 2**63 - 1)


@quick
@given(
    version=st.integers(*ApiKey.PRODUCE.versions),
    tp=st.builds(TopicPartition, st.text("abc._-09", min_size=1, max_size=249), st.integers(0, 2**31 - 1)),
    topic_id=st.one_of(st.just(ZERO_TOPIC_ID), st.uuids()),
    correlation_id=st.integers(0, 2**31 - 1),
    base_offset=int64s,
    log_append_time=int64s,
    log_start_offset=int64s,
)
def test_a_produce_response_from_a_template_is_the_encoded_one(
    version: int,
    tp: TopicPartition,
    topic_id: UUID,
    correlation_id: int,
    base_offset: int,
    log_append_time: int,
    log_start_offset: int,
) -> None:
    row = PartitionProduceResponse(
        index=tp.partition,
        base_offset=base_offset,
        log_append_time_ms=log_append_time,
        log_start_offset=log_start_offset,
    )
    topic = TopicProduceResponse(name=tp.topic, topic_id=topic_id, partition_responses=[row])
    response = ProduceResponse(responses=[topic])
    responses = ProduceResponses(entries_max=2)
    for _ in range(3):
        frame = responses.success(version, correlation_id, tp, topic_id, base_offset, log_append_time, log_start_offset)
        assert frame == encode_response(ApiKey.PRODUCE, version, correlation_id, encode(response, version))
