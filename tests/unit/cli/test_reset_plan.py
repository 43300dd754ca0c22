"""Where ``group reset-offsets`` puts a group, and its files."""

from __future__ import annotations

import pytest
import typer

from minikafka.cli.reset_plan import Known, To, format_plan, new_offsets, of_groups, parse_topics, read_plan
from minikafka.errors import KafkaError
from minikafka.model import EARLIEST, LATEST, TopicPartition

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


def test_a_file_of_one_group_does_not_name_it() -> None:
    """As Kafka's own tool writes it."""
    text = format_plan({"g": {READ: 15, UNREAD: 0}})
    assert text == "t,0,15\nt,1,0\n"
    assert of_groups(read_plan(text, "f"), ["g"], "f") == {"g": {READ: 15, UNREAD: 0}}


def test_a_file_of_several_groups_names_them() -> None:
    new = {"g": {READ: 15}, 'odd,"name"': {READ: 2}}
    text = format_plan(new)
    assert text == 'g,t,0,15\n"odd,""name""",t,0,2\n'
    plan = read_plan(text + "\n", "f")
    assert of_groups(plan, [], "f") == new
    assert of_groups(plan, ["g"], "f") == {"g": {READ: 15}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: no line in it"),
        ("t,0,1\nt,0,2\n", "f: line 2 names t-0 again"),
        ("t,0,1\ng,t,0,2\n", "f: some lines name a group, and some do not"),
        ("t,0\n", "f: line 1 is not TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET: t,0"),
        ("t,0,-1\n", "f: line 1 is not TOPIC"),
        ("t,2147483648,1\n", "f: line 1 is not TOPIC"),
        (",0,1\n", "f: line 1 is not TOPIC"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(text: str, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        read_plan(text, "f")
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "groups", "message"),
    [
        ("t,0,1", [], "f: its lines name no group; name the one it is for"),
        ("t,0,1", ["g", "h"], "f: its lines name no group; name the one it is for"),
        ("g,t,0,1", ["h"], "f: no line for group 'h'"),
    ],
)
def test_a_file_must_be_for_the_groups(text: str, groups: list[str], message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        of_groups(read_plan(text, "f"), groups, "f")
    assert refused.value.message == message
