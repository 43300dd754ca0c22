"""Position of a consumer in each partition, and its next request (pure).

A position has three offsets, each with the leader epoch of the record before it. Always::

    processed  <=  consumed  <=  fetched

*processed*: after the records that the user is done with; automatic commits store it. *consumed*: after the last
returned record. *fetched*: after the last buffered record. States and transitions:

============  ======================================================  =======================================
state         waits for                                               leaves it by
============  ======================================================  =======================================
UNKNOWN       the group's committed offset                            ``seek``, ``reset``, ``fail``
RESETTING     the leader's earliest or latest offset                  ``seek``
VALIDATING    the end of *fetched*'s epoch at the new leader          ``on_epoch_end``
FETCHING      records                                                 ``on_leader_epoch`` (a newer one), ``reset``
FAILED        the user, to whom ``error`` is raised                   ``seek``, ``reset`` by the user
============  ======================================================  =======================================

A new leader may have lost records (an unclean election). Offsets alone do not show it: the log may have grown past the
gap. So a newer leader epoch makes the position VALIDATING before the next fetch (KIP-320). Every move except by reading
raises ``generation``, which marks fetched records as stale, and withdraws the look-up under way: its answer is dropped.

Records may come from a follower: the leader names one in the consumer's rack. It is read for a while, until it fails,
or until the leader changes (KIP-392). All other requests go to the leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from minikafka.client.errors import LogTruncatedError, NoOffsetError
from minikafka.errors import KafkaError
from minikafka.model import (
    LATEST,
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    UNDEFINED_OFFSET_AND_EPOCH,
    ZERO_TOPIC_ID,
    OffsetAndEpoch,
    TopicPartition,
)

NO_END: Final = 1 << 63  # beyond every offset


class PositionState(Enum):
    """State of a position: see the module."""

    UNKNOWN = "unknown"
    RESETTING = "resetting"
    VALIDATING = "validating"
    FETCHING = "fetching"
    FAILED = "failed"


@dataclass(slots=True, eq=False)
class Position:
    """One partition of a consumer. ``reset_policy``: EARLIEST, LATEST, or None to raise an error to the user."""

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

    def begin_anew(self) -> None:
        """Look up the group's committed offset and continue there."""
        self.processed = self.consumed = self.fetched = UNDEFINED_OFFSET_AND_EPOCH
        self._move(PositionState.UNKNOWN)

    def reset(self, to: int) -> None:
        """Look up EARLIEST or LATEST and continue there; until then there is no offset to commit."""
        self.reset_to = to
        self.processed = self.consumed = self.fetched = UNDEFINED_OFFSET_AND_EPOCH
        self._move(PositionState.RESETTING)

    def reset_by_policy(self, error: KafkaError) -> None:
        """Reset by the policy; without a policy fail with ``error``."""
        if self.reset_policy is None:
            self.fail(error)
        else:
            self.reset(self.reset_policy)

    def fail(self, error: KafkaError) -> None:
        """Wait for the user's decision."""
        self._move(PositionState.FAILED)
        self.error = error

    def rewind(self) -> None:
        """Drop fetched records that were not returned yet, and fetch them again."""
        self.fetched = self.consumed
        self._move(self.state)

    def drop(self) -> None:
        """It is no longer assigned to this consumer: drop fetched records and answers on their way."""
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
        """An answer with records up to ``end`` is in the buffer."""
        assert end.offset >= self.fetched.offset, f"{self.tp}: fetched {end} behind {self.fetched}"
        self.fetched = end
        self.waiting += 1

    def advance(self, consumed: OffsetAndEpoch) -> None:
        """Records before ``consumed`` were returned."""
        assert self.consumed.offset <= consumed.offset <= self.fetched.offset, f"{self.tp}: {consumed} of {self}"
        self.consumed = consumed

    # -- what the cluster says --------------------------------------------------------------------------------------

    def on_topic_id(self, topic_id: UUID) -> bool:
        """Metadata arrived: the name may belong to another topic now, with other offsets.

        True in that case, if this position was one in the former topic.
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
        """Metadata arrived: a newer leader may have lost records that were read."""
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
        """The position's epoch ends at ``end`` in the leader's log (undefined: the leader does not have that epoch).

        An end before *fetched* but not before *consumed*: buffered records are dropped and fetched again. An end before
        *consumed*: the user has seen lost records; go back to the common log, or raise an error, by the policy.
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
        """The leader does not have the offset to fetch, and no earlier record is in the buffer."""
        assert not self.waiting
        self.reset_by_policy(NoOffsetError(self.tp, self.fetched.offset))

    # -- leader or follower -----------------------------------------------------------------------------------------

    def source(self, leader_id: int, now_ms: int) -> int:
        """Node to fetch from: the follower that the leader named, for a while, otherwise the leader."""
        if not self.is_asked and now_ms >= self.read_replica_until_ms:
            self.read_from_leader()
        return leader_id if self.read_replica == NO_NODE else self.read_replica

    def read_from(self, replica_id: int, until_ms: int) -> None:
        """The leader named a follower in the consumer's rack."""
        self.read_replica = replica_id
        self.read_replica_until_ms = until_ms

    def read_from_leader(self) -> None:
        """The follower failed, or its time is over: ask the leader, which may name one again."""
        self.read_replica = NO_NODE

    @property
    def may_be_read(self) -> bool:
        """True when records may be fetched and returned."""
        return self.state is PositionState.FETCHING and not self.is_paused

    @property
    def is_fetched(self) -> bool:
        """True when all wanted records were fetched."""
        return self.fetched.offset >= self.until

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def is_due(self, now_ms: int) -> bool:
        """True when no request for it is under way, and no back-off."""
        return not self.is_asked and self.not_before_ms <= now_ms

    def ask(self) -> int:
        """A look-up begins; its answer must come with the returned ticket."""
        assert not self.is_asked
        self.is_asked = True
        self.ticket += 1
        return self.ticket

    def answered(self, ticket: int) -> bool:
        """A look-up ends; False when it was withdrawn meanwhile: drop the answer."""
        if not self.is_asked or ticket != self.ticket:
            return False
        self.is_asked = False
        return True

    def back_off(self, until_ms: int, error: KafkaError | None = None) -> None:
        """No request before that time; ``error``, if given, is raised to the user: it may be permanent."""
        self.failures += 1
        self.not_before_ms = until_ms
        self.error = error
