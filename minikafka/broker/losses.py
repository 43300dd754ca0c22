"""Losses of acknowledged records, as far as this node can tell: logged, and kept in a file.

Each loss is an event ``records lost`` in the log, and a line of the file ``losses`` in the first log directory. The
file stays until an operator removes it; ``minikafka cluster status`` counts its lines. Damage that replication mends is
not a loss.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from minikafka.broker.clock import Clock
from minikafka.broker.logs import one_line
from minikafka.event_log import get_logger
from minikafka.model import TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.storage.disk import Disk
from minikafka.storage.log_store import LogStore

log = get_logger()

LOSSES_FILE: Final = "losses"
SIZE_MAX: Final = 256 * 1024  # bytes; later losses are in the node's log only


@dataclass(eq=False)
class Losses:
    """See the module."""

    _disk: Disk
    _store: LogStore
    _clock: Clock
    _tasks: TaskOwner
    _run_in_thread: Callable[[Callable[[], None]], Awaitable[Any]]

    def note(self, tp: TopicPartition, what: str) -> None:
        """Records of the partition that were acknowledged may be gone on every replica."""
        log.error("records lost", partition=str(tp), what=what)
        if self._store.online:
            path = f"{self._store.online[0].path}/{LOSSES_FILE}"
            line = f"{self._clock.wall_ms()} {tp} {what}\n".encode()
            self._tasks.start(self._write(path, line), "note a loss")

    async def _write(self, path: str, line: bytes) -> None:
        try:
            await self._run_in_thread(lambda: self._append(path, line))
        except OSError as error:
            log.warning("a loss was not written down", path=path, why=one_line(error))

    def _append(self, path: str, line: bytes) -> None:
        file = self._disk.open_append(path)
        try:
            if file.size() < SIZE_MAX:
                file.append([line])
        finally:
            file.close()
