"""Bars on a terminal's stderr. Where stderr is no terminal nothing is drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from minikafka.cli.output import size

if TYPE_CHECKING:
    from minikafka.client.reassigning.progress import Progress


@contextmanager
def bar(what: str) -> Iterator[Callable[..., None]]:
    """What updates a bar: it takes ``total`` and ``completed``, and ``told``, the words behind the bar."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield partial(bars.update, bars.add_task(what, total=None, told=""))


@contextmanager
def bytes_bar(total: int | None) -> Iterator[Callable[[int], None]]:
    """What moves a bar on by so many bytes of ``total``; None, as of a pipe, or 0: no bar."""
    if not total or not sys.stderr.isatty():
        yield lambda size_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)
        yield lambda size_bytes: bars.advance(task, size_bytes)


@contextmanager
def move_bar() -> Iterator[Callable[[Progress], None]]:
    """``with move_bar() as show:`` for replicas that move: bytes and replicas that have caught up."""
    with bar("moving") as update:

        def show(progress: Progress) -> None:
            done, total = progress.bytes_done, progress.bytes_total
            if not total:
                done, total = progress.replicas_done, progress.replicas_total
            total = max(total, 1)
            update(total=total, completed=done, told=f"{done / total:>4.0%} {caught_up(progress)}")

        yield show


def caught_up(progress: Progress) -> str:
    """``3 of 12 replicas, 310 MiB of 1.0 GiB caught up``."""
    replicas = f"{progress.replicas_done} of {progress.replicas_total} replicas"
    if not progress.bytes_total:
        return f"{replicas} caught up"
    return f"{replicas}, {size(progress.bytes_done)} of {size(progress.bytes_total)} caught up"
