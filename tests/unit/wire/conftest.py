"""Every message class in every version, and hypothesis strategies for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from hypothesis import strategies as st

from minikafka.wire.api import ApiKey
from minikafka.wire.layout import Column, layout_of
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minikafka.wire.schema import Message, VersionRange

CLASSES: list[type[Message]] = [
    *(cls for key in ApiKey for cls in (key.request_class, key.response_class)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]

OUR_TAGS = 10_000
"""Tagged fields from here on are our own, and no other codec knows them."""
RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
MessageStrategy = Callable[..., st.SearchStrategy[Message]]


def versions_of(cls: type[Message]) -> Iterator[int]:
    versions = VersionRange.parse(cls.VERSIONS)
    return iter(range(versions.first, versions.last + 1))


def primitives(primitive: str, tame: bool) -> st.SearchStrategy[object]:
    if tame and (primitive in RANGES or primitive == "uint16"):
        return st.integers(0, 100)
    if primitive in RANGES:
        bits = RANGES[primitive]
        return st.integers(-(2**bits), 2**bits - 1)
    if primitive == "uint16":
        return st.integers(0, 65535)
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "string": st.text(st.characters(codec="utf-8"), max_size=5) | st.just("x" * 200),
        "bytes": st.binary(max_size=5) | st.just(b"x" * 200),
        "records": st.binary(max_size=5) | st.just(b"x" * 200),
        "uuid": st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)),
    }[primitive]


def values(column: Column, version: int, tame: bool) -> st.SearchStrategy[object]:
    struct = column.struct
    element = primitives(column.primitive, tame) if struct is None else messages(struct, version, tame)
    strategy = st.lists(element, max_size=3) if column.field.array else element
    return st.none() | strategy if column.nullable else strategy


def messages(cls: type[Message], version: int, tame: bool = False) -> st.SearchStrategy[Message]:
    """Messages with the fields of `version` set; tame ones, which every codec accepts, hold Kafka's fields alone
    and small numbers."""
    layout = layout_of(cls, version)
    always = {column.name: values(column, version, tame) for column in layout.columns}
    tagged = [column for column in layout.tagged if not tame or column.field.tag < OUR_TAGS]
    maybe = {column.name: values(column, version, tame) for column in tagged}
    return st.fixed_dictionaries(always, optional=maybe).map(lambda fields: cls(**fields))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "version" not in metafunc.fixturenames and "message_class" in metafunc.fixturenames:
        metafunc.parametrize("message_class", CLASSES, ids=lambda cls: cls.__name__)
    elif "message_class" in metafunc.fixturenames:
        cases = [(cls, version) for cls in CLASSES for version in versions_of(cls)]
        names = [f"{cls.__name__}-{version}" for cls, version in cases]
        metafunc.parametrize(("message_class", "version"), cases, ids=names)


@pytest.fixture(name="messages", scope="session")
def messages_fixture() -> MessageStrategy:
    return messages
