"""Runs a verb that talks to a cluster, and ends it as a well-behaved program of a pipeline ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

INTERRUPTED: Final = 130  # the shell's exit codes for SIGINT and SIGPIPE
BROKEN_PIPE: Final = 141


def open_closed_streams() -> None:
    """Let standard streams that the program was started without (``>&-``) lead nowhere; before it opens anything."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the program runs


def run(verb: Coroutine[Any, Any, None]) -> None:
    """Run to the end; Ctrl-C and a reader that went away end it quietly."""
    import asyncio

    with quiet_when_the_reader_leaves():
        asyncio.run(verb)


@contextmanager
def quiet_when_the_reader_leaves() -> Iterator[None]:
    """Ctrl-C and a broken pipe end the program with the shell's exit code for it, and no words."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Nothing more is to be said, not even by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
