"""Offsets of a stream as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.offsets import UNRESOLVED, StreamOffset, begins_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

offsets = st.dictionaries(
    st.builds(TopicPartition, st.from_regex(r"[a-z._-]{1,5}", fullmatch=True), st.integers(0, 20)),
    st.builds(OffsetAndEpoch, st.integers(0, 2**63 - 1), st.integers(-1, 1000)),
    max_size=8,
)


def test_it_looks_like_that_of_sparks_connector() -> None:
    ends = {B0: OffsetAndEpoch(7, -1), A1: OffsetAndEpoch(45, -1), A0: OffsetAndEpoch(123, -1)}
    assert StreamOffset(ends).to_json() == {"a": {"0": 123, "1": 45}, "b": {"0": 7}}


def test_what_spark_does_not_know_has_names_that_no_topic_has() -> None:
    found = StreamOffset({A0: OffsetAndEpoch(9, 4)}, {A0: OffsetAndEpoch(3, 2)}).to_json()
    begin = {"a": {"0": 3}, "@epochs": {"a": {"0": 2}}}
    assert found == {"a": {"0": 9}, "@epochs": {"a": {"0": 4}}, "@from": begin}


def test_ids_stand_beside_the_topics() -> None:
    found = StreamOffset({A0: OffsetAndEpoch(9, -1)}, topic_ids={"b": "2", "a": "1"}).to_json()
    assert json.dumps(found) == '{"a": {"0": 9}, "@ids": {"a": "1", "b": "2"}}'


@given(offsets, offsets, st.dictionaries(st.sampled_from("abc"), st.text(), max_size=3))
def test_round_trip_through_text(
    ends: dict[TopicPartition, OffsetAndEpoch], begins: dict[TopicPartition, OffsetAndEpoch], ids: dict[str, str]
) -> None:
    text = json.dumps(StreamOffset(ends, begins, ids).to_json())
    again = StreamOffset.from_json(json.loads(text))
    assert again == StreamOffset(ends, begins, ids)
    reordered = StreamOffset(*(dict(reversed(part.items())) for part in (ends, begins, ids)))  # type: ignore[attr-defined]
    assert json.dumps(reordered.to_json()) == text


def test_a_batch_begins_where_the_one_before_ended_unless_it_says_otherwise() -> None:
    start = StreamOffset({A0: OffsetAndEpoch(5, 1), A1: OffsetAndEpoch(6, 1)}).to_json()
    end = StreamOffset({A0: OffsetAndEpoch(9, 1)}, {A1: OffsetAndEpoch(2, 0), B0: OffsetAndEpoch(0, 0)})
    assert begins_of(start, end) == {A0: (5, 1), A1: (2, 0), B0: (0, 0)}
    assert begins_of(UNRESOLVED, end) == {A1: (2, 0), B0: (0, 0)}


@pytest.mark.parametrize(
    "text", ['{"a":5}', '{"a":{"x":5}}', '{"a":{"0":"x"}}', '{"a":{"0":null}}', '{"@ids":{"a":5}}', '{"@ids":5}']
)
def test_others_offsets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not of this source"):
        StreamOffset.from_json(json.loads(text))
