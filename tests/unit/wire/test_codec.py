from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from minikafka.wire.codec import decode, decode_exactly, decoder, encode, encoder
from minikafka.wire.errors import WireError
from minikafka.wire.layout import is_flexible, size_min
from minikafka.wire.messages.api_versions import ApiVersionsRequest
from minikafka.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopics
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.wire.primitives import ELEMENTS_MAX, STRING_BYTES_PER_ELEMENT, STRING_SIZE_MAX, encode_uvarint
from minikafka.wire.schema import Message, VersionRange

Samples = Callable[..., Iterator[tuple[int, Message]]]


def test_what_is_encoded_is_decoded(message_class: type[Message], samples: Samples) -> None:
    for version, message in samples(message_class):
        encoded = encode(message, version)
        assert max(1, len(encoded)) >= size_min(message_class, version)
        decoded, end = decode(message_class, version, encoded)
        assert (version, decoded) == (version, message)
        assert end == len(encoded)
        behind, end = decode(message_class, version, b"##" + encoded + b"###", 2)
        assert (version, behind) == (version, message)
        assert end == len(encoded) + 2
        assert encode(decoded, version) == encoded


def test_unknown_tagged_fields_are_ignored(message_class: type[Message]) -> None:
    unknown = b"\x02" + encode_uvarint(1000) + b"\x03abc" + encode_uvarint(70000) + b"\x00"
    versions = VersionRange.parse(message_class.VERSIONS)
    for version in range(versions.first, versions.last + 1):
        encoded = encode(message_class(), version)
        if is_flexible(message_class, version) and not encoded[-1]:
            assert decode_exactly(message_class, version, encoded[:-1] + unknown) == message_class()


def test_versions_that_do_not_exist(message_class: type[Message]) -> None:
    for absent in (-1, 1000):
        with pytest.raises(WireError, match="has versions"):
            decoder(message_class, absent)
        with pytest.raises(WireError, match="has versions"):
            encoder(message_class, absent)


def test_bytes_behind_the_message() -> None:
    encoded = encode(HeartbeatRequest(), 4)
    assert decode_exactly(HeartbeatRequest, 4, encoded) == HeartbeatRequest()
    with pytest.raises(WireError, match="1 bytes follow HeartbeatRequest v4"):
        decode_exactly(HeartbeatRequest, 4, encoded + b"\0")


def test_fields_of_other_versions_are_dropped_and_keep_their_defaults() -> None:
    request = FetchRequest(session_id=7, max_wait_ms=3, rack_id="r")
    decoded, _ = decode(FetchRequest, 4, encode(request, 4))
    assert decoded == FetchRequest(max_wait_ms=3)


def test_records_are_slices_and_bytes_are_copies() -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"abc")])
    frame = bytearray(encode(ProduceRequest(topic_data=[topic]), 9))
    records = decode(ProduceRequest, 9, frame)[0].topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"abc")] = ord("X")
    assert records == b"Xbc"
    request = SyncGroupRequest(assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"abc")])
    frame = bytearray(encode(request, 4))
    decoded, _ = decode(SyncGroupRequest, 4, frame)
    frame[frame.index(b"abc")] = ord("X")
    assert decoded == request


def test_known_tagged_fields() -> None:
    plain = encode(FetchRequest(), 15)
    tagged = FetchRequest(cluster_id="c", replica_state=ReplicaState(replica_id=4, replica_epoch=9))
    encoded = encode(tagged, 15)
    assert len(encoded) > len(plain)
    assert decode_exactly(FetchRequest, 15, encoded) == tagged
    with pytest.raises(WireError, match="wrong size"):
        decode(FetchRequest, 15, plain[:-1] + b"\x01\x01\x02" + bytes(13))
    with pytest.raises(WireError, match="tagged field"):
        decode(FetchRequest, 15, plain[:-1] + b"\x01\x01\x7f")
    with pytest.raises(WireError, match="too many tagged fields"):
        decode(FetchRequest, 15, plain[:-1] + b"\xff\xff\xff\xff\x0f")


def test_nullable_structs() -> None:
    for cursor in (None, Cursor(topic_name="t", partition_index=3)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        assert decode_exactly(DescribeTopicPartitionsRequest, 0, encode(request, 0)) == request


def test_null_only_where_it_is_allowed() -> None:
    assert decode_exactly(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(WireError, match="topics must not be null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    with pytest.raises(WireError, match=r"HeartbeatRequest\.group_id must not be null"):
        decode(HeartbeatRequest, 0, b"\xff\xff")
    with pytest.raises(WireError, match=r"HeartbeatRequest\.group_id must not be null"):
        decode(HeartbeatRequest, 4, b"\x00")
    with pytest.raises(WireError, match="topics must not be null"):
        encode(MetadataRequest(topics=None), 0)


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, ELEMENTS_MAX])
def test_array_counts_are_checked_before_anything_is_allocated(count: int) -> None:
    with pytest.raises(WireError, match=r"MetadataRequest.topics has length"):
        decode(MetadataRequest, 1, count.to_bytes(4, "big", signed=True) + bytes(100))


def test_the_elements_of_a_message_are_limited() -> None:
    count = ELEMENTS_MAX + 1
    with pytest.raises(WireError, match="than is allowed"):
        decode(MetadataRequest, 1, count.to_bytes(4, "big") + bytes(2 * count))


def test_each_partition_that_is_asked_about_counts() -> None:
    """A request of 10,000 elements asked for 80,000 offsets: 0.18 s of the loop."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[*range(100)])]
    body = encode(OffsetFetchRequest(group_id="g", topics=topics), 7)
    decode(OffsetFetchRequest, 7, body, elements_max=101)
    with pytest.raises(WireError):
        decode(OffsetFetchRequest, 7, body, elements_max=100)


def test_a_caller_may_limit_elements_further() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")] * 10)
    assert decode(MetadataRequest, 1, encode(request, 1), 0, 10)[0] == request
    with pytest.raises(WireError, match="than is allowed"):
        decode(MetadataRequest, 1, encode(request, 1), 0, 9)


@pytest.mark.parametrize("version", [8, 9])
def test_long_strings_count_as_elements(version: int) -> None:
    """One produce of 93 MiB of topic names, each with a character of four bytes, had 375 MB before it was refused."""
    names = ["x" * (STRING_SIZE_MAX - 4) + "\N{GRINNING FACE}"] * 10
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=name, partition_data=[]) for name in names])
    body, elements = encode(request, version), 10 + 10 * (STRING_SIZE_MAX // STRING_BYTES_PER_ELEMENT)
    assert decode(ProduceRequest, version, body, 0, elements)[0] == request
    with pytest.raises(WireError, match=r"TopicProduceData\.name has length 32767: .* than is allowed"):
        decode(ProduceRequest, version, body, 0, elements - 1)


def test_text_that_is_not_utf8_and_varints_without_end() -> None:
    with pytest.raises(WireError, match="not UTF-8"):
        decode(HeartbeatRequest, 4, b"\x03\xff\xfe")
    with pytest.raises(WireError, match="longer than 5 bytes"):
        decode(HeartbeatRequest, 4, b"\xff" * 10)
    with pytest.raises(WireError, match="has length"):
        decode(ApiVersionsRequest, 3, encode_uvarint(40_000) + b"x" * 40_000)


def test_an_encoder_names_the_field_that_does_not_fit() -> None:
    partition = FetchPartition(partition=2**31)
    request = FetchRequest(topics=[FetchTopic(topic="t"), FetchTopic(topic="u", partitions=[partition])])
    with pytest.raises(WireError, match=r"FetchRequest v12 .*: topics\[1\].partitions\[0\].partition is"):
        encode(request, 12)
    with pytest.raises(WireError, match="group_id is longer than 32767 bytes"):
        encode(HeartbeatRequest(group_id="x" * 40_000), 4)


def test_codecs_are_compiled_once() -> None:
    assert decoder(FetchRequest, 12) is decoder(FetchRequest, 12)
    assert encoder(FetchRequest, 12) is encoder(FetchRequest, 12)
