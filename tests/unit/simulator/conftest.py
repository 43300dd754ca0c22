"""A simulated world for each test; what is left of it at the end is killed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from simulator.loop import Process, Simulator
from simulator.network import Network

T = TypeVar("T")


class World:
    """Machines a and b with a process each."""

    def __init__(self, seed: int = 1) -> None:
        self.simulator = Simulator(seed)
        self.network = Network(self.simulator)
        self.a, self.b = self.network.process("a"), self.network.process("b")

    def run(self, coroutine: Coroutine[Any, Any, T], process: Process | None = None, limit_s: float = 1000.0) -> T:
        """The result of a coroutine, run by process a."""
        return self.simulator.run_until_done((process or self.a).spawn(coroutine), limit_s)

    def end(self) -> None:
        for process in self.network.processes():
            process.kill()


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(seed: int = 1) -> World:
        worlds.append(World(seed))
        return worlds[-1]

    yield make
    for world in worlds:
        world.end()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
