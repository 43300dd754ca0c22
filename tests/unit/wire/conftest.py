"""Every message class, hypothesis strategies for messages, and quick ones of chance for sweeps of all versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final
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
Samples = Callable[..., Iterator[tuple[int, Message]]]
SAMPLES: Final = 3
"""Messages of each version besides that of all defaults: hypothesis takes twenty times as long for one."""


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


def sample(cls: type[Message], version: int, rng: Random, tame: bool) -> Message:
    """Of chance, and of the same values as :func:`messages`."""
    layout = layout_of(cls, version)
    tagged = [column for column in layout.tagged if not tame or column.field.tag < OUR_TAGS]
    columns = [*layout.columns, *(column for column in tagged if rng.random() < 0.5)]
    return cls(**{column.name: _sample_value(column, version, rng, tame) for column in columns})


def _sample_value(column: Column, version: int, rng: Random, tame: bool) -> object:
    if column.nullable and rng.random() < 0.25:
        return None
    if column.field.array:
        return [_sample_element(column, version, rng, tame) for _ in range(rng.randrange(4))]
    return _sample_element(column, version, rng, tame)


def _sample_element(column: Column, version: int, rng: Random, tame: bool) -> object:
    struct, primitive = column.struct, column.primitive
    if struct is not None:
        return sample(struct, version, rng, tame)
    if tame and (primitive in RANGES or primitive == "uint16"):
        return rng.randrange(101)
    if primitive in RANGES:
        bits = RANGES[primitive]
        return rng.choice([-(2**bits), -1, 0, 1, 2**bits - 1, rng.randrange(-(2**bits), 2**bits)])
    if primitive == "string":
        return rng.choice(["", "x" * 200, "".join(rng.choices("ax0\0\x7f\x80é€\uffff\U0001f600", k=rng.randrange(6)))])
    if primitive in ("bytes", "records"):
        return rng.choice([b"", b"x" * 200, rng.randbytes(rng.randrange(6))])
    others: dict[str, Callable[[], object]] = {
        "bool": lambda: rng.random() < 0.5,
        "uint16": lambda: rng.choice([0, 65535, rng.randrange(65536)]),
        "float64": lambda: rng.choice([0.0, -0.0, float("inf"), rng.uniform(-1e300, 1e300)]),
        "uuid": lambda: UUID(int=rng.randrange(1, 2**128)),
    }
    return others[primitive]()


def samples(cls: type[Message], *, tame: bool = False) -> Iterator[tuple[int, Message]]:
    """Versions, and messages of each, the same ones whenever and wherever they are asked for."""
    for version in versions_of(cls):
        rng = Random(f"{cls.__name__} {version}")
        yield version, cls()
        for _ in range(SAMPLES):
            yield version, sample(cls, version, rng, tame)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "message_class" in metafunc.fixturenames:
        metafunc.parametrize("message_class", CLASSES, ids=lambda cls: cls.__name__)


@pytest.fixture(name="messages", scope="session")
def messages_fixture() -> MessageStrategy:
    return messages


@pytest.fixture(name="samples", scope="session")
def samples_fixture() -> Samples:
    return samples
