"""Every task has an owner that sees its exception.

A :class:`TaskOwner` starts tasks, keeps them referenced, reports one that fails, and cancels and awaits what is left
when it closes. Bare ``asyncio.create_task`` is not used anywhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskOwner:
    """Owns background tasks. ``on_failure`` hears of each exception that no one awaits."""

    def __init__(self, name: str, on_failure: Callable[[str, BaseException], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # an ordered set
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """True once it takes no more tasks."""
        return self._closed

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``coroutine``. After close it is refused: the coroutine is closed unstarted."""
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self._name} is closed and cannot start {name}")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}:{name}")
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
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
