"""The in-sync replicas at the leader: the ISR that the controller committed, and the proposal (row R20, KIP-497).

States of a partition's ISR at its leader::

    COMMITTED ---propose()--------------------------------> IN FLIGHT
    IN FLIGHT ---accepted / newer metadata----------------> COMMITTED (the controller's ISR)
    IN FLIGHT ---refused, and it was sent only once-------> COMMITTED (unchanged)
    IN FLIGHT ---no verdict (time-out, no controller)-----> IN FLIGHT, in doubt: send it again
    in doubt  ---refused----------------------------------> FENCING: send the committed ISR instead
    FENCING   ---accepted / newer metadata----------------> COMMITTED
    any       ---refused as stale-------------------------> waits for newer metadata, sends nothing

The *maximal* ISR has every replica that may be in the true ISR: committed and proposed members together, until the
proposal is settled. The high watermark counts all of them. Acknowledging on the smaller set would lose records if the
controller has committed the larger set already and elects a member of it.

Why FENCING: a proposal without an answer may still sit in a network buffer. Suppose its second sending is refused
(the new member is fenced just now), and the leader goes back to the committed ISR. A controller that finds the member
alive again could still commit the first sending later. The true ISR would then hold a replica for which the high
watermark never waited. Only a higher partition epoch makes the delayed proposal harmless. So the leader proposes the
committed ISR once more, which raises the epoch, and counts the maximal ISR until that is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition


class IsrMember(NamedTuple):
    """A broker in a proposed ISR, and the incarnation the leader knows (-1 when it has not fetched yet; KIP-903)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """ISR change for the controller to commit; valid only in exactly this leader epoch and partition epoch."""

    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]

    @property
    def broker_ids(self) -> frozenset[int]:
        """The proposed members."""
        return frozenset(member.broker_id for member in self.new_isr)


REFUSED: Final = frozenset(
    {
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.STALE_BROKER_EPOCH,
    }
)
"""The controller checked the proposal and did not change the partition."""

STALE: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The controller knows a later state: the metadata for it is on its way here."""


class InSyncReplicas:
    """Committed ISR and partition epoch, at most one proposal in flight, and the maximal ISR of both."""

    __slots__ = ("_is_in_doubt", "committed", "in_flight", "maximal", "partition_epoch")

    def __init__(self, committed: Iterable[int], partition_epoch: int) -> None:
        self.committed = frozenset(committed)
        self.maximal = self.committed
        self.partition_epoch = partition_epoch
        self.in_flight: IsrProposal | None = None
        self._is_in_doubt = False

    def propose(self, proposal: IsrProposal) -> None:
        """Put a proposal in flight; its members count from now on."""
        assert self.in_flight is None, f"{self.in_flight} is in flight"
        assert proposal.partition_epoch == self.partition_epoch
        self.in_flight = proposal
        self._is_in_doubt = False
        self.maximal = self.committed | proposal.broker_ids

    def commit(self, isr: Iterable[int], partition_epoch: int) -> None:
        """The controller committed an ISR, by answer or by metadata: nothing is in flight any more."""
        assert partition_epoch >= self.partition_epoch
        self.committed = frozenset(isr)
        self.partition_epoch = partition_epoch
        self._settle()

    def on_refused(self, error: ErrorCode, fence: IsrProposal) -> IsrProposal | None:
        """The proposal to send after the caller's back-off; None: send nothing.

        ``fence``: the proposal of the committed ISR itself, for a refused proposal that may yet be committed.
        """
        assert self.in_flight is not None
        if error in STALE:
            return None
        if error not in REFUSED:
            self._is_in_doubt = True
            return self.in_flight
        if self._is_in_doubt:
            self.in_flight = fence
            return fence
        self._settle()
        return None

    def _settle(self) -> None:
        self.in_flight = None
        self._is_in_doubt = False
        self.maximal = self.committed
