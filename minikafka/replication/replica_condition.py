"""Whether the log of a local replica may be believed, and what follows when it may not (P5).

::

    WHOLE ------ damage found ----------------------------> DAMAGED (from an offset on): claims to be lost
    DAMAGED ---- the claim is committed, somebody leads --> REFETCHING: cut there, fetched again
    REFETCHING - in the ISR again, or leading ------------> WHOLE
    REFETCHING - damage found ----------------------------> DAMAGED

A damaged replica must neither lead nor vouch for anything while others can: it claims to be in a lost directory, which
the controller answers by taking it out of ISR and ELR (KIP-858, KIP-966). Nothing is cut before metadata says so: what
this node knows of the ISR may be old, and it may have been let in meanwhile for what it had. Once it is cut it claims
to be where it is. So an ISR with it in metadata that comes later was proposed for what it fetched again.

The last complete replica claims nothing: what is left of it is better than nothing. Nor does one when nobody is
complete: who led last may lead again.
"""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from minikafka.model import LOST_DIRECTORY
from minikafka.replication.replica_effects import Cut
from minikafka.replication.replica_facts import CommittedPartition


class Condition(Enum):
    """What may be believed of the log."""

    WHOLE = "whole"
    DAMAGED = "damaged"
    REFETCHING = "refetching"


class ReplicaCondition:
    """The condition of one replica of node ``local_id``."""

    __slots__ = ("_damage_offset", "_local_id", "now")

    def __init__(self, local_id: int, damage_offset: int | None) -> None:
        """``damage_offset``: where the log was found damaged when it was loaded; None: it was not."""
        self._local_id = local_id
        self._damage_offset = damage_offset
        self.now = Condition.WHOLE if damage_offset is None else Condition.DAMAGED

    def on_damage(self, offset: int) -> None:
        """What the log holds from ``offset`` on may not be believed."""
        if self.now is Condition.DAMAGED and self._damage_offset is not None:
            offset = min(offset, self._damage_offset)
        self._damage_offset = offset
        self.now = Condition.DAMAGED

    def claimed_directory(self, actual: UUID, committed: CommittedPartition) -> UUID:
        """Where the cluster shall take the replica to be; ``actual`` is where it is."""
        is_last = committed.complete <= {self._local_id}
        return LOST_DIRECTORY if self.now is Condition.DAMAGED and not is_last else actual

    def must_refetch(self, committed: CommittedPartition) -> bool:
        """It is to be cut: nobody counts on this copy, and the cluster has said so."""
        is_lost = committed.directory_id == LOST_DIRECTORY and self._local_id not in committed.complete
        return self.now is Condition.DAMAGED and is_lost

    def begin_refetch(self) -> Cut:
        """How it begins."""
        assert self._damage_offset is not None
        self.now = Condition.REFETCHING
        return Cut(self._damage_offset, is_refetch=True)

    def maybe_mend(self, committed: CommittedPartition) -> bool:
        """True when whatever was damaged has been replaced, or given up by an unclean election."""
        if self.now is not Condition.REFETCHING or self._local_id not in committed.isr:
            return False
        self.now = Condition.WHOLE
        self._damage_offset = None
        return True
