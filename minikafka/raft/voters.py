"""The static set of voters, and the arithmetic of majorities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.model import Endpoint


def majority_of(count: int) -> int:
    """The smallest number of voters such that any two sets of that size share a member."""
    return count // 2 + 1


def majority_value(values: Iterable[int]) -> int:
    """The largest value that a majority has reached. One value per voter, at least one."""
    ordered = sorted(values, reverse=True)
    return ordered[majority_of(len(ordered)) - 1]


class VoterSet:
    """The configured voters (``controller.quorum.voters``): ids in order, with their endpoints.

    It never changes during the life of a cluster. The machine reads the ids, the driver the endpoints.
    """

    __slots__ = ("_others", "endpoints", "ids", "majority")

    def __init__(self, endpoints: Mapping[int, Endpoint]) -> None:
        if not endpoints:
            raise ValueError("a quorum needs at least one voter")
        if min(endpoints) < 0:
            raise ValueError(f"voter ids are not negative, got {min(endpoints)}")
        self.endpoints = dict(sorted(endpoints.items()))
        self.ids = tuple(self.endpoints)
        self.majority = majority_of(len(self.ids))
        self._others = {one: tuple(other for other in self.ids if other != one) for one in self.ids}

    def __contains__(self, node_id: object) -> bool:
        return node_id in self.endpoints

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        return ",".join(f"{node_id}@{endpoint}" for node_id, endpoint in self.endpoints.items())

    def others(self, node_id: int) -> tuple[int, ...]:
        """Every voter except ``node_id``, in order of id."""
        return self._others.get(node_id, self.ids)
