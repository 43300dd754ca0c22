"""The transactions of a history, and what read_committed consumers were handed of each partition.

A *view* is the history of one partition as read_committed consumers must find it: records of committed transactions and
those outside of transactions are promises, those of aborted ones are refused, of others nobody knows. So what is said
of readers in ``checker`` holds for them, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal, NamedTuple

from minikafka.ledger.events import Event, HistoryError
from minikafka.ledger.offsets import UNKNOWN, Offsets
from minikafka.ledger.partition import PartitionHistory, gather, gather_handed

Told = Literal["", "ok", "fail", "info"]


@dataclass(eq=False, slots=True)
class Transaction:
    """One of a producer."""

    name: str
    producer: str
    records: dict[str, str] = field(default_factory=dict)  # id -> partition, in the order of sending
    sent_at: list[int] = field(default_factory=list)  # event of each record
    commit_at: int | None = None  # event at which its commit was first asked for
    told: Told = ""  # of its commit
    handed_at: dict[str, int] = field(default_factory=dict)  # id -> event at which a read_committed consumer got it

    @property
    def is_committed(self) -> bool | None:
        """None: nobody knows. One whose commit was not asked for is not committed."""
        if self.told == "ok":
            return True
        if self.told == "fail" or self.commit_at is None:
            return False
        return True if self.handed_at else None


class Session(NamedTuple):
    """A producer has a transactional id, from the answer to its request on."""

    transactional_id: str
    asked_at: int
    told_at: int


class Copied(NamedTuple):
    """What a record is a copy of, and in whose name it was copied."""

    group: str
    partition: str
    offset: int


@dataclass
class TransactionHistory:
    """A whole history; see ``events`` for what each event has."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    of_record: dict[str, Transaction] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)  # by producer
    copies: dict[str, Copied] = field(default_factory=dict)  # by record
    positions: dict[tuple[str, str], int] = field(default_factory=dict)  # of (group, partition), in the end
    are_positions_told: bool = False  # then a group has committed nothing of a partition that is not named
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)  # partition -> last stable offset, high watermark
    views: Mapping[str, PartitionHistory] = field(default_factory=dict)
    seen: Mapping[str, PartitionHistory] = field(default_factory=dict)  # as consumers see them that see all

    def fenced_at(self) -> dict[str, int]:
        """By producer: the event from which on its transactional id has another one, which asked for it later."""
        of_id = defaultdict[str, list[tuple[str, Session]]](list)
        for producer, session in sorted(self.sessions.items(), key=lambda item: item[1].asked_at):
            of_id[session.transactional_id].append((producer, session))
        found = {}
        for sessions in of_id.values():
            asked_at = [session.asked_at for _, session in sessions]
            told_from = [*accumulate((session.told_at for _, session in reversed(sessions)), min)][::-1]
            for producer, session in sessions:
                later = bisect_right(asked_at, session.told_at)
                if later < len(sessions):
                    found[producer] = told_from[later]
        return found


def gather_transactions(events: Iterable[Event]) -> TransactionHistory:
    """The history of transactions. Raises HistoryError for an invalid one."""
    events = list(events)
    gathering = _Gathering(TransactionHistory(seen=gather(events)))  # the values of sends and polls are right then
    history, takers = gathering.history, gathering.takers()
    for event in events:
        take = takers.get((event.function, event.type))
        if take is not None:
            take(event)
    gathering.look_at_readers()
    for seen in history.seen.values():  # what is refused in a transaction may be there all the same
        seen.failed.difference_update([record for record in seen.failed if record in history.of_record])
    history.views = _views(history, gather_handed(events))
    return history


@dataclass
class _Gathering:
    """The events of a history, one after another."""

    history: TransactionHistory
    asked_at: dict[str, tuple[str, int]] = field(default_factory=dict)  # process: transactional id, event
    current: dict[str, Transaction] = field(default_factory=dict)  # by process
    outside: set[str] = field(default_factory=set)  # records of no transaction
    polls: list[Event] = field(default_factory=list)  # of read_committed consumers

    def takers(self) -> dict[tuple[str, str], Callable[[Event], None]]:
        """Who takes an event, by its function and type."""
        return {
            ("begin", "invoke"): self._take_begin,
            ("send", "invoke"): self._take_send,
            **{("commit", kind): self._take_commit for kind in ("invoke", "ok", "fail", "info")},
            ("take_over", "invoke"): self._take_request,
            ("take_over", "ok"): self._take_session,
            ("copy", "invoke"): self._take_copy,
            ("position", "ok"): self._take_position,
            ("stable_end", "ok"): self._take_stable_end,
            ("poll_committed", "ok"): self.polls.append,
        }

    def look_at_readers(self) -> None:
        """Whose records were handed to read_committed consumers: what is visible was committed."""
        of_record = self.history.of_record
        for event in self.polls:
            for _partition, record, _offset in event.value:
                transaction = of_record.get(record)
                if transaction is not None:
                    transaction.handed_at.setdefault(record, event.number)

    def _take_begin(self, event: Event) -> None:
        for (name,) in event.items(str):
            if name in self.history.transactions:
                raise HistoryError(
                    f"{name} was begun before: a workload must begin each transaction once", event.number
                )
            self.history.transactions[name] = self.current[event.process] = Transaction(name, event.process)

    def _take_send(self, event: Event) -> None:
        """Also outside of transactions: a record that is in two has two fates."""
        of_record, transaction = self.history.of_record, self.current.get(event.process)
        for partition, record in event.value:
            if record in of_record or record in self.outside:
                raise HistoryError(f"{record} was sent before: a workload must send each id once", event.number)
            if transaction is None:
                self.outside.add(record)
            else:
                transaction.records[record] = partition
                transaction.sent_at.append(event.number)
                of_record[record] = transaction

    def _take_commit(self, event: Event) -> None:
        for (name,) in event.items(str):
            transaction = self.history.transactions.get(name)
            if transaction is None:
                raise HistoryError(f"no commit: {name} was not begun", event.number)
            if {transaction.told, event.type} == {"ok", "fail"}:
                raise HistoryError(f"{name} was committed, and was not: its producer is told once", event.number)
            if event.type == "invoke":
                if transaction.commit_at is None:  # a client may ask again, having heard nothing
                    transaction.commit_at = event.number
            elif transaction.told in ("", "info"):
                transaction.told = event.type

    def _take_request(self, event: Event) -> None:
        for (transactional_id,) in event.items(str):
            self.asked_at[event.process] = transactional_id, event.number

    def _take_session(self, event: Event) -> None:
        sessions = self.history.sessions
        for (transactional_id,) in event.items(str):
            if self.asked_at.get(event.process, ("", 0))[0] != transactional_id:
                raise HistoryError(f"{event.process} has not asked for {transactional_id}", event.number)
            if event.process in sessions:
                raise HistoryError(f"{event.process} took over before: a process is one producer", event.number)
            sessions[event.process] = Session(*self.asked_at[event.process], event.number)

    def _take_copy(self, event: Event) -> None:
        for record, group, partition, offset in event.items(str, str, str, int):
            self.history.copies[record] = Copied(group, partition, offset)

    def _take_position(self, event: Event) -> None:
        self.history.are_positions_told = True
        for group, partition, offset in event.items(str, str, int):
            self.history.positions[group, partition] = offset

    def _take_stable_end(self, event: Event) -> None:
        for partition, stable, high_watermark in event.items(str, int, int):
            self.history.ends[partition] = stable, high_watermark


def _views(history: TransactionHistory, handed: Mapping[str, PartitionHistory]) -> dict[str, PartitionHistory]:
    """The partitions as read_committed consumers must find them, by what these were handed of each."""
    promised = _promised(history)
    views = {}
    for partition in history.seen.keys() | handed.keys():
        of_consumers = handed.get(partition, PartitionHistory())
        views[partition] = replace(
            history.seen.get(partition, PartitionHistory()),
            acknowledged=promised[partition],
            offsets_of=of_consumers.offsets_of,
            runs=of_consumers.runs,
        )
    return dict(sorted(views.items()))


def _promised(history: TransactionHistory) -> defaultdict[str, Offsets]:
    """By partition: what was acknowledged outside of transactions, and all of the committed ones."""
    promised = defaultdict[str, Offsets](Offsets)
    promised |= {partition: seen.acknowledged.copy() for partition, seen in history.seen.items()}
    for transaction in history.transactions.values():
        is_committed = transaction.is_committed
        for record, partition in transaction.records.items():
            if is_committed:
                promised[partition].setdefault(record, UNKNOWN)  # also what was not acknowledged by itself
            else:
                promised[partition].discard(record)
    return promised
