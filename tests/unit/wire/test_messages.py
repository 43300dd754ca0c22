from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from minikafka.wire.layout import default_of, is_new_list, layout_of
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.schema import Message, VersionRange

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_messages", ROOT / "tools" / "generate_messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_messages_are_what_the_generator_writes(generator: ModuleType) -> None:
    directory = ROOT / "minikafka" / "wire" / "messages"
    committed = {path.name: path.read_text() for path in directory.glob("*.py") if path.name != "__init__.py"}
    assert generator.generate() == committed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MaxWaitMs", "max_wait_ms"),
        ("IsrNodes", "isr_nodes"),
        ("PartitionMaxBytes", "partition_max_bytes"),
        ("SCRAMMechanism", "scram_mechanism"),
        ("Topic", "topic"),
    ],
)
def test_names_become_snake_case(generator: ModuleType, name: str, expected: str) -> None:
    assert generator.snake_case(name) == expected


def test_defaults_agree_with_the_schema(message_class: type[Message]) -> None:
    message = message_class()
    for field in message_class.SCHEMA:
        assert getattr(message, field.name) == ([] if is_new_list(field) else default_of(field))


def test_every_struct_has_the_ranges_of_its_message(message_class: type[Message], version: int) -> None:
    layout = layout_of(message_class, version)
    for column in (*layout.columns, *layout.tagged):
        if column.struct is not None:
            assert column.struct.VERSIONS == message_class.VERSIONS
            assert column.struct.FLEXIBLE == message_class.FLEXIBLE


def test_messages_are_compared_by_content_and_not_hashable() -> None:
    one = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=1)])])
    other = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=1)])])
    assert one == other
    other.topics[0].partitions[0].partition = 2
    assert one != other
    assert one != "something else"
    with pytest.raises(TypeError):
        hash(one)


def test_a_message_prints_its_fields() -> None:
    assert repr(FetchTopic(topic="t")).startswith("FetchTopic(topic='t', topic_id=UUID(")


def test_lists_are_not_shared_and_null_is_not_empty() -> None:
    one, other = MetadataRequest(), MetadataRequest()
    assert one.topics == []
    assert one.topics is not other.topics
    assert MetadataRequest(topics=None).topics is None


def test_a_mistyped_field_is_refused() -> None:
    with pytest.raises(AttributeError):
        FetchRequest().max_wait = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", 3, 4), ("2-5", 5, 6), ("4+", 9000, 3), ("", None, 0), ("none", None, 0)],
)
def test_version_ranges(text: str, inside: int | None, outside: int) -> None:
    versions = VersionRange.parse(text)
    assert inside is None or versions.has(inside)
    assert not versions.has(outside)


def test_version_ranges_are_printed_as_kafka_prints_them() -> None:
    assert str(VersionRange(2, 2)) == "2"
    assert str(VersionRange(2, 5)) == "2-5"
