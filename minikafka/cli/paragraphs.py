"""Makes ``--help`` fit the terminal: paragraphs flow, and words too long for a column go to the next line.

Typer keeps the line breaks that paragraphs have in the source, cuts long names of options off, and writes ``<bool>``
behind those that take no value.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class FittingCommand(TyperCommand):
    """A verb whose options fit; a topic may also be given as ``--topic NAME``, as to Kafka's own tools."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        params = self.get_params(ctx)
        takes_topic = any(param.param_type_name == "argument" and "TOPIC" in (param.metavar or "") for param in params)
        if takes_topic and not any("--topic" in param.opts for param in params):
            args = [arg.removeprefix("--topic=") for arg in args if arg != "--topic"]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _fit_options(self.get_params(ctx))
        super().format_help(ctx, formatter)


class FittingGroup(TyperGroup):
    """A group of verbs whose options fit."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _fit_options(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _fit_options(options: list[Any]) -> None:
    from rich.table import Table
    from rich.text import Text
    from typer import rich_utils

    class Folding(Table):
        def add_row(self, *cells: Any, **style: Any) -> None:
            super().add_row(*cells, **style)
            for cell in cells:
                for text in getattr(cell, "renderables", [cell]):
                    if isinstance(text, Text):
                        text.overflow = "fold"

    rich_utils.Table = Folding  # type: ignore[attr-defined]
    for option in options:
        if getattr(option, "is_bool_flag", False):
            option.metavar = ""


def let_paragraphs_flow(app: typer.Typer) -> None:
    """Join the lines of each paragraph of every verb's help, so that the terminal's width decides where they break."""
    for command in app.registered_commands:
        assert command.callback is not None
        command.help = flowing(command.help or command.callback.__doc__ or "")
        command.cls = FittingCommand
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.cls = FittingGroup
        let_paragraphs_flow(group.typer_instance)


def flowing(text: str) -> str:
    """The text with an empty line between paragraphs as its only line breaks."""
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in cleandoc(text).split("\n\n"))
