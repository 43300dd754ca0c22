"""Who gets a partition of a group goes on where its offset was committed, and does not begin anew."""

from __future__ import annotations

from minikafka.chaos.history import History
from minikafka.chaos.rounds.group_load import GroupLoad
from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients
from minikafka.chaos.rounds.reached import Reached


def a_load() -> GroupLoad:
    load = GroupLoad(Reached("127.0.0.1:1"), History(), 10, 0, MinikafkaClients())
    load.note("p", "ok", "send", [["t-0", "a", 0], ["t-0", "b", 1]])
    load.note("m1", "ok", "assign", ["t-0"])
    load.note("m1", "ok", "poll", [["t-0", "a", 0]])
    return load


def test_who_begins_anew_shows_that_an_offset_was_forgotten() -> None:
    """A round in which the offsets of the group were deleted passed: all was handed out, some of it again."""
    load = a_load()
    load.note_committed(["t-0"])
    load.note("m2", "ok", "assign", ["t-0"])
    load.note("m2", "ok", "poll", [["t-0", "a", 0], ["t-0", "b", 1]])
    whole, forgotten = load.findings()
    assert whole.ok
    assert not forgotten.ok
    assert forgotten.sentence == "1 were; m2 was handed t-0 from the beginning"


def test_what_was_not_yet_committed_when_it_was_assigned_may_be_handed_out_again() -> None:
    load = a_load()
    load.note("m2", "ok", "assign", ["t-0"])
    load.note_committed(["t-0"])
    load.note("m2", "ok", "poll", [["t-0", "a", 0], ["t-0", "b", 1]])
    assert [each.ok for each in load.findings()] == [True, True]


def test_clients_that_tell_of_no_commit_prove_nothing_about_them() -> None:
    load = a_load()
    load.note("m1", "ok", "poll", [["t-0", "b", 1]])
    assert [each.name for each in load.findings()] == ["the group was handed every acknowledged record"]


def test_a_commit_that_was_repeated_after_a_later_one_is_not_forgotten() -> None:
    """By its client, which had no answer to the first attempt."""
    load = a_load()
    load.note_committed(["t-0"])
    load.note("m2", "ok", "assign", ["t-0"])
    load.note("m2", "ok", "poll", [["t-0", "b", 1]])
    assert [each.ok for each in load.findings()] == [True, True]
