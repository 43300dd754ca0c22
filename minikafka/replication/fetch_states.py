"""All partitions of one fetcher, and for each the one place where the fetcher will find it next.

A partition is in exactly one of these, or an answer is awaited for it:

======================  ================================================================
``truncating``          the end of its latest epoch is to be asked for
``out_of_range``        the ends of the leader's log are to be asked for
``changed``, session    it is fetched; in ``changed`` when the leader does not know its offset yet
delayed                 in error, until the back-off ends
throttled               left out by a replication quota
being cut               until its log is cut
======================  ================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, ValuesView
from heapq import heappop, heappush
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.effects import Backoff, Effect, Fenced, MarkFailed
from minikafka.replication.fetch_session import FetchSessionClient
from minikafka.replication.fetch_state import FollowedPartition, PartitionFetchState, ReplicaState

FIRST_BACKOFF_MS = 20

StatesByPartition = dict[TopicPartition, PartitionFetchState]


class FetchStates:
    """The states of all followed partitions, sorted by what is due for them."""

    __slots__ = (
        "_backoff_ms",
        "_delayed",
        "_delays",
        "_followed_by_topic",
        "_states",
        "_topic_names",
        "changed",
        "out_of_range",
        "session",
        "truncating",
    )

    def __init__(self, backoff_ms: int) -> None:
        self._backoff_ms = backoff_ms
        self._states: StatesByPartition = {}
        self._topic_names: dict[UUID, str] = {}
        self._followed_by_topic: Counter[UUID] = Counter()  # how many partitions of each; a name goes with the last
        self._delayed: list[tuple[int, int, PartitionFetchState]] = []  # a heap of (end, number of the delay, state)
        self._delays = 0
        self.session = FetchSessionClient()
        self.truncating: StatesByPartition = {}
        self.out_of_range: StatesByPartition = {}
        self.changed: StatesByPartition = {}

    # -- which partitions -------------------------------------------------------------------------------------------

    def add(self, followed: FollowedPartition) -> None:
        """Follow a partition; one that is followed in the same epoch already goes on undisturbed."""
        tp = followed.topic_partition
        known = self._states.get(tp)
        if known is not None:
            if (known.current_leader_epoch, known.topic_id) == (followed.leader_epoch, followed.topic_id):
                return
            self.drop(known)
        self._topic_names[followed.topic_id] = tp.topic
        self._followed_by_topic[followed.topic_id] += 1
        state = self._states[tp] = PartitionFetchState(followed)
        self.enqueue(state)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Follow them no longer."""
        for tp in partitions:
            if (state := self._states.get(tp)) is not None:
                self.drop(state)

    def get(self, tp: TopicPartition) -> PartitionFetchState | None:
        """The state of a followed partition."""
        return self._states.get(tp)

    def values(self) -> ValuesView[PartitionFetchState]:
        """All of them."""
        return self._states.values()

    def current(self, states: StatesByPartition) -> StatesByPartition:
        """Those of ``states`` that were not dropped, or added anew, meanwhile."""
        return {tp: state for tp, state in states.items() if self._states.get(tp) is state}

    def topic_name(self, topic_id: UUID) -> str:
        """The followed topic with that id; empty when there is none."""
        return self._topic_names.get(topic_id, "")

    def __len__(self) -> int:
        return len(self._states)

    # -- what is due ------------------------------------------------------------------------------------------------

    def enqueue(self, state: PartitionFetchState) -> None:
        """Put a partition where the fetcher will find it, by its state."""
        tp = state.topic_partition
        if state.delayed_until_ms is not None or state.is_being_cut:
            return
        if state.is_out_of_range:
            self.out_of_range[tp] = state
        elif state.replica_state is ReplicaState.TRUNCATING:
            self.truncating[tp] = state
        elif not state.is_throttled:
            self.changed[tp] = state

    def leave_session(self, state: PartitionFetchState) -> None:
        """Fetch it no longer for now."""
        self.changed.pop(state.topic_partition, None)
        self.session.forget(state.topic_partition)

    def begin_cut(self, state: PartitionFetchState) -> None:
        """Nothing is asked for it until its log is cut."""
        self.leave_session(state)
        state.is_being_cut = True
        state.must_read_log = True
        state.has_agreed = False

    def end_cut(self, state: PartitionFetchState) -> None:
        """Its log is cut: it is due again."""
        state.is_being_cut = False
        self.enqueue(state)

    def on_error(self, state: PartitionFetchState, error: ErrorCode, now_ms: int) -> list[Effect]:
        """Row R12, for an error the leader answered."""
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.drop(state)
            return [Fenced(state.topic_partition, state.current_leader_epoch)]
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and state.replica_state is ReplicaState.FETCHING:
            self.leave_session(state)
            state.is_out_of_range = True
            self.enqueue(state)
            return []
        return [self.delay(state, error, now_ms)]

    def delay(self, state: PartitionFetchState, error: ErrorCode, now_ms: int) -> Effect:
        """Leave it alone for the back-off (row R8), which begins short and doubles up to its full length.

        Short, because after a change of leaders the follower often hears of it a few milliseconds before the leader
        does, and whoever waits for an ack would wait for the whole back-off.
        """
        until_ms = now_ms + min(self._backoff_ms, FIRST_BACKOFF_MS << min(state.failures, 16))
        state.failures += 1
        self.leave_session(state)
        state.delayed_until_ms = until_ms
        state.asked_epoch = None
        self._delays += 1
        heappush(self._delayed, (until_ms, self._delays, state))
        return Backoff(state.topic_partition, error, until_ms)

    def end_delays(self, now_ms: int) -> None:
        """Whose back-off is over is due again."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, state = heappop(self._delayed)
            if self._states.get(state.topic_partition) is state:
                state.delayed_until_ms = None
                self.enqueue(state)

    @property
    def next_delay_ends_ms(self) -> int | None:
        """When the next back-off is over, if any is on."""
        return self._delayed[0][0] if self._delayed else None

    def fail(self, state: PartitionFetchState, reason: str) -> Effect:
        """Follow it no longer."""
        self.drop(state)
        return MarkFailed(state.topic_partition, reason)

    def drop(self, state: PartitionFetchState) -> None:
        """Forget a state; what was asked for it will find nobody."""
        tp = state.topic_partition
        self.leave_session(state)
        self.truncating.pop(tp, None)
        self.out_of_range.pop(tp, None)
        del self._states[tp]
        self._followed_by_topic[state.topic_id] -= 1
        if not self._followed_by_topic[state.topic_id]:
            del self._followed_by_topic[state.topic_id], self._topic_names[state.topic_id]
