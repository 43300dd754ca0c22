from __future__ import annotations

from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.schema import EMPTY, NO_TAG, Message, VersionRange


def test_defaults_agree_with_the_schema(message_class: type[Message]) -> None:
    message = message_class()
    for name, field in message_class.SCHEMA.items():
        assert getattr(message, name) == ([] if field.default is EMPTY else field.default)


def test_a_tagged_field_is_tagged_in_all_its_versions_which_are_flexible(message_class: type[Message]) -> None:
    for field in message_class.SCHEMA.values():
        if field.tag != NO_TAG:
            assert VersionRange.parse(field.versions).first >= VersionRange.parse(message_class.FLEXIBLE).first


def test_every_struct_has_the_ranges_of_its_message(message_class: type[Message]) -> None:
    for field in message_class.SCHEMA.values():
        if not isinstance(field.type, str):
            assert field.type.VERSIONS == message_class.VERSIONS
            assert field.type.FLEXIBLE == message_class.FLEXIBLE


def test_annotations_say_what_the_fields_hold(message_class: type[Message]) -> None:
    hints = get_type_hints(message_class)
    message = message_class()
    for name, field in message_class.SCHEMA.items():
        hint = hints[name]
        assert is_instance(getattr(message, name), hint)
        may_be_none = bool(field.nullable) or (not field.array and isinstance(field.type, type))
        assert (type(None) in get_args(hint)) == may_be_none


def is_instance(value: object, hint: Any) -> bool:
    """A default fits its annotation; of a list its being one."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return isinstance(value, tuple(get_origin(kind) or kind for kind in kinds))


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
