"""``minikafka chaos lab``: the list, and how a lab is shown."""

from __future__ import annotations

import json
from io import StringIO

from click.testing import CliRunner
from command_line import COMMAND
from rich.console import Console

from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Expectation, Outcome, Stage, Step
from minikafka.cli.chaos_lab import Printer, as_dict, conclude, introduce


class Lost(Lab):
    name = "lost"
    summary = "a record is lost"
    watch = ("Watch the record of a topic with [brackets].",)
    matters = "acks of the producer"
    advice = ("acks=all.",)

    def run(self, stage: Stage) -> None:
        raise AssertionError("it is not run here")


def shown(outcome: Outcome, *, width: int = 60) -> str:
    out = StringIO()
    console = Console(file=out, width=width, highlight=False)
    introduce(console, Lost())
    printer = Printer(console)
    for step in outcome.steps:
        printer.step(step.seconds, step.text)
    conclude(console, Lost(), outcome)
    return out.getvalue()


def outcome(*, seen: bool) -> Outcome:
    steps = [
        Step(0.0, "3 brokers are ready"),
        Step(12.34, "node 1 leads, ISR [1, 2]: " + "a long sentence " * 4 + "ends"),
    ]
    expected = [Expectation("a loss", True), Expectation("a leader, ISR [1]", seen)]
    return Outcome("lost", steps, {"lost": 1}, expected, ["The leader died."], 13.0)


def test_the_list_has_each_lab_and_what_one_sees() -> None:
    result = CliRunner().invoke(COMMAND, ["chaos", "lab"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["lab", "what", "one", "sees"]
    assert lines[2].split()[:2] == ["acks-one", "acks=1"]
    assert lines[-1] == "Run one: minikafka chaos lab NAME"


def test_the_list_as_json() -> None:
    labs = json.loads(CliRunner().invoke(COMMAND, ["chaos", "lab", "--json"]).stdout)
    assert len(labs) == 10
    assert {*labs[0]} == {"lab", "what", "settings"}


def test_a_lab_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(COMMAND, ["chaos", "lab", "acks-two"], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "'acks-two' is none of acks-one, min-isr, " in result.stderr


def test_a_lab_is_shown_from_what_to_watch_to_what_to_set() -> None:
    assert shown(outcome(seen=True)) == (
        "lost: a record is lost\n"
        "\n"
        "What to watch\n"
        "  Watch the record of a topic with [brackets].\n"
        "  Settings that matter: acks of the producer.\n"
        "\n"
        "  0.0 s  3 brokers are ready\n"
        " 12.3 s  node 1 leads, ISR [1, 2]: a long sentence a long\n"
        "         sentence a long sentence a long sentence ends\n"
        "\n"
        "What happened\n"
        "  The leader died.\n"
        "\n"
        "In production\n"
        "  acks=all.\n"
        "\n"
        "seen as expected: 2 of 2 (13 s)\n"
    )


def test_what_was_not_seen_has_a_line_and_no_reason() -> None:
    text = shown(outcome(seen=False))
    assert text.endswith("\nseen as expected: 1 of 2 (13 s)\nnot seen: a leader, ISR [1]\n")
    assert "What happened" not in text
    assert "In production" not in text


def test_the_outcome_as_json() -> None:
    value = as_dict(outcome(seen=False), Lost())
    assert json.loads(json.dumps(value)) == value
    assert (value["lab"], value["ok"], value["measured"]) == ("lost", False, {"lost": 1})
    assert value["expected"][1] == {"what": "a leader, ISR [1]", "seen": False}
    assert value["advice"] == "acks=all."
