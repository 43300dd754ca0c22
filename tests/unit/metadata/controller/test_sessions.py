"""Who was heard from, and when."""

from __future__ import annotations

from minikafka.metadata.controller.sessions import Sessions


def test_a_session_ends_its_timeout_after_the_last_contact() -> None:
    sessions = Sessions(1000, 0)
    sessions.start(1, 0)
    sessions.start(2, 0)
    sessions.hear(1, 400, 7)
    assert sessions.expired(999) == []
    assert sessions.expired(1000) == [2]
    assert sessions.expired(1400) == [1, 2]
    assert sessions.metadata_offset(1) == 7
    assert sessions.metadata_offset(2) == sessions.metadata_offset(3) == -1


def test_a_presumed_broker_is_not_heard_until_it_speaks() -> None:
    sessions = Sessions(1000, 0)
    sessions.presume(1, 0)
    assert not sessions.is_heard(1)
    assert sessions.expired(1000) == [1]
    assert sessions.hear(1, 500, 0)[1] is True
    assert sessions.is_heard(1)
    assert sessions.hear(1, 600, 0)[1] is False


def test_an_ended_session_begins_anew_with_the_next_heartbeat() -> None:
    sessions = Sessions(1000, 0)
    sessions.start(1, 0)
    sessions.end(1)
    sessions.end(1)
    assert not sessions.is_heard(1)
    assert sessions.expired(5000) == []
    assert sessions.hear(1, 500, 0)[1] is True


def test_a_pause_of_the_controller_counts_against_nobody() -> None:
    """SIGSTOP for a minute: the heartbeats wait in the socket, the tick comes first."""
    sessions = Sessions(1000, 0)
    sessions.start(1, 0)
    sessions.advance(200)
    sessions.advance(60_000)
    assert sessions.expired(60_000) == []
    for now_ms in range(60_100, 61_000, 100):
        sessions.advance(now_ms)
    assert sessions.expired(60_799) == []
    assert sessions.expired(60_800) == [1], "silence while the controller ran counts"


def test_a_heartbeat_counts_from_when_it_came() -> None:
    sessions = Sessions(1000, 0)
    sessions.presume(1, 0)
    sessions.touch(1, 400)
    sessions.touch(2, 400)
    assert sessions.expired(1000) == []
    assert sessions.expired(1400) == [1], "2 has no session"
    assert not sessions.is_heard(1), "what it says is heard when its turn comes"
    sessions.advance(600)
    assert sessions.expired(1599) == [], "a pause is given back"
    assert sessions.expired(1600) == [1], "up to now"


def test_the_next_deadline_is_a_quarter_of_a_timeout_away_or_the_end_of_a_session() -> None:
    sessions = Sessions(1000, 0)
    assert sessions.next_deadline_ms() == 250
    sessions.start(1, 0)
    sessions.advance(900)
    assert sessions.next_deadline_ms() == 900 + 250, "the pause was given back"
    sessions = Sessions(1000, 0)
    sessions.start(1, 0)
    for now_ms in (250, 500, 750, 900):
        sessions.advance(now_ms)
    assert sessions.next_deadline_ms() == 1000
