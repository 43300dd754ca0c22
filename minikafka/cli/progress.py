"""A bar for replicas that move: bytes and replicas that have caught up, on a terminal's stderr."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from minikafka.cli.output import size

if TYPE_CHECKING:
    from minikafka.client.reassigning.progress import Progress


class MoveBar:
    """``with MoveBar() as bar: bar.show(progress)``. Where stderr is no terminal nothing is drawn."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("moving"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[caught_up]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("moving", total=None, caught_up="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        """Draw what is known now."""
        done, total = progress.bytes_done, progress.bytes_total
        if not total:
            done, total = progress.replicas_done, progress.replicas_total
        self._bars.update(self._task, total=max(total, 1), completed=done, caught_up=caught_up(progress))


def caught_up(progress: Progress) -> str:
    """``3 of 12 replicas, 310 MiB of 1.0 GiB caught up``."""
    replicas = f"{progress.replicas_done} of {progress.replicas_total} replicas"
    if not progress.bytes_total:
        return f"{replicas} caught up"
    return f"{replicas}, {size(progress.bytes_done)} of {size(progress.bytes_total)} caught up"
