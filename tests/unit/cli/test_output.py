from __future__ import annotations

import json

import pytest

from minikafka.cli.output import escaped, fail, moment, print_json, print_line, print_note, print_table, size, teller
from minikafka.cli.transaction import PRODUCERS


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


def test_a_name_gives_no_orders_to_a_terminal_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A client may choose that of a group."""
    print_line("\x1b[2J\x9b2J")
    print_table(("group",), [(escaped(name),) for name in ("\x1b[2J", "[red]", "[/x]")])
    assert capsys.readouterr().out.split() == [r"\x1b[2J\x9b2J", "group", "─" * 7, r"\x1b[2J", "[red]", "[/x]"]


def test_nor_does_one_in_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The members for which offsets are not reset are named by their client ids."""
    print_note("waiting for \x1b[2J")
    with pytest.raises(SystemExit):
        fail("group 'g' has members: \x1b[2J\x9b")
    assert capsys.readouterr().err == "waiting for \\x1b[2J\nminikafka: group 'g' has members: \\x1b[2J\\x9b\n"


def test_a_table_has_its_columns_and_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count#"), [("a", "1"), ("b", "[red]23[/]")])
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["name", "count"]
    assert lines[-1].split() == ["b", "23"]


PARTITIONS = ("partition#", "replicas", "isr", "offsets", "")
LACKS_ONE = ("0", "3,2,1,4,5", "3,2", "0..62643 of 62700", "[yellow]lacks 1, 4, 5[/]")


def shown_at(columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(PARTITIONS, [LACKS_ONE])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    return [" ".join(line.split()) for line in lines if "─" not in line]


def test_a_table_takes_the_width_that_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    head, row = shown_at(60, capsys, monkeypatch)
    assert head == "partition replicas isr offsets"
    assert row == "0 3,2,1,4,5 3,2 0..62643 of 62700 lacks 1, 4, 5"


def test_a_narrow_terminal_breaks_cells_between_words_and_no_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a header, 'part' above 'itio' above 'n', tells nobody anything."""
    head, row, rest = shown_at(53, capsys, monkeypatch)
    assert head == "partition replicas isr offsets"
    assert row == "0 3,2,1,4,5 3,2 0..62643 of lacks 1, 4,"
    assert rest == "62700 5"


def test_a_row_for_which_a_terminal_is_too_narrow_is_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown_at(36, capsys, monkeypatch) == [
        "partition 0 replicas 3,2,1,4,5",
        "isr 3,2 offsets 0..62643 of 62700",
        "lacks 1, 4, 5",
    ]


def test_a_number_and_its_unit_stay_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("some words", "size#"), [("of a name", "23 MiB")])
    assert capsys.readouterr().out.splitlines()[2].rstrip() == "of a name   23 MiB"
    monkeypatch.setenv("COLUMNS", "14")
    print_table(("some words", "size#"), [("of a name", "23 MiB")])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()[-2:]] == ["of a    23 MiB", "name"]


def test_a_column_without_a_name_and_cells_takes_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "", "b"), [("1", "", "2")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[::2]] == [["a", "b"], ["1", "2"]]


def test_a_row_that_another_program_reads_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(("name", "count#"), [("topic-" * 30, "1"), ("two words " * 12, "2")])
    shown = capsys.readouterr().out
    assert "topic-" * 30 in shown
    assert ("two words " * 12).strip() in shown


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_a_moment_is_not_broken(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the terminal is."""
    monkeypatch.setenv("COLUMNS", width)
    when = moment(1_770_000_000_123)
    print_table(PRODUCERS, [("123456", "3", "17", "4321", when, "987654321")])
    assert when in capsys.readouterr().out


def test_what_is_told_is_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    """In a log of CI, 80 columns wide, the path of a report and the command that runs it again were broken in two."""
    path = "/" + "/".join(["directory"] * 20) + "/report.html"
    teller(on_stderr=False).print(f"report: {path}", markup=False)
    assert capsys.readouterr().out == f"report: {path}\n"
