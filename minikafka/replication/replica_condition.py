"""Whether the log of a local replica can be trusted, and what happens when it cannot.

::

    WHOLE ------ damage found ----------------------------> DAMAGED (from an offset on): claims a lost directory
    DAMAGED ---- claim committed, another replica leads --> REFETCHING: cut there, fetched again
    REFETCHING - in the ISR again, or leading ------------> WHOLE
    REFETCHING - damage found ----------------------------> DAMAGED

A damaged replica must neither lead nor be in sync while others can. It claims to be in a lost directory, and the
controller takes it out of ISR and ELR (KIP-858, KIP-966). Nothing is cut before metadata says so: the ISR known here
may be old, and the replica may have joined it meanwhile with the records it had. After the cut it claims its real
directory. So if later metadata has it in the ISR, it is there for the records that it fetched again.

The last complete replica claims nothing: its remaining records are better than none. A replica claims nothing either
while no replica is complete: the last leader may lead again. When it does, its missing records are lost, and the loss
is logged once.

A missing log is replaced by an empty one and begins as REFETCHING.
"""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from minikafka.model import LOST_DIRECTORY
from minikafka.replication.replica_effects import Cut
from minikafka.replication.replica_facts import CommittedPartition


class Condition(Enum):
    """Whether the log can be trusted."""

    WHOLE = "whole"
    DAMAGED = "damaged"
    REFETCHING = "refetching"


class ReplicaCondition:
    """The condition of one replica of node ``local_id``."""

    __slots__ = ("_damage_offset", "_is_loss_said", "_local_id", "now")

    def __init__(self, local_id: int, damage_offset: int | None, *, is_made_anew: bool = False) -> None:
        """``damage_offset``: first damaged offset that loading found; None: no damage.

        ``is_made_anew``: the log should have been on disk, but was missing.
        """
        self._local_id = local_id
        self._damage_offset = 0 if is_made_anew else damage_offset
        self._is_loss_said = False
        self.now = Condition.WHOLE if damage_offset is None else Condition.DAMAGED
        if is_made_anew:
            self.now = Condition.REFETCHING

    def on_damage(self, offset: int) -> None:
        """The log cannot be trusted from ``offset`` on."""
        if self.now is Condition.DAMAGED and self._damage_offset is not None:
            offset = min(offset, self._damage_offset)
        self._damage_offset = offset
        self._is_loss_said = False
        self.now = Condition.DAMAGED

    def is_damaged_from(self, offset: int) -> bool:
        """The log is known to be damaged from ``offset`` or before."""
        return self.now is Condition.DAMAGED and self._damage_offset is not None and self._damage_offset <= offset

    def claimed_directory(self, actual: UUID, committed: CommittedPartition) -> UUID:
        """The directory to report to the cluster; ``actual`` is the real one."""
        is_last = committed.complete <= {self._local_id}
        return LOST_DIRECTORY if self.now is Condition.DAMAGED and not is_last else actual

    def must_refetch(self, committed: CommittedPartition) -> bool:
        """The log has to be cut: committed metadata says that this copy is lost."""
        is_lost = committed.directory_id == LOST_DIRECTORY and self._local_id not in committed.complete
        return self.now is Condition.DAMAGED and is_lost

    def begin_refetch(self) -> Cut:
        """Begin REFETCHING; returns the cut at the first damaged offset."""
        assert self._damage_offset is not None
        self.now = Condition.REFETCHING
        return Cut(self._damage_offset, is_refetch=True)

    def loss_to_say(self, committed: CommittedPartition) -> int | None:
        """First offset of a loss that is not logged yet: this replica leads, and no other has the records."""
        is_alone = committed.leader_id == self._local_id and committed.complete <= {self._local_id}
        if self.now is Condition.WHOLE or self._is_loss_said or not is_alone:
            return None
        self._is_loss_said = True
        return self._damage_offset

    def is_election_to_say(self, before: CommittedPartition, committed: CommittedPartition) -> bool:
        """This replica is elected uncleanly. Whoever had more may be gone for good, and tell nobody. A log that is not
        whole is said by :meth:`loss_to_say`."""
        is_leader = committed.leader_id == self._local_id
        return is_leader and self.now is Condition.WHOLE and committed.gave_up(before)

    def maybe_mend(self, committed: CommittedPartition) -> bool:
        """True when all damaged records have been replaced, or given up by an unclean election."""
        if self.now is not Condition.REFETCHING or self._local_id not in committed.isr:
            return False
        self.now = Condition.WHOLE
        self._damage_offset = None
        return True
