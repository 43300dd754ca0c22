"""Who gets a partition of a group goes on where its offset was committed."""

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
    load.note_committed("m1", [("t-0", 1)], is_done=True)
    load.history.now_ms = lambda: 5  # type: ignore[method-assign]
    load.note("m2", "ok", "assign", ["t-0"])
    load.note("m2", "ok", "poll", [["t-0", "a", 0], ["t-0", "b", 1]])
    whole, _, moved = load.findings()
    assert whole.ok
    assert not moved.ok
    assert moved.sentence == "1 did not; m2 was handed t-0 from 0 on, and 1 was committed"


def test_clients_that_tell_of_no_commit_prove_nothing_about_them() -> None:
    load = a_load()
    load.note("m1", "ok", "poll", [["t-0", "b", 1]])
    assert "members began where offsets were committed" not in {each.name for each in load.findings()}
