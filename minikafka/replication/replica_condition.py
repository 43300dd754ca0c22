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
complete: who led last may lead again. When it does, what it lacks is lost, and is said once.

A log that was here and is gone is made anew, empty, and begins as REFETCHING.
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

    __slots__ = ("_damage_offset", "_is_loss_said", "_local_id", "now")

    def __init__(self, local_id: int, damage_offset: int | None, *, is_made_anew: bool = False) -> None:
        """``damage_offset``: where the log was found damaged when it was loaded; None: it was not.

        ``is_made_anew``: it was not there, though it should have been.
        """
        self._local_id = local_id
        self._damage_offset = 0 if is_made_anew else damage_offset
        self._is_loss_said = False
        self.now = Condition.WHOLE if damage_offset is None else Condition.DAMAGED
        if is_made_anew:
            self.now = Condition.REFETCHING

    def on_damage(self, offset: int) -> None:
        """What the log holds from ``offset`` on may not be believed."""
        if self.now is Condition.DAMAGED and self._damage_offset is not None:
            offset = min(offset, self._damage_offset)
        self._damage_offset = offset
        self._is_loss_said = False
        self.now = Condition.DAMAGED

    def is_damaged_from(self, offset: int) -> bool:
        """It is known that what the log holds from ``offset`` on may not be believed."""
        return self.now is Condition.DAMAGED and self._damage_offset is not None and self._damage_offset <= offset

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

    def loss_to_say(self, committed: CommittedPartition) -> int | None:
        """From which offset on records may be gone for good, if that is news: it leads, and nobody else has them."""
        is_alone = committed.leader_id == self._local_id and committed.complete <= {self._local_id}
        if self.now is Condition.WHOLE or self._is_loss_said or not is_alone:
            return None
        self._is_loss_said = True
        return self._damage_offset

    def maybe_mend(self, committed: CommittedPartition) -> bool:
        """True when whatever was damaged has been replaced, or given up by an unclean election."""
        if self.now is not Condition.REFETCHING or self._local_id not in committed.isr:
            return False
        self.now = Condition.WHOLE
        self._damage_offset = None
        return True
