"""The paragraphs of ``--help`` are as wide as the terminal, not as the source."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from minikafka.cli.paragraphs import flowing, let_paragraphs_flow


def test_lines_of_a_paragraph_are_joined_and_paragraphs_kept_apart() -> None:
    assert (
        flowing("First.\n\n    Two\n    lines.\n\n    [bold]seq 1000[/]\n    ")
        == "First.\n\nTwo lines.\n\n[bold]seq 1000[/]"
    )


def test_verbs_of_groups_flow_too() -> None:
    app, group = typer.Typer(rich_markup_mode="rich"), typer.Typer()

    @group.callback()
    def nothing() -> None:
        pass

    @group.command()
    def verb() -> None:
        """Do it.

        This paragraph begins here
        and ends there.
        """

    app.add_typer(group, name="group")
    let_paragraphs_flow(app)
    shown = CliRunner().invoke(app, ["group", "verb", "--help"], env={"COLUMNS": "80"}).output
    assert "begins here and ends there." in shown
