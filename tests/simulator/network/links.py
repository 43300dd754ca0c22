"""What lies between two machines: the directed link with its delays and cuts, and a connection's bytes on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.network.network import Network


@dataclass(slots=True)
class Link:
    """One direction between two machines: seconds of delay, and whether it is cut."""

    delay_min_s: float = 50e-6
    delay_max_s: float = 500e-6
    is_cut: bool = False


class Pipe:
    """One direction of a connection: things that happen at the other end, in order, after the link's delay.

    What met a cut link is sent again until the kernel gives up; ``on_timeout`` is called then.
    """

    __slots__ = ("_cuts", "_last", "_network", "_queue", "_unsent", "on_timeout", "source", "target")

    def __init__(self, network: Network, source: str, target: str) -> None:
        self.on_timeout: Callable[[], None] = _nothing
        self.source = source
        self.target = target
        self._network = network
        self._queue: deque[Callable[[], None]] = deque()
        self._unsent = 0  # how many of the queue met a link that was cut
        self._cuts = 0  # how often that began
        self._last = 0.0

    def send(self, act: Callable[[], None]) -> None:
        """Let ``act`` happen at the other end."""
        simulator = self._network.simulator
        self._queue.append(act)
        self._last = max(self._last + 1e-9, simulator.now + self._network.delay_s(self.source, self.target))
        simulator.at(self._last, self._arrive)

    def retransmit(self, _: object = None) -> None:
        """The link is mended: what waited arrives."""
        while self._unsent and not self._network.link(self.source, self.target).is_cut:
            self._unsent -= 1
            self._queue.popleft()()
        if self._unsent:
            self._network.hold(self)

    def _arrive(self, _: object) -> None:
        if self._unsent or self._network.link(self.source, self.target).is_cut:
            if not self._unsent:
                self._cuts += 1
                self._network.simulator.after(self._network.timeout_s, partial(self._give_up, self._cuts))
            self._unsent += 1
            self._network.hold(self)
        else:
            self._queue.popleft()()

    def _give_up(self, cut: int, _: object = None) -> None:
        """Nothing was acknowledged for too long: what is under way never arrives, and the sender is told."""
        if self._unsent and cut == self._cuts:
            self._queue = deque(_nothing for _ in self._queue)
            self.on_timeout()


def _nothing() -> None:
    """Happens instead of what was given up."""
