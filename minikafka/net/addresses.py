"""How many connections come from each address: one must not take the places of all others (KIP-402)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NO_BOUND: Final = 2**31 - 1
_MAPPED: Final = "::ffff:"
"""So an IPv4 address begins at a socket for both families."""


class Addresses:
    """Of the client listeners of a node together. Who is on the way in counts, too.

    ``most``: connections of one address; ``overrides``: those of some, by address.
    """

    def __init__(self, most: int = NO_BOUND, overrides: Mapping[str, int] | None = None) -> None:
        self._most = most
        self._overrides = overrides or {}
        self._counts: dict[str, int] = {}

    def limit(self, most: int, overrides: Mapping[str, int]) -> None:
        """Other bounds, for who comes from now on."""
        self._most, self._overrides = most, overrides

    def most_of(self, host: str) -> int:
        """Connections that may come from there."""
        return self._overrides.get(host.removeprefix(_MAPPED), self._most)

    def enter(self, host: str) -> bool:
        """One more comes from there. False: it must not."""
        count = self._counts.get(host, 0)
        if count >= self.most_of(host):
            return False
        self._counts[host] = count + 1
        return True

    def leave(self, host: str) -> None:
        """One that entered has gone."""
        count = self._counts.pop(host) - 1
        assert count >= 0
        if count:
            self._counts[host] = count


def too_many_of(addresses: Addresses, host: str) -> str:
    """What is said of a connection that must not enter."""
    return f"more than {addresses.most_of(host)} connections of this address; raise max.connections.per.ip"
