"""The state of one transaction coordinator and the outbox of the step that is running.

A step (a request, a timer, a completed write, a marker) runs to its end without suspending. An entry has the last
*committed* value of its id and at most one *pending*, whose record is on its way. Only when that is committed does it
replace the other, and only then does its `done` run, which answers the request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from minikafka.coordination.effects import NOT_WRITTEN, CancelTimer, Respond, SetTimer, Token, Write
from minikafka.errors import ErrorCode
from minikafka.model import NO_PRODUCER_EPOCH, TopicPartition
from minikafka.transactions.effects import AskAgain, Effect, Outcome, TimerKey, TransactionTimer, WriteLarge, WriteTimer
from minikafka.transactions.limits import ID_BYTES, PARTITION_BYTES, Memory
from minikafka.transactions.records import AT_ONCE, encode_tombstone, encode_transaction
from minikafka.transactions.settings import TransactionSettings
from minikafka.transactions.transaction import ENDING, Transaction, TransactionState

PARTITIONS_OF_WEIGHT: Final = 50
"""Of a transaction: they cost as much as a timer for one more."""

Done = Callable[[ErrorCode], None]
"""Called once per write: with NONE once it is committed, else with what the client is told."""

_NOT_WRITTEN: Final = NOT_WRITTEN | {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


@dataclass(slots=True, eq=False)
class Entry:
    """A transactional id."""

    transaction: Transaction
    pending: Transaction | None = None
    expires_ms: int = 0
    """Monotonic: when its transaction, if one is Ongoing, has taken too long."""
    timer_ms: int | None = None
    """When its timer fires. It is left alone when a transaction ends, and set again when it fires: most need none."""
    timer_weight: int = 1
    """A large transaction takes longer to end."""
    idle_since_ms: int = 0
    """Monotonic: when its last transition was committed."""
    is_awaited: bool = False
    """Its producer has asked for the next transaction, which has not begun, for whatever reason."""
    has_waiting: bool = False
    """Partitions were not added because of what is under way: whoever adds them asks again when told to."""
    held_bytes: int = 0
    """What it takes, as :class:`~minikafka.transactions.limits.Memory` has counted it."""

    @property
    def transactional_id(self) -> str:
        """Its name."""
        return self.transaction.transactional_id

    @property
    def has_unwritten_end(self) -> bool:
        """Every partition has its marker, but the completion was not written: it will be tried again."""
        return self.pending is None and self.transaction.state in ENDING and not self.transaction.partitions


@dataclass(slots=True)
class _PendingWrite:
    entries: tuple[Entry, ...]
    done: Done | None
    """None once it has run because the write took too long."""


@dataclass(slots=True)
class Shard:
    """The state of the coordinator of one partition of ``__transaction_state``."""

    settings: TransactionSettings
    wall_clock_ms: Callable[[], int]
    take_producer_id: Callable[[], int]
    """A fresh one. KafkaError(COORDINATOR_LOAD_IN_PROGRESS) when none is at hand; there will be soon."""
    transaction_version: Callable[[], int]
    """Of the cluster: for what no client has asked for."""
    memory: Memory
    largest_batch: Callable[[], int]
    """Bytes that the log takes at once."""
    knows: Callable[[TopicPartition], bool]
    """This node has heard of the partition. One that it has not heard of gets no marker: it counts as deleted."""
    age_clock_ms: Callable[[], int]
    """How old stamps of other coordinators are, by this node."""
    now_ms: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    replayed: dict[str, Transaction] = field(default_factory=dict)
    """What the log said, while loading."""
    unswept: deque[str] = field(default_factory=deque)
    """Ids that the sweep under way has yet to look at."""
    next_expiry_ms: int = 0
    _writes: dict[int, _PendingWrite] = field(default_factory=dict)
    _effects: list[Effect] = field(default_factory=list)
    _next_write_id: int = 0

    def take_effects(self) -> list[Effect]:
        """The effects of the step that ends here."""
        effects, self._effects = self._effects, []
        return effects

    def add(self, effect: Effect) -> None:
        """Have this carried out."""
        self._effects.append(effect)

    def respond(self, token: Token, outcome: Outcome) -> None:
        """Answer the request of `token`."""
        self._effects.append(Respond(token, outcome))

    def set_timer(self, key: TimerKey, deadline_ms: int, weight: int = 1) -> None:
        """Ask for a call with `key` at `deadline_ms`."""
        self._effects.append(SetTimer(key, deadline_ms, weight))

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancel the call with `key`."""
        self._effects.append(CancelTimer(key))

    def let_ask_again(self, entry: Entry) -> None:
        """What the entry's additions were refused for is over."""
        if entry.has_waiting:
            entry.has_waiting = False
            self._effects.append(AskAgain(entry.transactional_id))

    def wake(self, entry: Entry, at_ms: int) -> None:
        """Have the entry looked at then, or before."""
        at_ms = max(at_ms, self.now_ms)
        weight = 1 + len(entry.transaction.partitions) // PARTITIONS_OF_WEIGHT
        if entry.timer_ms is None or at_ms < entry.timer_ms or weight > entry.timer_weight:
            entry.timer_ms = at_ms if entry.timer_ms is None else min(at_ms, entry.timer_ms)
            entry.timer_weight = weight
            self.set_timer(TransactionTimer(entry.transactional_id), entry.timer_ms, weight)

    # -- memory -----------------------------------------------------------------------------------------------------

    def count(self, entry: Entry) -> None:
        """Count what the entry takes now."""
        now, to = entry.transaction, entry.pending
        partitions = max(len(now.partitions), 0 if to is None else len(to.partitions))
        held = ID_BYTES + len(now.transactional_id) + PARTITION_BYTES * partitions
        self.memory.held_bytes += held - entry.held_bytes
        entry.held_bytes = held

    def forget(self, entry: Entry) -> None:
        """It is an entry no more."""
        del self.entries[entry.transactional_id]
        self.memory.held_bytes -= entry.held_bytes
        entry.held_bytes = 0

    # -- writes -----------------------------------------------------------------------------------------------------

    def transit(self, entry: Entry, to: Transaction, done: Done) -> None:
        """Write a transition (row T1). It is true, and ``done`` runs, once it is committed.

        An entry has one at a time, so there are never more writes under way than ids.
        """
        write_id = self._begin((entry,), (to,), done)
        is_large = len(to.partitions) > AT_ONCE
        self._effects.append(WriteLarge(write_id, to) if is_large else Write(write_id, (encode_transaction(to),)))

    def bury(self, entries: tuple[Entry, ...]) -> None:
        """Write tombstones of ids that have expired. If that fails, the next sweep does it."""
        dead = tuple(entry.transaction.dead() for entry in entries)
        records = tuple(encode_tombstone(entry.transactional_id) for entry in entries)
        self._effects.append(Write(self._begin(entries, dead, lambda _error: None), records))

    def _begin(self, entries: tuple[Entry, ...], to: tuple[Transaction, ...], done: Done) -> int:
        """These are pending. Returns the id for the effect that writes them."""
        for entry, pending in zip(entries, to, strict=True):
            assert entry.pending is None, f"{entry.transactional_id} has a transition under way"
            entry.pending = pending
            self.count(entry)
        write_id, self._next_write_id = self._next_write_id, self._next_write_id + 1
        self._writes[write_id] = _PendingWrite(entries, done)
        self.set_timer(WriteTimer(write_id), self.now_ms + self.settings.write_timeout_ms)
        return write_id

    @property
    def is_overwhelmed(self) -> bool:
        """The log takes less than clients want written."""
        return len(self._writes) >= self.settings.writes_in_flight_max

    def finish_write(self, write_id: int, error: ErrorCode) -> tuple[Entry, ...]:
        """A write is committed, or was not appended. Returns its entries, which are at rest again."""
        write = self._writes.pop(write_id)
        for entry in write.entries:
            pending, entry.pending = entry.pending, None
            assert pending is not None
            if error is ErrorCode.NONE:
                self._become(entry, pending)
            elif entry.transaction.producer_epoch == NO_PRODUCER_EPOCH:
                self.forget(entry)  # it never had a record
            if self.entries.get(entry.transactional_id) is entry:
                self.count(entry)
            self.let_ask_again(entry)
        if write.done is not None:
            self.cancel_timer(WriteTimer(write_id))
            write.done(_NOT_WRITTEN.get(error, error))
        return write.entries

    def _become(self, entry: Entry, new: Transaction) -> None:
        old = entry.transaction.state
        entry.transaction, entry.idle_since_ms = new, self.now_ms
        if new.state is TransactionState.ONGOING and old is not TransactionState.ONGOING:
            entry.expires_ms = self.now_ms + new.timeout_ms
            entry.is_awaited = False
        elif new.state is TransactionState.DEAD:
            self.forget(entry)
            if entry.timer_ms is not None:
                self.cancel_timer(TransactionTimer(entry.transactional_id))

    def time_out_write(self, write_id: int) -> None:
        """Let nobody wait for a write any longer. It stays pending: its record is in the log."""
        write = self._writes.get(write_id)
        if write is not None and write.done is not None:
            done, write.done = write.done, None
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def fail_writes(self) -> None:
        """Another broker leads the shard: its log decides what becomes of them."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            if write.done is not None:
                write.done(ErrorCode.NOT_COORDINATOR)
