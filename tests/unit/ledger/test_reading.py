"""Files of a history become events; a damaged or missing line is refused by file and number."""

from __future__ import annotations

import pytest

from minikafka.ledger.events import Event, HistoryError
from minikafka.ledger.reading import HistoryReader

EVENTS = [Event(number, number * 2, "p", "ok", "poll", [["t-0", f"a{number}", number]]) for number in range(4)]
LINES = [f"{event.to_json()}\n".encode() for event in EVENTS]


def test_lines_are_the_events_that_were_written() -> None:
    assert list(HistoryReader([("h", LINES)])) == EVENTS


def test_the_events_of_several_files_have_numbers_and_processes_of_their_own() -> None:
    reader = HistoryReader([("a", LINES), ("b", LINES[:2])])
    events = list(reader)
    assert [event.number for event in events] == [*range(6)]
    assert {event.process for event in events} == {"a:p", "b:p"}
    assert [reader.place(number) for number in (0, 3, 4)] == ["a, line 1", "a, line 4", "b, line 1"]


def test_a_process_may_have_the_name_of_a_function() -> None:
    lines = [f"{EVENTS[0]._replace(process='poll').to_json()}\n".encode()]
    events = list(HistoryReader([("a", lines), ("b", lines)]))
    assert [(event.process, event.function) for event in events] == [("a:poll", "poll"), ("b:poll", "poll")]


def test_a_last_line_without_its_end_is_left_out_and_told() -> None:
    reader = HistoryReader([("h", [*LINES[:2], LINES[2][:-1]])])
    assert list(reader) == EVENTS[:2]
    assert reader.unfinished == ["h"]


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        ([LINES[0], LINES[2]], 2, "it holds event 2 where event 1 belongs"),
        ([LINES[0], LINES[0]], 2, "it holds event 0 where event 1 belongs"),
        ([LINES[0], b"\n"], 2, "no event of a history: ''"),
        ([LINES[0], b'{"i":1\n', LINES[2]], 2, "no event of a history: '{\"i\":1'"),
        ([LINES[0].replace(b"\n", b"{}\n")], 1, "no event of a history"),
        ([b"[]\n"], 1, "no event of a history: '[]'"),
        ([b"\xff\n"], 1, "no event of a history"),
        ([LINES[0].replace(b'"p":"p"', b'"p":"\xff"')], 1, "no event of a history"),
        ([b"[" * 100_000 + b"\n"], 1, "no event of a history"),
        ([LINES[0].replace(b'"i":0', b'"i":true')], 1, "no event of a history"),
        ([LINES[0].replace(b'"ok"', b'"maybe"')], 1, "no event of a history"),
        ([LINES[0].replace(b'"ok"', b'["ok"]')], 1, "no event of a history"),
        ([LINES[0].replace(b'"p":"p"', b'"p":7')], 1, "no event of a history"),
        ([LINES[0].replace(b'"v":', b'"w":')], 1, "}': Object missing required field `v`"),
        ([LINES[0].replace(b'"t":0', b'"t":0.5')], 1, "}': Expected `int`, got `float` - at `$.t`"),
    ],
)
def test_a_damaged_file_is_refused_by_its_line(lines: list[bytes], line: int, words: str) -> None:
    reader = HistoryReader([("first", LINES), ("h", lines)])
    with pytest.raises(HistoryError) as refused:
        list(reader)
    assert words in refused.value.words
    assert reader.place(refused.value.number) == f"h, line {line}"
