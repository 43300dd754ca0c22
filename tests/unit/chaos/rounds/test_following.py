"""Those who read along get as far as who reads at the end."""

from __future__ import annotations

from typing import Any

from minikafka.chaos.history import History
from minikafka.chaos.rounds.following import left_behind


def told(*events: tuple[str, str, list[Any]]) -> list[str]:
    history = History()
    for process, function, value in events:
        history.append(process, "ok", function, value)
    return left_behind(history.events, ["consumer-1", "consumer-2"])


BEGIN = ("consumer-1", "assign", [["t-0", 0], ["t-1", 0]])
END = (
    ("reader", "assign", [["t-0", 0], ["t-1", 0]]),
    ("reader", "poll", [["t-0", "a", 0], ["t-0", "b", 1], ["t-1", "c", 5]]),
)


def test_one_that_got_to_the_end_is_not_behind() -> None:
    got = [["t-1", "c", 5], ["t-0", "a", 0]]
    assert told(BEGIN, ("consumer-1", "poll", got), *END, ("consumer-1", "poll", [["t-0", "b", 1]])) == []


def test_one_that_hangs_is_behind() -> None:
    """Rounds passed with consumers that got nothing more of a partition, as no record was lost."""
    assert told(BEGIN, ("consumer-1", "poll", [["t-0", "a", 0]]), *END) == [
        "consumer-1 was handed offset 0 last of t-0, which has 1",
        "consumer-1 was handed none of t-1, which has 5",
    ]


def test_a_successor_has_to_get_there_itself() -> None:
    everything = ("consumer-1.1", "poll", END[1][2])
    first, second = (("consumer-1.1", *BEGIN[1:]), ("consumer-1.2", *BEGIN[1:]))
    assert told(first, everything, *END) == []
    assert len(told(first, everything, second, *END)) == 2


def test_each_is_held_against_a_reader_of_its_isolation() -> None:
    begin = ("consumer-2", "assign_committed", [["t-0", 0]])
    end = (("reader_committed", "assign_committed", []), ("reader_committed", "poll_committed", [["t-0", "a", 0]]))
    assert told(begin, *END) == []
    assert told(begin, *end) == ["consumer-2 was handed none of t-0, which has 0"]
