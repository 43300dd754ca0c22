from __future__ import annotations

import pytest

from minikafka.ledger.events import Event, HistoryError, merge, read_history

WHOLE = Event(0, 0, "p", "ok", "poll", []).to_json() + "\n"


def test_a_torn_last_line_is_left_out() -> None:
    for end in range(1, len(WHOLE) - 1):
        assert len(list(read_history([WHOLE, WHOLE[:end]]))) == 1


def test_a_whole_last_line_counts_without_its_end() -> None:
    assert len(list(read_history([WHOLE.rstrip()]))) == 1


@pytest.mark.parametrize("numbers", [(0, 2), (1, 2), (0, 1, 1), (1, 0)])
def test_a_missing_line_is_noticed(numbers: tuple[int, ...]) -> None:
    lines = [Event(number, 0, "p", "ok", "poll", []).to_json() + "\n" for number in numbers]
    with pytest.raises(HistoryError, match=r"event \d of the history is missing"):
        list(read_history(lines))


def test_several_files_are_one_history_and_their_processes_are_told_apart() -> None:
    def told(process: str) -> list[Event]:
        return [Event(number, 5, process, "ok", "poll", []) for number in range(2)]

    assert [event[:3] for event in merge({"b": told("p"), "a": told("p")})] == [
        (0, 5, "a:p"),
        (1, 5, "a:p"),
        (2, 5, "b:p"),
        (3, 5, "b:p"),
    ]
    assert list(merge({"a": told("p")})) == told("p")


@pytest.mark.parametrize("line", ["[]\n", "{}\n", '{"i": 0}\n', "what\n", "\n"])
def test_a_line_that_is_no_event_is_refused_by_name(line: str) -> None:
    with pytest.raises(HistoryError, match="not an event of a history"):
        list(read_history([line]))
