"""A produce that waits for replicas (row D4). What waits for bytes is in ``handlers.fetching``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, ZERO_TOPIC_ID, TopicPartition
from minikafka.records.validate import RecordsError
from minikafka.timing.purgatory import DelayedOperation

_WHY: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the partition's leader moved before the ack",
    ErrorCode.KAFKA_STORAGE_ERROR: "the log directory went offline under the append",
}


@dataclass(slots=True, eq=False)
class ProduceResult:
    """Result of one partition's batch: set at append; an error may still replace it."""

    tp: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    required_offset: int = -1
    """The high watermark that acknowledges it; -1 once answered."""
    leader_epoch: int = NO_EPOCH
    """In which it was appended."""
    topic_id: UUID = ZERO_TOPIC_ID
    """As the request named it."""
    wrong_records: Sequence[int] = ()
    """Why the batch was refused, by their indexes in it; none where it is none's fault, or the whole batch's."""

    @classmethod
    def failed(cls, tp: TopicPartition, error: KafkaError) -> ProduceResult:
        """A result with an error from the start."""
        result = cls(tp)
        result.fail(error)
        return result

    def fail(self, error: KafkaError) -> None:
        """Replace the answer by an error."""
        self.error = error.code
        self.message = error.told
        self.wrong_records = error.indexes if isinstance(error, RecordsError) else ()
        self.base_offset = -1
        self.log_append_time = -1
        self.required_offset = -1


class DelayedProduce(DelayedOperation):
    """One request: done when every partition has reached its required offset, or has an error (row D4).

    With acks=all the high watermark has to reach it; with acks=1 the leader's own counted end, which is behind the log
    end only during a sync.
    """

    __slots__ = ("_done", "_find", "_needs_all", "_results", "_waiting")

    def __init__(
        self,
        timeout_ms: int,
        results: Sequence[ProduceResult],
        find: Callable[[TopicPartition], Partition | None],
        done: Callable[[Sequence[ProduceResult]], None],
        *,
        needs_all: bool,
    ) -> None:
        super().__init__(timeout_ms)
        self._needs_all = needs_all
        self._results = results
        self._waiting: dict[TopicPartition, list[ProduceResult]] = {}
        for result in results:
            if result.required_offset >= 0:
                self._waiting.setdefault(result.tp, []).append(result)
        self._find = find
        self._done = done

    def try_complete(self) -> bool:
        """Mark results that are final; complete when all are."""
        for tp in tuple(self._waiting):
            self._mark(tp)
        return not self._waiting and super().force_complete()

    def try_complete_for(self, key: TopicPartition) -> bool:
        """Mark results of this partition; complete when all are final."""
        self._mark(key)
        return not self._waiting and super().force_complete()

    def on_complete(self) -> None:
        self._done(self._results)

    def on_expiration(self) -> None:
        """Nothing more to do: ``on_complete`` has answered waiting results with REQUEST_TIMED_OUT."""

    def expire_waiting(self) -> None:
        """Results that are not final yet timed out."""
        for result in self._results:
            if result.required_offset >= 0:
                result.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not replicated to every in-sync replica in time"))

    def force_complete(self) -> bool:
        """Complete now, with REQUEST_TIMED_OUT for results that are not final yet."""
        if not self.is_completed:
            self.expire_waiting()
        return super().force_complete()

    def _mark(self, tp: TopicPartition) -> None:
        waiting = [result for result in self._waiting.pop(tp, ()) if not self._is_answered(result)]
        if waiting:
            self._waiting[tp] = waiting

    def _is_answered(self, result: ProduceResult) -> bool:
        partition = self._find(result.tp)
        error: ErrorCode | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition is not None:
            error = partition.replica.acknowledgement_of(
                result.required_offset, result.leader_epoch, needs_all=self._needs_all
            )
        if error is None:
            return False
        if error is ErrorCode.NONE:
            result.required_offset = -1
        else:
            result.fail(KafkaError(error, _WHY.get(error, "")))
        return True
