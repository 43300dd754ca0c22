"""Probes whether other nodes' processes are alive (docs/internals/liveness.md).

A node's process is *gone* when its port refuses, or its name does not exist. Nothing else is evidence: a silent node
may be paused, disconnected or slow. A broken connection is a reason to probe (:meth:`Liveness.doubt`), and so is an
answer that sends a client to that node (:meth:`Liveness.look`). Subscribers hear of each probe that finds a node gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.model import Endpoint
from minikafka.net.tasks import TaskOwner

PAUSES_S: Final = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 1.0)  # a process that is being killed may hold its port a moment
BETWEEN_LOOKS_S: Final = 0.001  # bounds the cost of probes for the probed node

EndpointOf = Callable[[int], Endpoint | None]


class Liveness:
    """Probes ("looks"), one at a time for each node."""

    def __init__(
        self, endpoint_of: EndpointOf, tasks: TaskOwner, is_refused: Callable[[Endpoint], Awaitable[bool]]
    ) -> None:
        self._endpoint_of = endpoint_of
        self._tasks = tasks
        self._is_refused = is_refused
        self._loop = asyncio.get_running_loop()
        self._on_gone: list[Callable[[int], None]] = []
        self._next: dict[int, asyncio.Future[bool]] = {}  # result of the next look, by node
        self._looking: dict[int, None] = {}
        self._doubts: dict[int, asyncio.Event] = {}

    def subscribe(self, on_gone: Callable[[int], None]) -> None:
        """Hear of every look that found a node gone."""
        self._on_gone.append(on_gone)

    def doubt(self, node_id: int) -> None:
        """A connection to or from the node broke: look now, and again for a while."""
        if node_id in self._doubts:
            self._doubts[node_id].set()
        elif not self._tasks.is_closed:
            self._doubts[node_id] = asyncio.Event()
            self._tasks.start(self._keep_looking(node_id), f"look-at-{node_id}")

    async def look(self, node_id: int) -> bool:
        """Result of a look that begins now or later: True when the node is gone. Cancelling it is harmless."""
        if self._tasks.is_closed:
            return False
        found = self._next.get(node_id)
        if found is None:
            found = self._next[node_id] = self._loop.create_future()
            if node_id not in self._looking:
                self._looking[node_id] = None
                self._tasks.start(self._look_in_turn(node_id), f"look-in-turn-{node_id}")
        return await asyncio.shield(found)

    async def _look_in_turn(self, node_id: int) -> None:
        """Callers during a look share the next one."""
        try:
            while (found := self._next.pop(node_id, None)) is not None:
                is_gone = await self._look_now(node_id)
                found.set_result(is_gone)
                await asyncio.sleep(BETWEEN_LOOKS_S)
        finally:
            del self._looking[node_id]

    async def _look_now(self, node_id: int) -> bool:
        endpoint = self._endpoint_of(node_id)
        is_gone = endpoint is not None and await self._is_refused(endpoint)
        if is_gone:
            for tell in self._on_gone:
                tell(node_id)
        return is_gone

    async def _keep_looking(self, node_id: int) -> None:
        doubted_again = self._doubts[node_id]
        pauses = iter(PAUSES_S)
        try:
            while not await self.look(node_id):
                if doubted_again.is_set():
                    doubted_again.clear()
                    pauses = iter(PAUSES_S)
                pause_s = next(pauses, None)
                if pause_s is None:
                    return
                try:
                    async with asyncio.timeout(pause_s):
                        await doubted_again.wait()
                except TimeoutError:
                    pass
        finally:
            del self._doubts[node_id]
