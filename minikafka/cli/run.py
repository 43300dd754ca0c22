"""Runs a verb that talks to a cluster, and ends it as a well-behaved program of a pipeline ends."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from minikafka.cli.options import Target
    from minikafka.cli.waiting import Concern
    from minikafka.client import Admin

INTERRUPTED: Final = 130  # the shell's exit codes for SIGINT and SIGPIPE
BROKEN_PIPE: Final = 141


def open_closed_streams() -> None:
    """Let standard streams that the program was started without (``>&-``) lead nowhere; before it opens anything."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the program runs


def let_other_signals_interrupt() -> None:
    """Let SIGTERM (``timeout``, ``docker stop``) and SIGHUP (a terminal that is closed, but not after ``nohup``) end a
    verb as Ctrl-C does: a consumer leaves its group, and temporary files are removed.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        by_ctrl_c = signal.getsignal(signal.SIGINT)  # asyncio has a handler of its own; a shell's job `&` has none
        (by_ctrl_c if callable(by_ctrl_c) else signal.default_int_handler)(number, frame)

    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, interrupt)


def run(verb: Coroutine[Any, Any, None], concern: Concern) -> None:
    """Run to the end; Ctrl-C and a reader that went away end it quietly. What takes long is explained on stderr."""
    import asyncio

    from minikafka.cli.waiting import explained

    with quiet_when_the_reader_leaves():
        asyncio.run(explained(verb, concern))


def run_with_admin(
    work: Callable[[Admin], Awaitable[None]], target: Target, timeout_s: float, topic: str | None = None
) -> None:
    """Run `work` with an admin client; its calls may take `timeout_s` each."""
    from minikafka.cli.waiting import Concern

    async def verb() -> None:
        from minikafka.client import Admin

        timeout_ms = max(1, round(timeout_s * 1000))
        async with Admin(target.servers, security=target.security, request_timeout_ms=timeout_ms) as admin:
            await work(admin)

    run(verb(), Concern(target, topic))


def raise_when_the_reader_has_left() -> None:
    """BrokenPipeError as soon as nobody reads standard output, though there is nothing to write (``| head``)."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise BrokenPipeError


@contextmanager
def quiet_when_the_reader_leaves() -> Iterator[None]:
    """Ctrl-C and a broken pipe end the program with the shell's exit code for it, and no words."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        let_output_lead_nowhere()
        raise typer.Exit(BROKEN_PIPE) from None


def let_output_lead_nowhere() -> None:
    """Nothing more is to be said, not even by the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
