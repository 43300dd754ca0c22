"""The in-sync replicas as the leader sees them: committed by the controller, and proposed (row R20, KIP-497).

States of a partition's ISR at its leader::

    COMMITTED ---propose()--------------------------------> IN FLIGHT
    IN FLIGHT ---accepted / newer metadata----------------> COMMITTED (the controller's ISR)
    IN FLIGHT ---refused, and it was sent only once-------> COMMITTED (unchanged)
    IN FLIGHT ---no verdict (time-out, no controller)-----> IN FLIGHT, in doubt: send it again
    in doubt  ---refused----------------------------------> FENCING: send the committed ISR instead
    FENCING   ---accepted / newer metadata----------------> COMMITTED
    any       ---refused as stale-------------------------> waits for newer metadata, sends nothing

The *maximal* ISR is everyone who may be in the true ISR: committed and proposed members together, for as long as the
proposal's fate is open. The high watermark counts all of them; acknowledging on the smaller set would lose records
when the controller, unknown to us, elects a member of the larger one.

Why FENCING: a proposal that got no answer may still sit in a network buffer. If a second sending of it is refused
(its new member is fenced just now) and the leader went back to the committed ISR, the first sending could be committed
later by a controller that finds the member alive again: the true ISR would then hold a replica the high watermark never
waited for. Only a higher partition epoch makes the delayed proposal harmless, so the leader has one committed for a
proposal that changes nothing, and counts the maximal ISR until then.
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
    """What a leader asks the controller to commit; valid only against exactly this leader and partition epoch."""

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
"""The controller looked at the proposal and left the partition as it is."""

STALE: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The controller is ahead of us: metadata that explains it is on its way."""


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
        """Put a proposal in flight; from now on its members count too."""
        assert self.in_flight is None, f"{self.in_flight} is in flight"
        assert proposal.partition_epoch == self.partition_epoch
        self.in_flight = proposal
        self._is_in_doubt = False
        self.maximal = self.committed | proposal.broker_ids

    def commit(self, isr: Iterable[int], partition_epoch: int) -> None:
        """The controller's word, by answer or by metadata: it ends whatever was in flight."""
        assert partition_epoch >= self.partition_epoch
        self.committed = frozenset(isr)
        self.partition_epoch = partition_epoch
        self._settle()

    def on_refused(self, error: ErrorCode, fence: IsrProposal) -> IsrProposal | None:
        """What to send next, after the caller's back-off; None when there is nothing to send.

        ``fence`` is the proposal of the committed ISR itself, used when the refused one may yet be committed.
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
