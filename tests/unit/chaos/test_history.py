from __future__ import annotations

import io
from pathlib import Path

from minikafka.chaos.history import History


def test_events_are_numbered_and_timed_from_the_start() -> None:
    now = iter([100.0, 100.5, 102.0])
    history = History(clock=lambda: next(now))
    history.append("producer", "invoke", "send", [["t-0", "a"]])
    history.append("producer", "ok", "send", [["t-0", "a", 0]])
    assert [(event.number, event.time_ms) for event in history.events] == [(0, 500), (1, 2000)]


def test_a_history_is_written_as_json_lines() -> None:
    file = io.StringIO()
    history = History(file, clock=lambda: 1.0)
    history.append("producer", "invoke", "send", [["t-0", "naïve"]])
    history.append("nemesis", "info", "fault", "SIGKILL node 1")
    lines = file.getvalue().splitlines(keepends=True)
    assert lines[1] == '{"i":1,"t":0,"p":"nemesis","type":"info","f":"fault","v":"SIGKILL node 1"}\n'
    assert lines == [event.to_json() + "\n" for event in history.events]


def test_what_is_about_to_be_done_is_in_the_file_when_its_process_is_killed(tmp_path: Path) -> None:
    """Records of an application that was killed counted as phantoms: its sends were in a buffer."""
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        history = History(file, keep=False)
        history.append("producer", "ok", "send", [["t-0", "a", 0]])
        sent = history.append("producer", "invoke", "send", [["t-0", "b"]])
        assert path.read_text().splitlines()[-1:] == [sent.to_json()]
