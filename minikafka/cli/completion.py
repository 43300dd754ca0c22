"""Names for the completion of a shell: topics, groups and settings of the cluster that the command line is for.

Whoever presses Tab waits a second at most, and sees no error: without an answer there is nothing to choose from.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from minikafka.client import Admin

PATIENCE_S: Final = 1.0
_PLAIN: Final = re.compile(r"[A-Za-z0-9._@%+,/-]+")
"""Names that a shell takes as they are, as one word. Others are not offered: a group may have any name, and what is put
into somebody's line, or evaluated there (zsh), must not be a command."""


def join_broken_words(environment: MutableMapping[str, str]) -> None:
    """Bash breaks words at each ``:`` and ``=``: ``-b localhost:9092`` would be a server and two topics."""
    if "COMP_WORDS" not in environment:
        return
    words: list[str] = []
    index = 0
    for number, piece in enumerate(environment["COMP_WORDS"].split("\n")):
        if words and (_is_break(piece) or _is_break(words[-1][-1:])):
            words[-1] += piece
        else:
            words.append(piece)
        if str(number) == environment.get("COMP_CWORD"):
            index = len(words) - 1
    environment.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(index))


def _is_break(piece: str) -> bool:
    return bool(piece) and not piece.strip(":=")


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin so."""

    async def names(admin: Admin) -> list[str]:
        return [topic.name for topic in await admin.list_topics()]

    return _ask(ctx, incomplete, names)


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Groups that begin so."""

    async def names(admin: Admin) -> list[str]:
        return [group.group_id for group in await admin.list_groups()]

    return _ask(ctx, incomplete, names)


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """What ``minikafka config`` takes next: a kind, then a topic, broker or group, then its settings."""
    from minikafka.cli.config_resources import BROKER, BROKER_LOGGER, GROUP, KINDS, OF_BROKERS, TOPIC

    words: list[str] = ctx.params.get("words") or []
    if not words:
        return [kind for kind in KINDS if kind.startswith(incomplete)]
    kind = words[0].removesuffix("s")
    if len(words) == 1 and kind in (TOPIC, GROUP):
        return (topics if kind == TOPIC else groups)(ctx, incomplete)

    async def names(admin: Admin) -> list[str]:
        from minikafka.client.admin import configs

        if len(words) == 1 and kind in OF_BROKERS:
            return [str(node_id) for node_id in sorted((await admin.describe_cluster()).brokers)]
        numbers = {TOPIC: configs.TOPIC_RESOURCE, BROKER: configs.BROKER_RESOURCE, GROUP: configs.GROUP_RESOURCE}
        numbers[BROKER_LOGGER] = configs.BROKER_LOGGER_RESOURCE
        return [entry.name for entry in await admin.describe_resource(numbers[kind], words[1])]

    return _ask(ctx, incomplete, names)


def _ask(ctx: typer.Context, incomplete: str, names: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    from minikafka.cli.command_config import PARAMETER, give_command_config
    from minikafka.cli.options import target

    async def ask() -> list[str]:
        from minikafka.client import Admin

        async with asyncio.timeout(PATIENCE_S), Admin(cluster.servers, security=cluster.security) as admin:
            return await names(admin)

    try:
        with redirect_stderr(StringIO()):
            directory = ctx.params.get("directory")
            here = None if directory is None else Path(directory).expanduser()  # the shell has not done it yet
            give_command_config(ctx.params.get(PARAMETER))
            cluster = target(ctx.params.get("bootstrap"), here)
            return [name for name in asyncio.run(ask()) if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    except (Exception, SystemExit):  # whatever it is: a Tab is no place for it
        return []
