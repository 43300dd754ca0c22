"""Makes ``--help`` fit the terminal and the verbs fit their users: see :mod:`minikafka.cli.elsewhere` for the latter.

Typer keeps the line breaks that paragraphs have in the source, cuts long names of options off, writes ``<bool>`` behind
those that take no value, and puts brackets of its own around the names of arguments.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import cleandoc
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from minikafka.cli.elsewhere import ELSEWHERE, NOT_HERE, command_line, spelled_as_ours, why_not_here, with_action

NARROW_COLUMNS: Final = 76
NARROW_NAME_COLUMNS: Final = 24


class FittingCommand(TyperCommand):
    """A verb whose options fit; a topic or group may also be given as ``--topic NAME``, as to Kafka's own tools."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The names of arguments as they are written in the source: ``N...``, ``[FILE]``."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [self.options_metavar or "", *(param.metavar or str(param.name).upper() for param in arguments)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        params = self.get_params(ctx)
        ours = {name for param in params for name in (*param.opts, *param.secondary_opts)}
        args = [spelled_as_ours(arg, ours) for arg in args]
        for arg in args:
            if (why := why_not_here(arg, ours)) is not None:
                ctx.fail(f"No such option: {arg.partition('=')[0]}. {why}")
        named = [param.metavar or "" for param in params if param.param_type_name == "argument"]
        for option, name in (("--topic", "TOPIC"), ("--group", "GROUP"), ("--files", "SEGMENT")):
            is_argument = any(name in metavar for metavar in named)
            if is_argument and not any(option in param.opts for param in params):
                args = [arg.removeprefix(f"{option}=") for arg in args if arg != option]
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _without_words_of_the_validator(error)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with _fitted(self, ctx, formatter):
            super().format_help(ctx, formatter)


class FittingGroup(TyperGroup):
    """A group of verbs whose options fit; who calls a verb by another name is told its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("--") and args[0][2:] in self.commands:  # as to Kafka's own tools
            instead = command_line(ctx.command_path, *with_action(self, [args[0][2:]], args[1:]))
            ctx.fail(f"No such option: {args[0]}. Try: {instead}")
        if args and args[0].startswith("-") and not _takes(self, args[0]) and any(_verbs_that_take(self, args[0])):
            ctx.fail(f"No such option: {args[0]}. It belongs behind the verb: {ctx.command_path} ... {args[0]} ...")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        called = args[0].removeprefix("kafka-").removesuffix(".sh")
        name = ELSEWHERE.get(called, called)
        if args[0] not in self.commands and called in NOT_HERE:
            ctx.fail(f"No such command {args[0]!r}: {NOT_HERE[called]}")
        here = ctx if _called(self, name) else ctx.find_root()  # `chaos kill` is `cluster kill`
        if args[0] not in self.commands and (found := _called(here.command, name)):
            rest = args[1:] if len(found) == 1 else []
            lines = [
                command_line(here.command_path, *with_action(here.command, words.split(), rest)) for words in found
            ]
            ctx.fail(f"No such command {args[0]!r}. Try: {' or '.join(lines)}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with _fitted(self, ctx, formatter):
            super().format_help(ctx, formatter)


@contextmanager
def _fitted(command: Any, ctx: Any, formatter: Any) -> Iterator[None]:
    """Where frames and four columns leave no room for words: without them, and without bold letters."""
    from rich.text import Text

    _fit_options(command.get_params(ctx))
    formatter.width = columns = shutil.get_terminal_size().columns
    if columns >= NARROW_COLUMNS:
        yield
        return
    formatter.write_dl = partial(formatter.write_dl, col_max=NARROW_NAME_COLUMNS)
    with ExitStack() as undoing:
        for each in (command, *getattr(command, "commands", {}).values()):
            words = Text.from_markup(each.help or "").plain
            for name, value in (("rich_markup_mode", None), ("help", words), ("short_help", words.split("\n\n")[0])):
                undoing.callback(setattr, each, name, getattr(each, name))
                setattr(each, name, value)
        yield


def _without_words_of_the_validator(error: typer.BadParameter) -> str:
    """``'x' should be a valid integer``: pydantic, which Typer may ask, says ``Input should be``, and more."""
    message = error.message.removeprefix("Value error, ")
    for found in getattr(error.__cause__, "errors", list)():
        message = message.replace("Input should be", f"{found['input']!r} should be").partition(", unable to parse")[0]
    return message


def _takes(command: Any, option: str) -> bool:
    return any(option.partition("=")[0] in (*param.opts, *param.secondary_opts) for param in command.params)


def _verbs_that_take(group: TyperGroup, option: str) -> Iterator[bool]:
    for command in group.commands.values():
        yield any(_verbs_that_take(command, option)) if isinstance(command, TyperGroup) else _takes(command, option)


def _called(group: TyperGroup, name: str) -> list[str]:
    """The words for a verb of this name (or two: a group's and its verb's): in the group itself, or in those in it."""
    if name.partition(" ")[0] in group.commands or name.startswith("--"):
        return [name]
    groups = [(outer, inner) for outer, inner in group.commands.items() if isinstance(inner, TyperGroup)]
    return [f"{outer} {name}" for outer, inner in groups if name in inner.commands]


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
        if option.param_type_name == "argument" and option.metavar:
            option.display_type_rich = lambda ctx: None  # the name says it; a Python type says nothing to a user


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
