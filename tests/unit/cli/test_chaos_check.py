"""`minikafka chaos check` on files that a history wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command_line import COMMAND
from ledger_planted import HARMLESS, PLANTED, Planted, Story


def check(*words: str | Path) -> Result:
    return CliRunner().invoke(COMMAND, ["chaos", "check", *map(str, words)], env={"COLUMNS": "150"})


def write(path: Path, story: Story) -> Path:
    path.write_text("".join(f"{event.to_json()}\n" for event in story.events))
    return path


def planted(name: str) -> Story:
    story = Story()
    story.send("a", "b", "c")
    chosen: Planted = next(each for each in (*PLANTED, *HARMLESS) if each.name == name)
    chosen.plant(story)
    return story


def test_an_honest_history_is_ok(tmp_path: Path) -> None:
    result = check(write(tmp_path / "h.jsonl", planted("acknowledged_without_a_place")))
    lines = result.output.splitlines()
    assert result.exit_code == 0, result.output
    assert lines[0] == "6 events"
    assert ["lost-write", "0", "acknowledged,"] in [line.split()[:3] for line in lines]
    assert lines[-1] == "3 acknowledged records: none lost, duplicated or reordered"
    assert "not judged: nonmonotonic-end-offset: the history has no event end_offset" in lines


def test_an_anomaly_is_counted_with_its_example(tmp_path: Path) -> None:
    history = write(tmp_path / "h.jsonl", planted("passed_over_by_the_reader"))
    result = check(history)
    assert result.exit_code == 1
    assert "lost-write (1):\n  t-0: b was acknowledged at 1, and reader, which read up to 2" in result.output
    assert result.output.splitlines()[-1].startswith("the cluster broke its word: lost-write 1")
    told = json.loads(check(history, "--json").output)
    assert (told["ok"], told["outcome"], told["records"]["violations"]["lost-write"]) == (False, "broken", 1)
    assert told["records"]["examples"]["lost-write"][0].startswith("t-0: b was acknowledged at 1")


@pytest.mark.parametrize("name", ["everything_was_polled_but_nothing_to_the_end", "nothing_was_acknowledged"])
def test_what_proves_nothing_is_not_ok(tmp_path: Path, name: str) -> None:
    result = check(write(tmp_path / "h.jsonl", planted(name)))
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith(("not judged: no reader", "this proves nothing"))


def test_several_files_are_one_history(tmp_path: Path) -> None:
    producer, reader = Story(), Story()
    producer.send("a", "b")
    producer.acknowledge(a=0, b=1)
    reader.read_to_the_end(("a", 0))
    files = write(tmp_path / "p.jsonl", producer), write(tmp_path / "r.jsonl", reader)
    result = check(*files)
    assert result.exit_code == 1
    assert f"t-0: b was acknowledged at 1, and {files[1]}:reader read to the end" in result.output


def test_an_unfinished_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    history = write(tmp_path / "h.jsonl", planted("acknowledged_without_a_place"))
    with history.open("a") as file:
        file.write('{"i":6,"t":')
    result = check(history)
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == f"{history}: the last line is not finished, and was left out"
    assert json.loads(check(history, "--json").output)["unfinished"] == [str(history)]


def test_a_damaged_history_is_refused_in_a_line(tmp_path: Path) -> None:
    history = write(tmp_path / "h.jsonl", planted("acknowledged_without_a_place"))
    lines = history.read_text().splitlines(keepends=True)
    history.write_text("".join([lines[0], "nonsense\n", *lines[2:]]))
    result = check(history)
    assert result.exit_code == 1
    assert result.output == f"minikafka: {history}, line 2: no event of a history: 'nonsense'\n"
    history.write_text("".join([lines[0], *lines[2:]]))
    assert f"{history}, line 2: it holds event 2 where event 1 belongs" in check(history).output
    story = Story()
    story.send("a")
    story.send("a")
    assert "line 2: a was sent before" in check(write(history, story)).output
