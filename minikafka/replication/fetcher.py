"""The follower's side of replication (rows R2-R13, E5): one machine per source broker and fetcher id.

The driver's loop is short. It carries out effects in order and has one request at a time under way. It calls
:meth:`next` until that answers :class:`~minikafka.replication.effects.Wait`, or until an answer is awaited::

    while True:
        effects = fetcher.next(now_ms)
        for effect in effects: carry it out     # after Append: on_appended / on_append_failed /
                                                # on_append_put_off / on_ends_gone;
                                                # once TruncateTo, FetchAgain or RestartAt is done: on_cut, some time;
                                                # if it is not begun: on_cut_put_off
        answer of a sent request: effects = on_fetch_response | on_epoch_end_offsets | on_list_offsets(...), carried out
                                  likewise; no answer: on_request_failed

Order of work (row R3): first truncate, then look up the leader's log start and end for partitions that were out of
range, then fetch. The look-ups of both are in :mod:`~minikafka.replication.lookups`. A fetch names only the partitions
whose state changed since the last fetch (:mod:`~minikafka.replication.fetch_session`). Its cost follows the traffic,
not the number of partitions.

Invariants. A partition is fetched only in a leader epoch in which its log was found to be a prefix of the leader's.
Its fetch offset is its log end. An answer counts only while the partition is in the state that asked (row R10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from minikafka.errors import ErrorCode
from minikafka.model import NO_OFFSET, OffsetAndEpoch, TopicPartition
from minikafka.replication import epochs
from minikafka.replication.effects import (
    Append,
    Effect,
    FetchAgain,
    FollowOffsets,
    SendFetch,
    Wait,
)
from minikafka.replication.fetch_session import SESSION_ERRORS
from minikafka.replication.fetch_state import FollowedPartition, PartitionFetchState
from minikafka.replication.fetch_states import FetchStates
from minikafka.replication.lookups import EndsLookup, EpochLookup
from minikafka.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from minikafka.wire.messages.list_offsets import ListOffsetsResponse
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

RETRIED_APPEND_ERRORS: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """The ``replica.fetch.*`` settings: waits and byte limits of a fetch (row R5)."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10 * 1024 * 1024
    max_bytes: int = 1024 * 1024
    backoff_ms: int = 1000


class _Awaited(Enum):
    FETCH = "fetch"
    EPOCH_END_OFFSETS = "epoch end offsets"
    LIST_OFFSETS = "list offsets"


class ReplicaFetcher:
    """All partitions that this broker follows from one source, through one connection."""

    def __init__(
        self,
        source_id: int,
        local_id: int,
        *,
        broker_epoch: int = -1,
        settings: FetcherSettings | None = None,
    ) -> None:
        self.source_id = source_id
        self.broker_epoch = broker_epoch
        self._local_id = local_id
        self._settings = settings or FetcherSettings()
        self._states = FetchStates(self._settings.backoff_ms)
        self._epoch_lookup = EpochLookup(self._states, local_id)
        self._ends_lookup = EndsLookup(self._states, local_id)
        self._backoff_until_ms: int | None = None
        self._awaited: _Awaited | None = None

    # -- which partitions -------------------------------------------------------------------------------------------

    def add_partitions(self, partitions: Iterable[FollowedPartition]) -> None:
        """Follow them from now on. A partition already followed in the same epoch goes on undisturbed."""
        for followed in partitions:
            self._states.add(followed)

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop following them. Answers that arrive for them later are dropped (row R10)."""
        self._states.remove(partitions)

    def throttle(self, partitions: Iterable[TopicPartition]) -> None:
        """Leave them out of fetches until :meth:`unthrottle`: the replication quota is exceeded (row R7)."""
        for tp in partitions:
            if (state := self._states.get(tp)) is not None:
                state.is_throttled = True
                self._states.leave_session(state)

    def unthrottle(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch them again."""
        for tp in partitions:
            if (state := self._states.get(tp)) is not None and state.is_throttled:
                state.is_throttled = False
                self._states.enqueue(state)

    @property
    def is_idle(self) -> bool:
        """No partition is followed: the driver shuts the idle fetcher down (row R9)."""
        return not self._states

    def state(self, tp: TopicPartition) -> PartitionFetchState | None:
        """Fetch state of one partition, for descriptions and tests."""
        return self._states.get(tp)

    def states(self) -> tuple[PartitionFetchState, ...]:
        """Fetch states of all partitions."""
        return tuple(self._states.values())

    # -- what to do -------------------------------------------------------------------------------------------------

    def next(self, now_ms: int) -> list[Effect]:
        """What to do now; empty while an answer is awaited."""
        if self._awaited is not None:
            return []
        if self._backoff_until_ms is not None:
            if now_ms < self._backoff_until_ms:
                return [Wait(self._backoff_until_ms)]
            self._backoff_until_ms = None
        self._states.end_delays(now_ms)
        if self._states.truncating:
            effects = self._epoch_lookup.begin()
            self._awaited = _Awaited.EPOCH_END_OFFSETS if self._states.asked else None
            return effects
        if self._states.out_of_range:
            self._awaited = _Awaited.LIST_OFFSETS
            return [self._ends_lookup.begin()]
        return [self._fetch(now_ms)]

    def on_request_failed(self, now_ms: int) -> None:
        """The request under way got no answer: back off with all partitions, and start a new session."""
        self._backoff_until_ms = now_ms + self._settings.backoff_ms
        self.on_request_abandoned()

    def on_request_abandoned(self) -> None:
        """The driver gave up the request under way for something more urgent: start a new session."""
        awaited, self._awaited = self._awaited, None
        assert awaited is not None, "no request is out"
        if awaited is _Awaited.FETCH:
            self._states.session.on_failed()
        for state in self._states.take_asked().values():
            state.asked_epoch = None
            self._states.enqueue(state)

    # -- look-ups, and cuts -----------------------------------------------------------------------------------------

    def on_epoch_end_offsets(self, response: OffsetForLeaderEpochResponse, now_ms: int) -> list[Effect]:
        """The leader's epoch ends are known."""
        self._on_answer(_Awaited.EPOCH_END_OFFSETS)
        return self._epoch_lookup.on_answer(response, now_ms)

    def on_list_offsets(self, earliest: ListOffsetsResponse, latest: ListOffsetsResponse, now_ms: int) -> list[Effect]:
        """The leader's log starts and ends are known."""
        self._on_answer(_Awaited.LIST_OFFSETS)
        return self._ends_lookup.on_answer(earliest, latest, now_ms)

    def on_cut(self, tp: TopicPartition) -> None:
        """A TruncateTo, FetchAgain or RestartAt is done: the log ends or begins at its offset."""
        state = self._states.get(tp)
        if state is not None and state.is_being_cut:
            self._states.end_cut(state)

    def on_cut_put_off(self, tp: TopicPartition, now_ms: int) -> list[Effect]:
        """It is not known yet whether the log may be cut or restarted: ask the leader again after a back-off."""
        state = self._states.get(tp)
        if state is None or not state.is_being_cut:
            return []
        self._states.end_cut(state)
        return [self._states.delay(state, ErrorCode.OFFSET_OUT_OF_RANGE, now_ms)]

    def on_starts_inside_batch(self, tp: TopicPartition, base_offset: int, now_ms: int) -> list[Effect]:
        """The leader's log begins inside the batch at ``base_offset`` (DeleteRecords), and so does the empty one here:
        begin with the batch, which the leader gives out although it is older than its log. After a back-off: no
        checksum covers a base offset."""
        state = self._states.get(tp)
        if state is None:
            return []
        return [
            self._states.delay(state, ErrorCode.OFFSET_OUT_OF_RANGE, now_ms),
            self._states.restart(state, base_offset),
        ]

    # -- fetching ---------------------------------------------------------------------------------------------------

    def on_fetch_response(self, response: FetchResponse, now_ms: int) -> Iterator[Effect]:
        """Per partition of the answer: apply records and offsets, cut at a divergence, or act on an error.

        Each is looked at when its effect is asked for, to be carried out at once. In between, other things may happen.
        """
        self._on_answer(_Awaited.FETCH)
        error = ErrorCode.of(response.error_code)
        if not self._states.session.on_response(error, response.session_id):
            if error not in SESSION_ERRORS:
                self._backoff_until_ms = now_ms + self._settings.backoff_ms
            return iter(())
        return self._on_data(response, now_ms)

    def _on_data(self, response: FetchResponse, now_ms: int) -> Iterator[Effect]:
        for topic in response.responses:
            name = topic.topic or self._states.topic_name(topic.topic_id)
            for data in topic.partitions:
                effects: list[Effect] = []
                self._on_partition_data(TopicPartition(name, data.partition_index), data, now_ms, effects)
                yield from effects

    def on_appended(self, tp: TopicPartition, log_end_offset: int, last_epoch: int) -> None:
        """The records of an :class:`Append` are in the log. It now ends at ``log_end_offset`` in ``last_epoch``."""
        state = self._states.get(tp)
        if state is not None:
            state.fetch_offset = log_end_offset
            state.last_fetched_epoch = last_epoch
            state.failures = 0
            self._states.enqueue(state)
            self._states.session.move_to_end(tp)

    def on_append_put_off(self, tp: TopicPartition, log_end_offset: int, last_epoch: int, now_ms: int) -> list[Effect]:
        """The node is short of a resource: the log has the records up to ``log_end_offset`` only.

        The rest is fetched again after a back-off.
        """
        state = self._states.get(tp)
        if state is None:
            return []
        state.fetch_offset = log_end_offset
        state.last_fetched_epoch = last_epoch
        return [self._states.delay(state, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)]

    def on_append_failed(self, tp: TopicPartition, error: ErrorCode, now_ms: int) -> list[Effect]:
        """An :class:`Append` failed (row R12): fetch damaged records again; any other error fails the partition."""
        state = self._states.get(tp)
        if state is None:
            return []
        if error in RETRIED_APPEND_ERRORS:
            return [self._states.delay(state, error, now_ms)]
        return [self._states.fail(state, f"appending failed with {error.name}")]

    def on_epochs_fall(self, tp: TopicPartition, epoch: int, now_ms: int) -> list[Effect]:
        """An :class:`Append` failed: its records are of ``epoch``, and those before are of a later one."""
        state = self._states.get(tp)
        if state is None:
            return []
        state.start_truncating()
        state.contradicted_epoch = epoch
        return [self._states.delay(state, ErrorCode.INVALID_RECORD, now_ms)]

    def on_ends_gone(self, tp: TopicPartition, offset: int) -> list[Effect]:
        """An :class:`Append` ended early: the leader has cleaned what follows transactions that are open here."""
        state = self._states.get(tp)
        if state is None:
            return []
        self._states.begin_cut(state)
        return [FetchAgain(tp, offset)]

    def _fetch(self, now_ms: int) -> Effect:
        """One request for all ready partitions; an incremental session names only those that changed (rows R5, R6)."""
        changed, self._states.changed = self._states.changed, {}
        for tp, state in changed.items():
            self._states.session.update(tp, state.topic_id, state.describe(self._settings.max_bytes))
        if not self._states.session:
            return Wait(self._states.next_delay_ends_ms)
        session_id, session_epoch, topics, forgotten = self._states.session.build()
        self._awaited = _Awaited.FETCH
        settings = self._settings
        wait_ms, delay_ends_ms = settings.wait_max_ms, self._states.next_delay_ends_ms
        if delay_ends_ms is not None:
            wait_ms = max(0, min(wait_ms, delay_ends_ms - now_ms))  # return before the delay ends
        return SendFetch(
            FetchRequest(
                replica_id=self._local_id,
                replica_state=ReplicaState(replica_id=self._local_id, replica_epoch=self.broker_epoch),
                max_wait_ms=wait_ms,
                min_bytes=settings.min_bytes,
                max_bytes=settings.response_max_bytes,
                session_id=session_id,
                session_epoch=session_epoch,
                topics=topics,
                forgotten_topics_data=forgotten,
            )
        )

    def _on_partition_data(self, tp: TopicPartition, data: PartitionData, now_ms: int, effects: list[Effect]) -> None:
        state = self._states.get(tp)
        asked = self._states.session.asked(tp)
        if (
            state is None
            or asked is None
            or not state.is_ready_for_fetch
            or asked.fetch_offset != state.fetch_offset
            or asked.current_leader_epoch != state.current_leader_epoch
        ):
            return  # row R10: the partition is no longer in the state that asked
        if data.error_code:
            effects.extend(self._states.on_error(state, ErrorCode.of(data.error_code), now_ms))
        elif state.fetch_offset != state.log.log_end_offset:
            effects.append(
                self._states.fail(
                    state, f"fetched from {state.fetch_offset}, but the log ends at {state.log.log_end_offset}"
                )
            )
        elif data.diverging_epoch is not None:
            effects.append(self._cut_to_divergence(state, data))
        else:
            effects.append(self._apply(state, data))
            if data.log_start_offset > asked.log_start_offset:
                self._states.changed[tp] = state

    def _cut_to_divergence(self, state: PartitionFetchState, data: PartitionData) -> Effect:
        """Cut at the divergence; the next fetch carries the epoch before it (KIP-595)."""
        diverging = data.diverging_epoch
        assert diverging is not None
        end = OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        truncation = epochs.truncation_offset(state.last_fetched_epoch, end, state.log)
        return self._states.cut(state, truncation.offset)

    def _apply(self, state: PartitionFetchState, data: PartitionData) -> Effect:
        state.leader_high_watermark = data.high_watermark
        state.has_agreed = True
        if data.records:
            end_offset = data.records_end_offset if data.records_end_offset != NO_OFFSET else None
            return Append(state.topic_partition, data.records, data.high_watermark, data.log_start_offset, end_offset)
        state.failures = 0
        return FollowOffsets(state.topic_partition, data.high_watermark, data.log_start_offset)

    # -- answers ----------------------------------------------------------------------------------------------------

    def _on_answer(self, awaited: _Awaited) -> None:
        assert self._awaited is awaited, f"{awaited} came while {self._awaited} was awaited"
        self._awaited = None
