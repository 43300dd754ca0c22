"""Faults of the links between this node and others, or its clients. A node has them only if started for tests.

All of it happens where a connection was accepted. A link from node 1 to node 2 that is cut holds back what node 1 asks
on connections that node 2 accepted from it, and what node 1 answers on those that it accepted from node 2; so both
nodes are told. What is held back arrives when the link is whole again, as with TCP. A connection cannot be made over a
link that is cut in one direction: who dials gets no answer to its first messages.

Delay and rate are of answers. Between two nodes that are told both it is as if both directions had them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

CLIENTS: Final = None
"""Instead of a node id: all clients."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Of one link, as seen from this node. All at their defaults: it is whole."""

    is_cut_in: bool = False
    """Nothing arrives from there."""
    is_cut_out: bool = False
    """Nothing that this node sends arrives there."""
    delay_ms: int = 0
    """Of answers."""
    bytes_per_s: int = 0
    """Of answers, all connections together; 0: any number."""


WHOLE: Final = Condition()


class Link:
    """The way to one node, or to all clients."""

    __slots__ = ("_cut_at_s", "_free_at_s", "condition")

    def __init__(self) -> None:
        self.condition = WHOLE
        self._cut_at_s = 0.0  # since when nothing arrives from there
        self._free_at_s = 0.0  # when the last answer that has its place will have passed a slow link

    def change(self, condition: Condition, now_s: float) -> None:
        """From now on it is so."""
        if condition.is_cut_in and not self.condition.is_cut_in:
            self._cut_at_s = now_s
        self.condition = condition
        self._free_at_s = now_s

    def due_s(self, size: int, opened_at_s: float, now_s: float) -> float | None:
        """When an answer of ``size`` bytes may leave, on a connection made at ``opened_at_s``; None: it may not."""
        condition = self.condition
        if condition.is_cut_out or (condition.is_cut_in and opened_at_s >= self._cut_at_s):
            return None
        begin_s = now_s
        if condition.bytes_per_s:
            self._free_at_s = begin_s = max(now_s, self._free_at_s) + size / condition.bytes_per_s
        return begin_s + condition.delay_ms / 1000


class Accepted(Protocol):
    """A connection, as its link sees it."""

    @property
    def listener(self) -> str: ...
    @property
    def principal(self) -> int | None: ...
    def on_link_changed(self) -> None:
        """Its link changed."""
        ...

    def hasten(self) -> None:
        """Answers that were to be late are not, over links that let them pass."""
        ...


class Links:
    """The links of one node, and the connections that it accepted over them."""

    def __init__(self, listeners_of_nodes: frozenset[str]) -> None:
        self._listeners_of_nodes = listeners_of_nodes
        self._links: dict[int | None, Link] = {}
        self._connections: dict[Accepted, None] = {}

    def change(self, peer: int | None, **changes: Any) -> None:
        """Change fields of a link's condition: to a node, or to ``CLIENTS``."""
        link = self._links.setdefault(peer, Link())
        link.change(replace(link.condition, **changes), asyncio.get_running_loop().time())
        self._tell([each for each in self._connections if self.of(each) is link])

    def heal(self) -> None:
        """Every link is whole again."""
        self._links.clear()
        self._tell(self._connections)

    def hasten(self) -> None:
        """No answer is late any more, but for its link."""
        for connection in tuple(self._connections):
            connection.hasten()

    @property
    def are_whole(self) -> bool:
        """Nothing was changed since all were whole."""
        return not self._links

    @property
    def broken(self) -> dict[int | None, Condition]:
        """The links that are not whole."""
        return {peer: link.condition for peer, link in self._links.items() if link.condition != WHOLE}

    def of(self, connection: Accepted) -> Link | None:
        """None: whole, or nobody knows yet to whom."""
        if not self._links:
            return None
        if connection.principal is None and connection.listener in self._listeners_of_nodes:
            return None
        return self._links.get(connection.principal)

    def join(self, connection: Accepted) -> None:
        self._connections[connection] = None

    def leave(self, connection: Accepted) -> None:
        self._connections.pop(connection, None)

    @staticmethod
    def _tell(connections: Iterable[Accepted]) -> None:
        for connection in tuple(connections):
            connection.on_link_changed()
