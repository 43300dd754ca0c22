"""``minikafka chaos lab``: experiments that show what a setting is good for, on real clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.extras import need
from minikafka.cli.options import AsJson
from minikafka.cli.output import print_json, print_line, print_note, print_table
from minikafka.cli.run import quiet_when_the_reader_leaves

if TYPE_CHECKING:
    from rich.console import Console

    from minikafka.chaos.lab.lab import Lab
    from minikafka.chaos.lab.stage import Outcome


WIDTH: Final = 110


def names() -> list[str]:
    """The names of labs, for completion."""
    from minikafka.chaos.lab.gallery import LABS

    return list(LABS)


def lab(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The lab to run.", show_default="list them", autocompletion=names),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the brokers' files afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a setting is good for: ten experiments, each on a real cluster of its own that it breaks.

    Without a name: list them. A lab takes 10 to 30 seconds. It says what to watch, then each step with what was
    measured, then the reason, and what to set in production. It exits with 0 only if it saw what it is there to show.

    Examples:

    [bold]minikafka chaos lab[/]

    [bold]minikafka chaos lab acks-one[/]
    """
    from minikafka.chaos.lab.gallery import LABS

    if name is None:
        _list(as_json=as_json)
        return
    if name not in LABS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(LABS)}", param_hint="NAME")
    need("confluent-kafka", of="chaos lab", extra="chaos")
    with quiet_when_the_reader_leaves():
        outcome = _run(LABS[name](), keep=keep, as_json=as_json)
    raise typer.Exit(0 if outcome.ok else 1)


def _list(*, as_json: bool) -> None:
    from minikafka.chaos.lab.gallery import LABS

    if as_json:
        print_json([{"lab": lab.name, "what": lab.summary, "settings": lab.matters} for lab in LABS.values()])
        return
    print_table(("lab", "what one sees"), [(f"[bold]{lab.name}[/]", lab.summary) for lab in LABS.values()])
    print_line("\nRun one: minikafka chaos lab NAME")


def _run(lab: Lab, *, keep: bool, as_json: bool) -> Outcome:
    import shutil
    import tempfile
    from pathlib import Path

    from rich.console import Console

    from minikafka.chaos.lab.lab import perform

    console = Console(stderr=as_json, highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    directory = Path(tempfile.mkdtemp(prefix="minikafka-lab-"))
    outcome: Outcome | None = None
    try:
        introduce(console, lab)
        outcome = perform(lab, directory / "cluster", Printer(console))
        conclude(console, lab, outcome)
    finally:
        if keep or (outcome is not None and not outcome.ok):
            print_note(f"the brokers' logs and data are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        print_json(as_dict(outcome, lab))
    return outcome


class Printer:
    """The narrator of a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def step(self, seconds: float, text: str) -> None:
        """A line, and more below its text where it is long."""
        _print_beside(self._console, f"{seconds:5.1f} s", text)


def introduce(console: Console, lab: Lab) -> None:
    """Before it runs: what to watch, and the settings that matter."""
    console.print(f"[bold]{lab.name}[/]: {lab.summary}\n\n[bold]What to watch[/]", soft_wrap=True)
    for text in (*lab.watch, f"Settings that matter: {lab.matters}."):
        _print_beside(console, "", text)
    console.print()


def conclude(console: Console, lab: Lab, outcome: Outcome) -> None:
    """After it ran: the reason and the advice, or what was not seen. Only what was seen has a reason."""
    if outcome.ok:
        for heading, texts in (("What happened", outcome.happened), ("In production", lab.advice)):
            console.print(f"\n[bold]{heading}[/]")
            for text in texts:
                _print_beside(console, "", text)
    seen, count = len(outcome.expected) - len(outcome.unseen), len(outcome.expected)
    colour = "green" if outcome.ok else "red"
    console.print(f"\n[bold {colour}]seen as expected: {seen} of {count}[/] ({outcome.seconds:.0f} s)")
    for what in outcome.unseen:
        console.print(f"not seen: {what}", style="bold red", markup=False)


def _print_beside(console: Console, left: str, text: str) -> None:
    """A paragraph whose lines begin below each other, on the right of ``left``."""
    from textwrap import wrap

    indent = len(left) + 2
    first, *others = wrap(text, max(20, console.width - indent), break_on_hyphens=False) or [""]
    console.print(f"[dim]{left}[/]  ", end="")
    console.print(first, markup=False, soft_wrap=True)
    for line in others:
        console.print(" " * indent + line, markup=False, soft_wrap=True)


def as_dict(outcome: Outcome, lab: Lab) -> dict[str, Any]:
    """The outcome as a script wants it."""
    return {
        "lab": outcome.lab,
        "ok": outcome.ok,
        "expected": [{"what": each.what, "seen": each.seen} for each in outcome.expected],
        "measured": outcome.measured,
        "steps": [{"seconds": step.seconds, "text": step.text} for step in outcome.steps],
        "happened": outcome.happened,
        "advice": " ".join(lab.advice),
        "seconds": outcome.seconds,
    }
