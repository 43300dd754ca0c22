"""State that survives a restart: the epoch, and the vote in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.model import NO_NODE

EPOCH_MAX: Final = 2**31 - 1
"""An epoch is an int32 (KIP-595), a node's id too: what is larger was never written."""


class ElectionState(NamedTuple):
    """The content of the ``quorum-state`` file.

    Safety rests on ``epoch`` and ``voted_for``: an epoch never falls, a vote never changes within its epoch.
    ``leader`` is a hint: the first node to ask after a restart. It is written only together with a change of the
    others, which saves an fsync in every election.
    """

    epoch: int = 0
    voted_for: int | None = None
    leader: int | None = None

    def to_quorum_state(self) -> dict[str, int]:
        """The fields of Kafka's ``quorum-state`` JSON file (KIP-595, data version 0)."""
        return {
            "leaderId": NO_NODE if self.leader is None else self.leader,
            "leaderEpoch": self.epoch,
            "votedId": NO_NODE if self.voted_for is None else self.voted_for,
            "data_version": 0,
        }

    @classmethod
    def from_quorum_state(cls, fields: Mapping[str, object]) -> ElectionState:
        """The inverse; ValueError names the missing or invalid field."""
        epoch = _integer(fields, "leaderEpoch", lowest=0)
        voted_for = _integer(fields, "votedId", lowest=NO_NODE)
        leader = _integer(fields, "leaderId", lowest=NO_NODE)
        return cls(epoch, None if voted_for == NO_NODE else voted_for, None if leader == NO_NODE else leader)


def _integer(fields: Mapping[str, object], name: str, lowest: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= EPOCH_MAX:
        raise ValueError(f"quorum-state: {name} is {value!r}, expected an integer from {lowest} to {EPOCH_MAX}")
    return value
