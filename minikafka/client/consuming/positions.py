"""Where a consumer stands in each of its partitions, and what has to be asked next (pure).

Three places are kept, each with the leader epoch of the record before it. They never overtake one another::

    processed  <=  consumed  <=  fetched

*processed* is what the user came back from for more, and so is safe to commit by itself; *consumed* is behind the last
record handed out; *fetched* is behind everything that was fetched and waits. States and transitions:

============  ======================================================  =======================================
state         what it waits for                                       leaves it by
============  ======================================================  =======================================
UNKNOWN       the group's committed offset                            ``seek``, ``reset``, ``fail``
RESETTING     the leader's earliest or latest offset                  ``seek``
VALIDATING    where the epoch of *fetched* ended, by the new leader   ``on_epoch_end``
FETCHING      records                                                 ``on_leader_epoch`` (a newer one), ``reset``
FAILED        the user, to whom ``error`` is raised                   ``seek``, ``reset`` by the user
============  ======================================================  =======================================

A leader that changes may have lost records (an unclean election), and offsets alone do not show it: the log may have
grown over the gap. So whenever a newer leader epoch is known, the position is validated before anything more is fetched
(KIP-320). Every move by other means than reading bumps ``generation``, by which fetched records are known to be stale,
and withdraws the question that is under way, so that its answer is dropped.

Records may come from a follower: the leader names one in the consumer's rack, which is read for a while, until it
fails, or until the leader changes (KIP-392). Everything else is asked of the leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from minikafka.client.errors import LogTruncatedError, NoOffsetError
from minikafka.errors import KafkaError
from minikafka.model import (
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    UNDEFINED_OFFSET_AND_EPOCH,
    ZERO_TOPIC_ID,
    OffsetAndEpoch,
    TopicPartition,
)

EARLIEST: Final = -2
LATEST: Final = -1
NO_END: Final = 1 << 63  # beyond every offset


class PositionState(Enum):
    """What a position waits for."""

    UNKNOWN = "unknown"
    RESETTING = "resetting"
    VALIDATING = "validating"
    FETCHING = "fetching"
    FAILED = "failed"


@dataclass(slots=True, eq=False)
class Position:
    """One partition of a consumer. ``reset_policy`` is EARLIEST, LATEST, or None when the user wants to decide."""

    tp: TopicPartition
    reset_policy: int | None = LATEST
    state: PositionState = PositionState.UNKNOWN
    processed: OffsetAndEpoch = UNDEFINED_OFFSET_AND_EPOCH
    consumed: OffsetAndEpoch = UNDEFINED_OFFSET_AND_EPOCH
    fetched: OffsetAndEpoch = UNDEFINED_OFFSET_AND_EPOCH
    until: int = NO_END  # nothing from there on need be fetched
    topic_id: UUID = ZERO_TOPIC_ID
    leader_epoch: int = NO_EPOCH  # the newest the cluster told us
    reset_to: int = LATEST  # meaningful while RESETTING
    high_watermark: int = NO_OFFSET
    read_replica: int = NO_NODE  # the follower that the leader named
    read_replica_until_ms: int = 0
    error: KafkaError | None = None  # raised to the user at the next call
    is_paused: bool = False
    waiting: int = 0  # answers to fetches that wait to be taken
    is_asked: bool = False  # a question about it, or a fetch, is under way
    ticket: int = 0  # of the latest question
    served: int = 0  # when it was last served, for taking turns
    failures: int = 0
    not_before_ms: int = 0
    generation: int = 0

    # -- moves ------------------------------------------------------------------------------------------------------

    def seek(self, offset: int, epoch: int = NO_EPOCH, *, validated: bool = True) -> None:
        """Continue at ``offset``; with a known ``epoch`` not ``validated``, ask the leader first."""
        self.processed = self.consumed = self.fetched = OffsetAndEpoch(offset, epoch)
        self._move(PositionState.FETCHING if validated or epoch == NO_EPOCH else PositionState.VALIDATING)

    def reset(self, to: int) -> None:
        """Look up EARLIEST or LATEST and continue there; until then there is no place to commit."""
        self.reset_to = to
        self.processed = self.consumed = self.fetched = UNDEFINED_OFFSET_AND_EPOCH
        self._move(PositionState.RESETTING)

    def reset_by_policy(self, error: KafkaError) -> None:
        """The same by the policy; without one, fail with ``error``."""
        if self.reset_policy is None:
            self.fail(error)
        else:
            self.reset(self.reset_policy)

    def fail(self, error: KafkaError) -> None:
        """Wait for the user, who alone can decide how to go on."""
        self._move(PositionState.FAILED)
        self.error = error

    def rewind(self) -> None:
        """Drop what was fetched and not handed out, and fetch it again."""
        self.fetched = self.consumed
        self._move(self.state)

    def drop(self) -> None:
        """It is not this consumer's any more: nothing that was asked or fetched for it is wanted."""
        self._move(PositionState.FAILED)

    def _move(self, state: PositionState) -> None:
        self.state = state
        self.error = None
        self.waiting = 0
        self.is_asked = False
        self.failures = self.not_before_ms = 0
        self.generation += 1

    # -- reading ----------------------------------------------------------------------------------------------------

    def on_fetched(self, end: OffsetAndEpoch) -> None:
        """An answer arrived that reaches to ``end`` and waits to be taken."""
        assert end.offset >= self.fetched.offset, f"{self.tp}: fetched {end} behind {self.fetched}"
        self.fetched = end
        self.waiting += 1

    def advance(self, consumed: OffsetAndEpoch) -> None:
        """Records before ``consumed`` were handed out."""
        assert self.consumed.offset <= consumed.offset <= self.fetched.offset, f"{self.tp}: {consumed} of {self}"
        self.consumed = consumed

    # -- what the cluster says --------------------------------------------------------------------------------------

    def on_topic_id(self, topic_id: UUID) -> bool:
        """Metadata arrived: under the same name there may be another topic, whose offsets mean nothing to us.

        True when it is so, and this position was a place in the other topic.
        """
        if topic_id == ZERO_TOPIC_ID or topic_id == self.topic_id:
            return False
        was_known = self.topic_id != ZERO_TOPIC_ID
        self.topic_id = topic_id
        if not was_known:
            return False
        self.leader_epoch = NO_EPOCH
        if self.consumed.offset == NO_OFFSET:
            return False
        self.reset_by_policy(LogTruncatedError(self.tp, self.consumed.offset, None))
        return True

    def on_leader_epoch(self, leader_epoch: int) -> None:
        """Metadata arrived: a newer leader may have lost what was read."""
        if leader_epoch <= self.leader_epoch:
            return
        self.leader_epoch = leader_epoch
        if self.read_replica != NO_NODE:
            self.read_from_leader()
            self.is_asked = False  # what the follower answers is no word of the leader
        self.failures = self.not_before_ms = 0
        if self.state is PositionState.FETCHING and self.fetched.epoch != NO_EPOCH:
            self.state = PositionState.VALIDATING
            self.is_asked = False

    def on_epoch_end(self, end: OffsetAndEpoch) -> None:
        """Our epoch ended at ``end`` in the leader's log (undefined: the leader knows nothing of that epoch).

        An end before *fetched* but not before *consumed* costs nothing: what waits is dropped and fetched again. An
        end before *consumed* means that the user has seen records that are gone: go back to where the logs agree, or
        tell the user, by the policy.
        """
        assert self.state is PositionState.VALIDATING
        if end.offset == NO_OFFSET or end.epoch == NO_EPOCH:
            self.reset_by_policy(LogTruncatedError(self.tp, self.consumed.offset, None))
        elif end.offset >= self.fetched.offset:
            self.state = PositionState.FETCHING
        elif end.offset >= self.consumed.offset:
            self.state = PositionState.FETCHING
            self.rewind()
        elif self.reset_policy is None:
            self.fail(LogTruncatedError(self.tp, self.consumed.offset, end))
        else:
            self.seek(end.offset, end.epoch)

    def on_out_of_range(self) -> None:
        """The leader does not have the offset to fetch, and nothing waits to be handed out before."""
        assert not self.waiting
        self.reset_by_policy(NoOffsetError(self.tp, self.fetched.offset))

    # -- where to read ----------------------------------------------------------------------------------------------

    def source(self, leader_id: int, now_ms: int) -> int:
        """Whom to fetch from: the follower that the leader named, while that holds, else the leader."""
        if not self.is_asked and now_ms >= self.read_replica_until_ms:
            self.read_from_leader()
        return leader_id if self.read_replica == NO_NODE else self.read_replica

    def read_from(self, replica_id: int, until_ms: int) -> None:
        """The leader named a follower that is nearer."""
        self.read_replica = replica_id
        self.read_replica_until_ms = until_ms

    def read_from_leader(self) -> None:
        """The follower failed, or its time is over: the leader is asked, and may name one again."""
        self.read_replica = NO_NODE

    @property
    def may_be_read(self) -> bool:
        """True when records may be fetched and handed out."""
        return self.state is PositionState.FETCHING and not self.is_paused

    @property
    def is_fetched(self) -> bool:
        """True when everything that is wanted was fetched."""
        return self.fetched.offset >= self.until

    # -- questions --------------------------------------------------------------------------------------------------

    def is_due(self, now_ms: int) -> bool:
        """True when nothing about it is under way, and it need not back off."""
        return not self.is_asked and self.not_before_ms <= now_ms

    def ask(self) -> int:
        """A question begins; its answer is to be given with the ticket."""
        assert not self.is_asked
        self.is_asked = True
        self.ticket += 1
        return self.ticket

    def answered(self, ticket: int) -> bool:
        """A question ends; False when it was withdrawn meanwhile, and nobody wants the answer."""
        if not self.is_asked or ticket != self.ticket:
            return False
        self.is_asked = False
        return True

    def back_off(self, until_ms: int, error: KafkaError | None = None) -> None:
        """Ask nothing before that time; the user is told of an ``error`` that may not pass by itself."""
        self.failures += 1
        self.not_before_ms = until_ms
        self.error = error
