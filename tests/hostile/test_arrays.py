"""Arrays that are empty, nested, or not what their count says: in each place where a client's request has one.

One row of issue 11 is attacked elsewhere. Row 16, an answer under way: its connection is not idle as long as the peer
takes some of it, and rests from then on (tests/unit/net/test_connection_memory.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hostile_arrays import Array, arrays
from live_attack import Target
from live_wire import ClosedError

from minikafka.broker.dispatch import elements_max
from minikafka.wire.api import CLIENTS, ApiKey

pytestmark = pytest.mark.spec("P6")

ARRAYS = arrays()
ELEMENTS = 2_000
DISTINCT = 5_000
LONG = 40
BAD_COUNTS = {"huge": 2**31 - 1, "negative": -2, "lowest": -(2**31), "one more than there are bytes": 1000}


def test_there_are_arrays() -> None:
    assert len(ARRAYS) > 80
    assert {array.key for array in ARRAYS} >= {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.CREATE_TOPICS}


@pytest.mark.parametrize("count", BAD_COUNTS.values(), ids=BAD_COUNTS.keys())
def test_counts_that_cannot_be_close_the_connection(target: Target, count: int) -> None:
    for array in ARRAYS:
        with target.wire() as wire:
            wire.send_body(array.key, array.version, array.body_with_count(count))
            assert wire.is_closed_by_node(), array.name


def test_an_array_that_is_null_is_answered_or_closes(target: Target) -> None:
    for array in ARRAYS:
        with target.wire() as wire:
            wire.send_body(array.key, array.version, array.body_with_count(-1))
            assert wire.is_closed_by_node() is not array.path[-1].nullable, array.name


def test_elements_of_no_length_are_answered(target: Target) -> None:
    """Names of no character, ids of zeros, in each array as many as a request may well have."""
    answer_all(target, ((array, array.body(*[1] * (len(array.path) - 1), ELEMENTS)) for array in ARRAYS))


def test_nested_arrays_are_answered(target: Target) -> None:
    """All levels have as many elements as each other."""
    nested = [array for array in ARRAYS if len(array.path) > 1]
    answer_all(
        target,
        ((array, array.body(*[round(ELEMENTS ** (1 / len(array.path)))] * len(array.path))) for array in nested),
    )


def test_elements_that_differ_are_answered(target: Target) -> None:
    """As many as a request may well have, each with a name or number of its own: nothing looks at each for each."""
    answer_all(target, ((array, array.body_of_distinct(DISTINCT)) for array in ARRAYS))


def test_names_of_the_greatest_length_are_answered(target: Target) -> None:
    """What is done with a name must not take long for each of its characters."""
    answer_all(target, ((array, array.body_of_distinct(LONG, 32_000)) for array in ARRAYS))


def answer_all(target: Target, asked: Iterable[tuple[Array, bytes]]) -> None:
    with target.wire() as wire:
        for array, body in asked:
            try:
                wire.send_body(array.key, array.version, body)
                wire.receive_frame()
            except ClosedError:
                pytest.fail(f"{array.name} in {len(body)} bytes closed the connection")


def test_too_many_elements_close_the_connection_wherever_they_are(target: Target) -> None:
    """Also where each array has few: 101 of 100."""
    for array in ARRAYS:
        side = round(elements_max(array.key) ** 0.5) + 1
        is_light = array.path[-1].primitive in ("int32", "int64") and not array.path[-1].field.named
        if len(array.path) == 2 and not is_light:
            with target.wire() as wire:
                wire.send_body(array.key, array.version, array.body(side, side))
                assert wire.is_closed_by_node(), array.name


def test_requests_without_a_body_are_answered_or_close(target: Target) -> None:
    for key in (key for key in ApiKey if key.listeners & CLIENTS):
        for version in (key.versions.first, key.versions.last):
            with target.wire() as wire:
                wire.send_body(key, version, b"")
                wire.is_closed_by_node()  # either, and at once
