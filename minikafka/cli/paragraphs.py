"""Lets the paragraphs of ``--help`` flow: typer keeps the line breaks that they have in the source."""

from __future__ import annotations

from inspect import cleandoc

import typer


def let_paragraphs_flow(app: typer.Typer) -> None:
    """Join the lines of each paragraph of every verb's help, so that the terminal's width decides where they break."""
    for command in app.registered_commands:
        assert command.callback is not None
        command.help = flowing(command.help or command.callback.__doc__ or "")
    for group in app.registered_groups:
        assert group.typer_instance is not None
        let_paragraphs_flow(group.typer_instance)


def flowing(text: str) -> str:
    """The text with an empty line between paragraphs as its only line breaks."""
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in cleandoc(text).split("\n\n"))
