from __future__ import annotations

import json

import pytest

from minikafka.cli.output import fail, print_json, print_line, print_table, size


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (23 << 20, "23 MiB"), (5000 << 30, "5000 GiB")],
)
def test_sizes_are_readable(count: int, text: str) -> None:
    assert size(count) == text


def test_an_error_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        fail("the port is taken")
    assert capsys.readouterr().err == "minikafka: the port is taken\n"


def test_what_is_printed_as_json_can_be_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}


def test_what_is_no_character_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan may name a topic so, and its line is printed."""
    print_line("\ud800 \u00fc")
    assert capsys.readouterr().out == "\\ud800 \u00fc\n"


def test_a_table_has_its_columns_and_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count#"), [("a", "1"), ("b", "[red]23[/]")])
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["name", "count"]
    assert "23" in lines[-1] or "23" in lines[-2]


@pytest.mark.parametrize("columns", ["20", "47", "53", "80"])
def test_a_narrow_terminal_breaks_cells_between_words_and_no_word(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a header, 'part' above 'itio' above 'n', tells nobody anything: rather a line is too long."""
    monkeypatch.setenv("COLUMNS", columns)
    row = ("0", "3, 2, 1, 4, 5", "3, 2", "0..62643", "[yellow]under-replicated[/]")
    print_table(("partition#", "replicas", "isr", "offsets", ""), [row])
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert ["partition", "replicas", "isr", "offsets"] in lines
    assert {"0", "3,", "2,", "1,", "4,", "5", "2", "0..62643", "under-replicated"} <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= max(int(columns), 58)  # 58: with every column as narrow as its words


def test_a_row_that_another_program_reads_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(("name", "count#"), [("topic-" * 30, "1"), ("two words " * 12, "2")])
    shown = capsys.readouterr().out
    assert "topic-" * 30 in shown
    assert ("two words " * 12).strip() in shown
