"""The transactions of a history, and what read_committed consumers were handed of each partition.

A *view* is the history of one partition as read_committed consumers must find it: records of committed transactions and
those outside of transactions are promises, those of aborted ones are refused, of others nobody knows. So what is said
of readers in ``checker`` holds for them, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from minikafka.ledger.events import COMMITTED, Event, HistoryError
from minikafka.ledger.offsets import UNKNOWN, Offsets
from minikafka.ledger.partition import PartitionHistory, gather

Told = Literal["", "ok", "fail", "info"]


@dataclass(eq=False)
class Transaction:
    """One of a producer."""

    name: str
    producer: str
    records: dict[str, str] = field(default_factory=dict)  # id -> partition, in the order of sending
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
    sent_at: dict[str, int] = field(default_factory=dict)  # by record
    sessions: dict[str, Session] = field(default_factory=dict)  # by producer
    copies: dict[str, Copied] = field(default_factory=dict)  # by record
    positions: dict[tuple[str, str], int] = field(default_factory=dict)  # of (group, partition), in the end
    are_positions_told: bool = False  # then a group has committed nothing of a partition that is not named
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)  # partition -> last stable offset, high watermark
    views: Mapping[str, PartitionHistory] = field(default_factory=dict)
    seen: Mapping[str, PartitionHistory] = field(default_factory=dict)  # as consumers see them that see all

    def fenced_at(self, producer: str) -> int | None:
        """The event from which on its transactional id has another producer, which asked for it later; None: never."""
        mine = self.sessions.get(producer)
        if mine is None:
            return None
        later = [
            each.told_at
            for each in self.sessions.values()
            if each.transactional_id == mine.transactional_id and each.asked_at > mine.told_at
        ]
        return min(later, default=None)


def gather_transactions(events: Iterable[Event]) -> TransactionHistory:
    """The history of transactions. Raises HistoryError for an invalid one."""
    events = list(events)
    history = TransactionHistory(seen=gather(events))  # looks at the values of sends and polls: they are right
    asked_at: dict[str, tuple[str, int]] = {}
    current: dict[str, Transaction] = {}
    for event in events:
        match event.function, event.type:
            case "begin", "invoke":
                for (name,) in event.items(str):
                    if name in history.transactions:
                        raise HistoryError(
                            f"{name} was begun before: a workload must begin each transaction once", event.number
                        )
                    history.transactions[name] = current[event.process] = Transaction(name, event.process)
            case "send", "invoke":
                _take_send(history, event, current.get(event.process))
            case "commit", kind:
                for (name,) in event.items(str):
                    _take_commit(history, event, name, kind)
            case "take_over", "invoke":
                for (transactional_id,) in event.items(str):
                    asked_at[event.process] = transactional_id, event.number
            case "take_over", "ok":
                for (transactional_id,) in event.items(str):
                    if asked_at.get(event.process, ("", 0))[0] != transactional_id:
                        raise HistoryError(f"{event.process} has not asked for {transactional_id}", event.number)
                    if event.process in history.sessions:
                        raise HistoryError(f"{event.process} took over before: a process is one producer", event.number)
                    history.sessions[event.process] = Session(*asked_at[event.process], event.number)
            case "copy", "invoke":
                for record, group, partition, offset in event.items(str, str, str, int):
                    history.copies[record] = Copied(group, partition, offset)
            case "position", "ok":
                history.are_positions_told = True
                for group, partition, offset in event.items(str, str, int):
                    history.positions[group, partition] = offset
            case "stable_end", "ok":
                for partition, stable, high_watermark in event.items(str, int, int):
                    history.ends[partition] = stable, high_watermark
    _look_at_readers(history, events)
    for seen in history.seen.values():  # what is refused in a transaction may be there all the same
        seen.failed.difference_update([record for record in seen.failed if record in history.of_record])
    history.views = _views(history, gather(without_isolation(event for event in events if event.function in COMMITTED)))
    return history


def _take_send(history: TransactionHistory, event: Event, transaction: Transaction | None) -> None:
    """Also outside of transactions: a record that is in two has two fates."""
    for partition, record in event.value:
        if record in history.sent_at:
            raise HistoryError(f"{record} was sent before: a workload must send each id once", event.number)
        history.sent_at[record] = event.number
        if transaction is not None:
            transaction.records[record] = partition
            history.of_record[record] = transaction


def _take_commit(history: TransactionHistory, event: Event, name: str, kind: str) -> None:
    transaction = history.transactions.get(name)
    if transaction is None:
        raise HistoryError(f"no commit: {name} was not begun", event.number)
    if {transaction.told, kind} == {"ok", "fail"}:
        raise HistoryError(f"{name} was committed, and was not: its producer is told once", event.number)
    if kind == "invoke":
        if transaction.commit_at is None:  # a client may ask again, having heard nothing
            transaction.commit_at = event.number
    elif transaction.told in ("", "info"):
        transaction.told = kind  # type: ignore[assignment]


def _look_at_readers(history: TransactionHistory, events: Iterable[Event]) -> None:
    """Whose records were handed to read_committed consumers: what is visible was committed."""
    for event in events:
        if (event.function, event.type) == ("poll_committed", "ok"):
            for _partition, record, _offset in event.value:
                transaction = history.of_record.get(record)
                if transaction is not None:
                    transaction.handed_at.setdefault(record, event.number)


def without_isolation(events: Iterable[Event]) -> Iterator[Event]:
    """The events as if all consumers were of one kind: without transactions they are."""
    for event in events:
        yield event._replace(function=COMMITTED.get(event.function, event.function))


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
