"""Where ``group reset-offsets`` puts a group, and what it makes of words."""

from __future__ import annotations

import pytest
import typer

from minikafka.cli.describing import EARLIEST, LATEST
from minikafka.cli.reset_offsets import Known, To, new_offsets, parse_datetime, parse_duration, parse_topics
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition

READ, UNREAD = TopicPartition("t", 0), TopicPartition("t", 1)
KNOWN = Known({READ: 15}, {READ: 10, UNREAD: 0}, {READ: 20, UNREAD: 5}, {})


@pytest.mark.parametrize(
    ("to", "read", "unread", "moved"),
    [
        (To(at=EARLIEST), 10, 0, 0),
        (To(at=LATEST), 20, 5, 0),
        (To(offset=3), 10, 3, 1),
        (To(offset=12), 12, 5, 1),
        (To(), 15, 5, 0),
    ],
)
def test_where_a_group_is_put(to: To, read: int, unread: int, moved: int) -> None:
    new, notes = new_offsets(to, [READ, UNREAD], KNOWN)
    assert new == {READ: read, UNREAD: unread}
    assert len(notes) == moved


@pytest.mark.parametrize(("by", "new"), [(3, 18), (-3, 12), (-7, 10), (7, 20), (0, 15)])
def test_a_shift_ends_at_the_ends_of_the_log(by: int, new: int) -> None:
    found, notes = new_offsets(To(shift=by), [READ], KNOWN)
    assert found == {READ: new}
    assert bool(notes) == (abs(by) == 7)


def test_what_has_no_offset_is_not_shifted() -> None:
    with pytest.raises(KafkaError, match="t-1: the group has no offset there to shift"):
        new_offsets(To(shift=1), [READ, UNREAD], KNOWN)


def test_a_time_after_the_last_record_is_the_end() -> None:
    known = KNOWN._replace(at_time={READ: 13, UNREAD: -1})
    assert new_offsets(To(at=1_700_000_000_000), [READ, UNREAD], known)[0] == {READ: 13, UNREAD: 5}


def test_the_current_offset_stays_though_its_record_is_gone() -> None:
    """As Kafka's: what to read next is then for the consumer's reset policy to say."""
    known = KNOWN._replace(committed={READ: 2})
    assert new_offsets(To(), [READ], known) == ({READ: 2}, [])


def test_topics_and_partitions() -> None:
    assert parse_topics(["a", "b:2,0"]) == {"a": [], "b": [0, 2]}


@pytest.mark.parametrize("word", ["", ":1", "a:", "a:x", "a:1,", "a:-1", "a:\u00b2"])
def test_what_names_no_partitions_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOPIC or TOPIC:PARTITION"):
        parse_topics([word])


def test_a_topic_is_named_once() -> None:
    with pytest.raises(typer.BadParameter, match="'a' is given twice"):
        parse_topics(["a:0", "a:1"])


@pytest.mark.parametrize(
    ("word", "ms"),
    [
        ("1970-01-02T00:00:00", 86_400_000),
        ("1970-01-02T00:00:00.250", 86_400_250),
        ("1970-01-02T00:00:00Z", 86_400_000),
        ("1970-01-02T01:00:00.000+01:00", 86_400_000),
    ],
)
def test_a_time_is_in_utc_unless_it_says_otherwise(word: str, ms: int) -> None:
    assert parse_datetime(word) == ms


@pytest.mark.parametrize("word", ["yesterday", "1969-12-31T00:00:00", ""])
def test_no_time_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_datetime(word)


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("P7D", 604_800), ("PT10M", 600), ("PT1H30M", 5400), ("P1DT2H3M4.5S", 93_784.5), ("PT0S", 0)],
)
def test_a_span_of_time(word: str, seconds: float) -> None:
    assert parse_duration(word) == seconds * 1000


@pytest.mark.parametrize("word", ["", "P", "PT", "P1DT", "1h", "P1Y", "PT1.5H", "-PT1H"])
def test_no_span_of_time_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="PT1H30M"):
        parse_duration(word)
