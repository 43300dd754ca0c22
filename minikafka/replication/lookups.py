"""Look-ups at the leader before a partition is fetched: where its log differs, where the leader's starts and ends.

**The end of an epoch** (rows R4, E5). A new partition asks the leader for the end of its latest epoch and cuts its log
there. It asks again while the epoch of the answer is unknown here
(:func:`~minikafka.replication.epochs.truncation_offset`). A log without any epoch is cut to its high watermark. After
that every fetch carries the last epoch, and the leader answers with the point of divergence instead of records when the
logs differ (KIP-595).

A wrong epoch may be one that the leader has from a later offset on: no checksum covers the epoch of a batch. Then the
leader sees no divergence, and sends records of an earlier epoch. So the partition looks up the end of that earlier
epoch. If it is behind the place where the local log leaves that epoch, the local log is cut there, or found damaged
(:meth:`LocalReplica.truncate`). Otherwise the epoch of the sent records is wrong, and the leader finds out.

A look-up alone never cuts below the high watermark (row R26): either one of the two logs is damaged, or an election
was unclean. The partition is fetched with its high watermark instead (KIP-1166), and the leader judges. If the
leader's log is the damaged one it refuses the fetch; otherwise it answers with the divergence once more.

**Log start and log end** (row R13), of a partition whose fetch offset is out of range: the local log is cut to the
leader's end, begins anew at its start, or is looked at for a divergence.
"""

from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.model import EARLIEST, LATEST, NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.replication import epochs
from minikafka.replication.effects import Effect, SendListOffsets, SendOffsetsForLeaderEpoch
from minikafka.replication.fetch_state import PartitionFetchState
from minikafka.replication.fetch_states import FetchStates
from minikafka.wire.messages.list_offsets import ListOffsetsResponse
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from minikafka.wire.offset_questions import (
    EpochQuestion,
    TimeQuestion,
    epoch_answers,
    epoch_request,
    offset_answers,
    offsets_request,
)


class EpochLookup:
    """Of all partitions that are truncating, in one request."""

    def __init__(self, states: FetchStates, local_id: int) -> None:
        self._states = states
        self._local_id = local_id

    def begin(self) -> list[Effect]:
        """Cut logs without an epoch to their high watermark; ask the leader about the others (row R4)."""
        effects: list[Effect] = []
        questions: dict[TopicPartition, EpochQuestion] = {}
        due, self._states.truncating = self._states.truncating, {}
        for tp, state in due.items():
            latest_epoch = state.log.latest_epoch
            if latest_epoch == NO_EPOCH:
                state.start_fetching()
                effects.append(self._states.cut(state, min(state.log.high_watermark, state.log.log_end_offset)))
            elif state.contradicted_epoch is not None:
                questions[tp] = self._question(state, state.contradicted_epoch)
            elif state.asked_epoch is not None and latest_epoch >= state.asked_epoch:
                effects.append(
                    self._states.fail(state, f"epoch {latest_epoch} is still there after the log was cut to before")
                )
            else:
                questions[tp] = self._question(state, latest_epoch)
        if questions:
            effects.append(SendOffsetsForLeaderEpoch(epoch_request(self._local_id, questions)))
        return effects

    def on_answer(self, response: OffsetForLeaderEpochResponse, now_ms: int) -> list[Effect]:
        """The leader's epoch ends are known: cut, then fetch, or ask again about an earlier epoch (row E5)."""
        asked = self._states.take_asked()
        effects: list[Effect] = []
        for tp, (error, end) in epoch_answers(response):
            state = asked.pop(tp, None)
            if state is None:
                continue
            if error is ErrorCode.NONE:
                effects.extend(self._cut_to_common(state, end))
            else:
                effects.extend(self._states.on_error(state, error, now_ms))
        effects.extend(self._states.delay(state, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms) for state in asked.values())
        return effects

    def _question(self, state: PartitionFetchState, epoch: int) -> EpochQuestion:
        state.asked_epoch = epoch
        self._states.asked[state.topic_partition] = state
        return EpochQuestion(epoch, state.current_leader_epoch)

    def _cut_to_common(self, state: PartitionFetchState, end: OffsetAndEpoch) -> list[Effect]:
        assert state.asked_epoch is not None
        if state.contradicted_epoch is not None:
            return self._cut_to_contradiction(state, state.contradicted_epoch, end)
        truncation = epochs.truncation_offset(state.asked_epoch, end, state.log)
        if truncation.offset < state.log.high_watermark:
            state.start_fetching()
            self._states.enqueue(state)
            return []
        if truncation.is_complete:
            state.start_fetching()
        return [self._states.cut(state, truncation.offset)]

    def _cut_to_contradiction(self, state: PartitionFetchState, epoch: int, end: OffsetAndEpoch) -> list[Effect]:
        """The leader's records of ``epoch`` and before end at ``end``: no later ones may begin here before that."""
        log = state.log
        ours = log.end_offset_for_epoch(epoch)
        offset = log.log_start_offset if ours.epoch == NO_EPOCH else ours.offset
        state.start_fetching()
        if offset < min(end.offset, log.log_end_offset):
            return [self._states.cut(state, offset)]
        self._states.enqueue(state)
        return []


class EndsLookup:
    """Of all partitions that are out of range, in two requests."""

    def __init__(self, states: FetchStates, local_id: int) -> None:
        self._states = states
        self._local_id = local_id

    def begin(self) -> Effect:
        """Ask the leader for its log starts and log ends."""
        self._states.asked, self._states.out_of_range = self._states.out_of_range, {}
        earliest, latest = (
            {tp: TimeQuestion(timestamp, state.current_leader_epoch) for tp, state in self._states.asked.items()}
            for timestamp in (EARLIEST, LATEST)
        )
        return SendListOffsets(offsets_request(self._local_id, earliest), offsets_request(self._local_id, latest))

    def on_answer(self, earliest: ListOffsetsResponse, latest: ListOffsetsResponse, now_ms: int) -> list[Effect]:
        """The leader's log start and end are known (row R13): cut to its end, restart, or look for divergence."""
        asked = self._states.take_asked()
        latest_of = dict(offset_answers(latest))
        effects: list[Effect] = []
        for tp, (error, log_start) in offset_answers(earliest):
            state = asked.pop(tp, None)
            end = latest_of.get(tp)
            if state is None or end is None:
                continue
            if error is not ErrorCode.NONE or end.error is not ErrorCode.NONE:
                effects.extend(self._states.on_error(state, error or end.error, now_ms))
            else:
                effects.append(self._come_into_range(state, log_start.offset, end.found.offset, now_ms))
        effects.extend(self._states.delay(state, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms) for state in asked.values())
        return effects

    def _come_into_range(
        self, state: PartitionFetchState, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> Effect:
        if log_start_offset > state.log.log_end_offset:
            return self._states.restart(state, log_start_offset)
        state.start_truncating()
        if log_end_offset < state.log.log_end_offset:
            return self._states.cut(state, log_end_offset)
        return self._states.delay(state, ErrorCode.OFFSET_OUT_OF_RANGE, now_ms)
