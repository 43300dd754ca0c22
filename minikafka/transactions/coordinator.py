"""The coordinator of the transactions of one partition of ``__transaction_state``: a pure machine.

Its life is that of :class:`~minikafka.coordination.phase.Phase`: the driver replays the partition, then the ids are
restored, some at a time, and what was under way goes on. While Active, requests, timers, outcomes of writes and reports
of markers go in, and effects come out, to be carried out in order. A driver that leads again makes a new coordinator.

What holds at the end of every step (the tests check it after each):

- An accepted request is answered exactly once, or waits for a write.
- An id has at most one transition under way. Its state changes when that is committed, and only then is anything
  answered or any marker written: a coordinator that replays the log has the same states.
- The decision of a transaction, once committed, is the only one: all its markers are of one kind.
- Producer id and epoch of an id never fall, and are given to one producer only.
- An id that is ending has markers under way, or its completion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Concatenate, ParamSpec

from minikafka.coordination.effects import Token
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.transactions import beginning, ending, expiry, loading, queries
from minikafka.transactions.effects import Effect, ExpiryTimer, Outcome, Refused, TimerKey, TransactionTimer, WriteTimer
from minikafka.transactions.limits import LimitError, Memory
from minikafka.transactions.records import decode_record
from minikafka.transactions.settings import TransactionSettings
from minikafka.transactions.shard import Shard
from minikafka.transactions.transaction import Transaction, TransactionState
from minikafka.wire.schema import Buffer

P = ParamSpec("P")


class TransactionCoordinator:
    """One shard of the transaction coordinator. `now_ms` is monotonic everywhere.

    The response to a request is an :class:`~minikafka.transactions.effects.Outcome`, as a Respond effect, now or later.
    For the other parameters see :class:`~minikafka.transactions.shard.Shard`.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        wall_clock_ms: Callable[[], int],
        take_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        memory: Memory,
        largest_batch: Callable[[], int],
        knows: Callable[[TopicPartition], bool],
        age_clock_ms: Callable[[], int] | None = None,
    ) -> None:
        self.phase = Phase.LOADING
        age_clock_ms = age_clock_ms or wall_clock_ms
        self.shard = Shard(
            settings,
            wall_clock_ms,
            take_producer_id,
            transaction_version,
            memory,
            largest_batch,
            knows,
            age_clock_ms,
        )
        self._is_replayed = False

    # -- the life of a shard ----------------------------------------------------------------------------------------

    def replay(self, key: Buffer, value: Buffer | None, now_ms: int) -> bool:
        """Apply a record read from the log, in order; False for an unknown type. Raises WireError."""
        assert self.phase is Phase.LOADING
        assert not self._is_replayed
        record = decode_record(key, value)
        if record is None:
            return False
        self.shard.now_ms = now_ms
        transactional_id, transaction = record
        if transaction is None:
            self.shard.replayed.pop(transactional_id, None)
        else:
            self.shard.replayed[transactional_id] = transaction
        return True

    def finish_loading(self, now_ms: int) -> list[Effect]:
        """The log is replayed and committed. Call it until the shard is Active: then requests are served."""
        assert self.phase is Phase.LOADING
        self._is_replayed = True
        effects = self._step(now_ms, loading.restore_some)
        if not self.shard.replayed:
            self.phase = Phase.ACTIVE
        return effects

    def resign(self, now_ms: int) -> list[Effect]:
        """Another broker leads the partition: answer all requests, and ignore outcomes of writes from now on.

        The timers that it has set count no more; there may be one for each of its ids.
        """
        self.phase = Phase.RESIGNED
        return self._step(now_ms, loading.resign)

    def on_committed(self, write_id: int, now_ms: int) -> list[Effect]:
        """The records of a Write are below the high watermark. Call it in the order of the log."""
        return self._step(now_ms, _finish_write, write_id, ErrorCode.NONE) if self._is_alive else []

    def on_write_failed(self, write_id: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The records of a Write were not appended."""
        assert error is not ErrorCode.NONE
        return self._step(now_ms, _finish_write, write_id, error) if self._is_alive else []

    def on_marked(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition], now_ms: int
    ) -> list[Effect]:
        """These partitions have the marker of a SendMarkers, or are there no more."""
        if not self._is_alive:
            return []
        return self._step(now_ms, ending.on_marked, transactional_id, producer, partitions)

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]:
        """A timer fired. A cancelled or replaced one has no effect."""
        return self._step(now_ms, _on_timer, key) if self._is_alive else []

    @property
    def _is_alive(self) -> bool:
        return self._is_replayed and self.phase is not Phase.RESIGNED

    def _step(
        self, now_ms: int, act: Callable[Concatenate[Shard, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> list[Effect]:
        self.shard.now_ms = now_ms
        act(self.shard, *args, **kwargs)
        return self.shard.take_effects()

    # -- requests that are answered by a Respond effect -------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, token: Token, now_ms: int
    ) -> list[Effect]:
        """InitProducerId 0-5 with an id. ``expected``: what the producer was, if it goes on."""
        act = partial(beginning.init_producer_id, self.shard, transactional_id, timeout_ms, expected, token)
        return self._request(transactional_id, act, token, now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        client_version: int,
        token: Token,
        now_ms: int,
    ) -> list[Effect]:
        """One transaction of an AddPartitionsToTxn 0-5, or AddOffsetsToTxn 0-4; the handler has checked the topics."""
        act = partial(
            beginning.add_partitions, self.shard, transactional_id, producer, partitions, client_version, token
        )
        return self._request(transactional_id, act, token, now_ms)

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        client_version: int,
        token: Token,
        now_ms: int,
        *,
        commits: bool,
    ) -> list[Effect]:
        """EndTxn 0-5; a client of version 2 speaks 5 or later."""
        end = ending.end_transaction
        act = partial(end, self.shard, transactional_id, producer, client_version, token, commits=commits)
        return self._request(transactional_id, act, token, now_ms)

    def _request(self, transactional_id: str, act: Callable[[], None], token: Token, now_ms: int) -> list[Effect]:
        try:
            self._check(transactional_id)
            if self.shard.is_overwhelmed:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many writes are under way")
            self.shard.now_ms = now_ms
            act()
        except LimitError as error:
            self.shard.add(Refused(transactional_id, error.message))
            self.shard.respond(token, Outcome(error.code))
        except KafkaError as error:
            self.shard.respond(token, Outcome(error.code))
        return self.shard.take_effects()

    def _check(self, transactional_id: str) -> None:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if self.phase is not Phase.ACTIVE:
            raise KafkaError(self.phase.value, "the coordinator does not serve")

    # -- queries, answered at once ----------------------------------------------------------------------------------

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """One transaction of a verify-only AddPartitionsToTxn 4-5 of a leader."""
        try:
            self._check(transactional_id)
            return beginning.verify_partitions(self.shard, transactional_id, producer, partitions)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)

    def describe(self, transactional_id: str) -> Transaction:
        """One id of a DescribeTransactions 0. KafkaError(TRANSACTIONAL_ID_NOT_FOUND) for an unknown one."""
        self._check(transactional_id)
        transaction = queries.describe(self.shard, transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {transactional_id!r} not found")
        return transaction

    def find(
        self,
        producer_ids: Collection[int] = (),
        states: Collection[TransactionState] = (),
        longer_than_ms: int = queries.ANY_DURATION,
    ) -> Iterator[Transaction | None]:
        """This shard's part of a ListTransactions 0-1, None for each id that is not; nothing unless Active
        (:attr:`phase` tells the error)."""
        if self.phase is not Phase.ACTIVE:
            return iter(())
        return queries.find(self.shard, producer_ids, states, longer_than_ms)


def _finish_write(shard: Shard, write_id: int, error: ErrorCode) -> None:
    for entry in shard.finish_write(write_id, error):
        ending.go_on(shard, entry, error)


def _on_timer(shard: Shard, key: TimerKey) -> None:
    match key:
        case TransactionTimer(transactional_id):
            if transactional_id in shard.entries:
                ending.look_at(shard, shard.entries[transactional_id])
        case WriteTimer(write_id):
            shard.time_out_write(write_id)
        case ExpiryTimer():
            expiry.sweep(shard)
