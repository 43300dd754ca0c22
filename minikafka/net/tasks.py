"""Every task has an owner that sees its exception.

A :class:`TaskOwner` starts tasks, keeps references to them, reports failed ones, and cancels and awaits the rest when
it closes. No other code calls ``asyncio.create_task``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskOwner:
    """Owns background tasks. ``on_failure`` gets each unawaited exception."""

    def __init__(self, name: str, on_failure: Callable[[str, BaseException], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # an ordered set
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """True once it accepts no more tasks."""
        return self._closed

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``coroutine``. After close it raises RuntimeError, and the coroutine is closed without running."""
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self._name} is closed and cannot start {name}")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}:{name}")
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    async def close(self) -> None:
        """Cancel the running tasks and wait for their end."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)
