"""The codecs against two independent ones, kio and kafka-python: same bytes, same values."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
import pytest
from kio.serial import entity_reader, entity_writer

from minikafka.errors import ErrorCode
from minikafka.wire.api import BROKERS, ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.headers import encode_request, response_prefix
from minikafka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.wire.schema import Message

NOT_IN_KAFKA_PYTHON = {
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    *(key for key in ApiKey if key.listeners == BROKERS),
}
YOUNGER = {
    (ApiVersionsRequest, 5),
    (ApiVersionsResponse, 5),
    (TxnOffsetCommitRequest, 6),
    (TxnOffsetCommitResponse, 6),
}
"""Of Kafka 4.4, which neither of the two knows yet."""
Samples = Callable[..., Iterator[tuple[int, Message]]]


@cache
def kafka_python_class(name: str) -> Any:
    packages = (getattr(kafka.protocol, package) for package in ("admin", "consumer", "metadata", "producer", "sasl"))
    return next((getattr(package, name) for package in packages if hasattr(package, name)), None)


@cache
def kio_codec(cls: type[Message], version: int) -> tuple[Any, Any]:
    api, kind = cls.__module__.rpartition(".")[2], "request" if cls.__name__.endswith("Request") else "response"
    if api == "consumer_protocol":
        api, kind = f"consumer_protocol_{cls.__name__.removeprefix('ConsumerProtocol').lower()}", "data"
    twin = getattr(import_module(f"kio.schema.{api}.v{version}.{kind}"), cls.__name__)
    return entity_reader(twin), entity_writer(twin)


def known_samples(message_class: type[Message], samples: Samples) -> Iterator[tuple[int, Message]]:
    for version, message in samples(message_class, tame=True):
        if (message_class, version) not in YOUNGER:
            yield version, message


def test_kio_reads_and_writes_the_same_bytes(message_class: type[Message], samples: Samples) -> None:
    for version, message in known_samples(message_class, samples):
        read, write = kio_codec(message_class, version)
        encoded = encode(message, version)
        entity, end = read(encoded, 0)
        assert (version, end) == (version, len(encoded))
        out = io.BytesIO()
        write(out, entity)
        assert (version, out.getvalue()) == (version, encoded)


def test_kafka_python_reads_the_same_values_and_writes_the_same_bytes(
    message_class: type[Message], samples: Samples
) -> None:
    cls = kafka_python_class(message_class.__name__)
    if cls is None:
        assert any(message_class in (key.request_class, key.response_class) for key in NOT_IN_KAFKA_PYTHON)
        return  # kio has it
    for version, message in known_samples(message_class, samples):
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # with an error it takes any version for version 0
        encoded = encode(message, version)
        if message_class.__name__.startswith("ConsumerProtocol"):
            decoded = cls.decode(encoded, version=version, header=False)
        else:
            decoded = cls.decode(encoded, version=version)
            decoded._header = None
            assert (version, decoded.encode(version=version)) == (version, encoded)
        compare(message, decoded)


@pytest.mark.parametrize(
    ("fields", "encoded"),
    [
        ({}, "126170616368652d6b61666b612d6a61766106342e342e3000ffffffff00"),
        ({"cluster_id": "abc", "node_id": 7}, "126170616368652d6b61666b612d6a61766106342e342e30046162630000000700"),
    ],
)
def test_api_versions_5_is_what_the_java_client_of_kafka_44_writes(fields: dict[str, Any], encoded: str) -> None:
    request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.4.0", **fields)
    assert encode(request, 5).hex() == encoded
    assert decode(ApiVersionsRequest, 5, bytes.fromhex(encoded)) == (request, len(encoded) // 2)


@pytest.mark.parametrize(
    ("version", "by", "request_bytes", "response_bytes"),
    [
        (
            5,
            {"name": "t"},
            "027802670000000000000007000200000005036d6502690202740200000003000000000000000900000004026d000000",
            "0000000102027402000000030016000000",
        ),
        (
            6,
            {"topic_id": UUID(int=(1 << 64) + 2)},
            "027802670000000000000007000200000005036d6502690200000000000000010000000000000002"
            "0200000003000000000000000900000004026d000000",
            "00000001020000000000000001000000000000000202000000030016000000",
        ),
    ],
)
def test_txn_offset_commit_is_what_the_classes_of_kafka_44_write(
    version: int, by: dict[str, Any], request_bytes: str, response_bytes: str
) -> None:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=3, committed_offset=9, committed_leader_epoch=4, committed_metadata="m"
    )
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        producer_epoch=2,
        generation_id=5,
        member_id="me",
        group_instance_id="i",
        topics=[TxnOffsetCommitRequestTopic(**by, partitions=[partition])],
    )
    answer = TxnOffsetCommitResponsePartition(partition_index=3, error_code=ErrorCode.ILLEGAL_GENERATION)
    response = TxnOffsetCommitResponse(
        throttle_time_ms=1, topics=[TxnOffsetCommitResponseTopic(**by, partitions=[answer])]
    )
    assert encode(request, version).hex() == request_bytes
    assert encode(response, version).hex() == response_bytes
    assert decode(TxnOffsetCommitRequest, version, bytes.fromhex(request_bytes))[0] == request


def compare(value: Any, twin: Any) -> None:
    """Our value and kafka-python's have the same content, except where it differs from Kafka's schema."""
    if isinstance(value, Message):
        for name, field in value.SCHEMA.items():
            if name.endswith("authorized_operations"):
                continue  # kafka-python renames it and shows it as a set of bits
            if getattr(value, name) != field.default:
                compare(getattr(value, name), getattr(twin, name))
    elif isinstance(value, list):
        for pair in zip(value, twin, strict=True):
            compare(*pair)
    else:
        assert value == twin


@pytest.mark.parametrize("key", list(ApiKey))
def test_header_versions_are_those_of_kio(key: ApiKey) -> None:
    for version in range(key.versions.first, key.versions.last + 1):
        request, response = encode_request(key, version, 1, None, b""), response_prefix(key, version, 1, 0)
        tagged = {"Request": len(request) - 14 + 1, "Response": len(response) - 8}  # one byte says: no tagged fields
        for kind, ours in tagged.items():
            if (key.request_class, version) in YOUNGER:
                continue
            module = import_module(f"kio.schema.{key.name.lower()}.v{version}.{kind.lower()}")
            header = getattr(module, key.camel_name + kind).__header_schema__
            assert int(header.__version__) == ours
