"""The events of one partition: sends, acknowledgements, and the records that each consumer got."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain, filterfalse, islice
from operator import lt
from typing import Final, NamedTuple, TypeAlias

from minikafka.ledger.events import Event, HistoryError
from minikafka.ledger.offsets import UNKNOWN, Offsets


@dataclass(slots=True)
class Run:
    """Records of one consumer from one assignment to the next."""

    start: int | None = None  # its first offset, if the history has it
    is_assigned: bool = False  # False only before a consumer's first assignment
    is_drained: bool = False  # it read to the end, after the last write
    offsets: list[int] = field(default_factory=list)  # of what it was handed, in order
    records: list[str] = field(default_factory=list)
    number: int = 0  # of the event of its assignment

    @property
    def handed(self) -> Iterator[tuple[int, str]]:
        """(offset, id) of each record, in order."""
        return zip(self.offsets, self.records, strict=True)

    def returns(self) -> Iterator[tuple[str, int, int]]:
        """(record, its offset, position) for each that lies before the position at which it was handed."""
        position = self.start or 0
        if not self.offsets or (self.offsets[0] >= position and is_ascending(self.offsets)):
            return
        for offset, record in self.handed:
            if offset < position:
                yield record, offset, position
            position = offset + 1

    def skips(self, known: Sequence[int], log_start: int) -> Iterator[tuple[int, str, int, int]]:
        """(position, record, its offset, offset between) for each time that it went over one of the ``known`` offsets,
        which are ascending, each once. Only of an assigned one; without a start, from its first record on."""
        if not self.is_assigned or not self.offsets:
            return
        position = self.start
        at = bisect_left(known, self.offsets[0] if position is None else max(position, log_start))
        if known[at : at + len(self.offsets)] == self.offsets:  # as nearly all are
            return
        for offset, record in self.handed:
            if position is not None and position < offset:
                following = bisect_left(known, max(position, log_start))
                if following < len(known) and known[following] < offset:
                    yield position, record, offset, known[following]
            position = offset + 1


def is_ascending(offsets: Sequence[int]) -> bool:
    """Whether each is higher than the one before."""
    return all(map(lt, offsets, islice(offsets, 1, None)))


class Reader(NamedTuple):
    """A run that read to the end: it had to get every record from ``start`` on that still existed."""

    name: str
    start: int
    highest: int  # offset that it was handed, -1 if nothing
    records: frozenset[str]


@dataclass
class PartitionHistory:
    """The history of one partition. Derived values are computed once, at first use."""

    sent: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # by process, in order
    sent_ids: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    acknowledged: Offsets = field(default_factory=Offsets)
    acknowledged_at_ms: set[int] = field(default_factory=set)
    offsets_of: Offsets = field(default_factory=Offsets)  # at which ids were read
    runs: dict[str, list[Run]] = field(default_factory=dict)  # by consumer, a run per assignment
    end_offsets: dict[str, list[int]] = field(default_factory=dict)  # by process
    log_start: int = 0  # records below were deleted on purpose
    resent: set[str] = field(default_factory=set)  # their producer sent them more than once

    def run(self, consumer: str) -> Run:
        """Its current run."""
        runs = self.runs.get(consumer)
        if runs is None:
            runs = self.runs[consumer] = [Run()]
        return runs[-1]

    def records_not_in(self, ids: frozenset[str] | set[str]) -> Iterable[str]:
        """The records that were read or acknowledged, without these."""
        return dict.fromkeys(filterfalse(ids.__contains__, chain(self.offsets_of, self.acknowledged)))

    def offsets_at(self, record: str) -> set[int]:
        """Every offset at which a record was read or acknowledged."""
        return self.offsets_of.all_of(record) | self.acknowledged.all_of(record)

    def records_at_several(self) -> Iterator[str]:
        """Every record that was read or acknowledged at more than one offset."""
        several = self.offsets_of.several.keys() | self.acknowledged.several.keys()
        for record, offset in self.offsets_of.items() if several else self.unconfirmed:
            if record in several or self.acknowledged.get(record, UNKNOWN) not in (offset, UNKNOWN):
                yield record
        for record in self.acknowledged.several:
            if record not in self.offsets_of:
                yield record

    def all_runs(self) -> Iterator[tuple[str, Run]]:
        """(consumer, run) of every run."""
        for consumer, runs in self.runs.items():
            for run in runs:
                yield consumer, run

    def offset_of(self, record: str) -> int | None:
        """The offset of a record, if known: the lowest of its acknowledgements, or else of its reads."""
        offset = self.acknowledged.get(record, UNKNOWN)
        if offset == UNKNOWN:
            offset = self.offsets_of.get(record, UNKNOWN)
        return None if offset == UNKNOWN else offset

    @cached_property
    def known_offsets(self) -> list[int]:
        """Every offset at which a record was acknowledged or read, ascending."""
        return sorted({*self.acknowledged.all(), *self.offsets_of.all()})

    @cached_property
    def unconfirmed(self) -> list[tuple[str, int]]:
        """The records with the offset at which they were read, if they were not acknowledged there; of those at several
        offsets the lowest counts."""
        return list(filterfalse(self.acknowledged.items().__contains__, self.offsets_of.items()))

    @cached_property
    def readers(self) -> list[Reader]:
        """The runs that read to the end, by name."""
        return [
            Reader(
                consumer,
                run.start or 0,
                max(run.offsets, default=-1),
                frozenset(run.records),
            )
            for consumer, run in sorted(self.all_runs(), key=lambda found: found[0])
            if run.is_drained
        ]

    @cached_property
    def gone(self) -> dict[str, tuple[int | None, Reader]]:
        """Records that a reader had to get and did not: their offset, and that reader.

        Of several readers the first that got later records, else the first.
        """
        if not self.readers:
            return {}
        found = {}
        handed_by_all = reduce(frozenset.__and__, (reader.records for reader in self.readers))
        for record in self.records_not_in(handed_by_all):
            offset = self.offset_of(record)
            missed = [
                reader for reader in self.readers if self.must_hand(reader, offset) and record not in reader.records
            ]
            if missed:
                passed = (reader for reader in missed if offset is None or reader.highest > offset)
                found[record] = (offset, next(passed, missed[0]))
        return found

    def must_hand(self, reader: Reader, offset: int | None) -> bool:
        """True when the reader must have got the record at that offset (None: unknown)."""
        return (0 if offset is None else offset) >= max(reader.start, self.log_start)

    def deleted(self) -> int:
        """Number of acknowledged records that were deleted on purpose, so that no reader had to get them."""
        if not self.log_start:
            return 0
        offsets = map(self.offset_of, self.acknowledged)
        return sum(offset is not None and offset < self.log_start for offset in offsets)

    def unjudged(self) -> int:
        """Number of acknowledged records that no reader looked for."""
        judged_from = max(min((reader.start for reader in self.readers), default=math.inf), self.log_start)
        if not judged_from:
            return 0
        offsets = map(self.offset_of, self.acknowledged)
        return sum(judged_from > 0 if offset is None else self.log_start <= offset < judged_from for offset in offsets)


Partitions: TypeAlias = defaultdict[str, PartitionHistory]
Takers: TypeAlias = dict[tuple[str, str], Callable[[Partitions, Event], None]]


def gather(events: Iterable[Event]) -> dict[str, PartitionHistory]:
    """The events by partition. Raises HistoryError for an invalid history."""
    return _gathered(events, _TAKEN)


def gather_handed(events: Iterable[Event]) -> dict[str, PartitionHistory]:
    """What read_committed consumers were handed of each partition, and nothing else."""
    return _gathered(events, _OF_COMMITTED)


def without_isolation(events: Iterable[Event]) -> dict[str, PartitionHistory]:
    """The events by partition, as if all consumers were of one kind: without transactions they are."""
    return _gathered(events, _TAKEN | _OF_COMMITTED)


def _gathered(events: Iterable[Event], takers: Takers) -> dict[str, PartitionHistory]:
    partitions: Partitions = defaultdict(PartitionHistory)
    for event in events:
        take = takers.get((event.function, event.type))
        if take is not None:
            take(partitions, event)
    return dict(partitions)


def _take_send(partitions: Partitions, event: Event) -> None:
    process = event.process
    for partition, record in event.named():
        history = partitions[partition]
        if record in history.sent_ids:
            raise HistoryError(f"{record} was sent before: a workload must send each id once", event.number)
        history.sent[process].append(record)
        history.sent_ids.add(record)


def _take_sent(partitions: Partitions, event: Event) -> None:
    time_ms = event.time_ms
    for partition, record, offset in event.placed():
        history = partitions[partition]
        history.acknowledged.add(record, offset if offset > UNKNOWN else UNKNOWN)
        history.acknowledged_at_ms.add(time_ms)


def _take_failed(partitions: Partitions, event: Event) -> None:
    for partition, record in event.named():
        partitions[partition].failed.add(record)


def _take_poll(partitions: Partitions, event: Event) -> None:
    process = event.process
    for partition, record, offset in event.placed():
        if offset < 0:
            raise HistoryError(f"no poll: {record!r} cannot have been read at offset {offset}", event.number)
        history = partitions[partition]
        history.offsets_of.add(record, offset)
        run = history.run(process)
        run.offsets.append(offset)
        run.records.append(record)


def _take_place(partitions: Partitions, event: Event) -> None:
    """A read_committed consumer's position is not a matter of this history, which has what others pass over."""
    for partition, record, offset in event.placed():
        partitions[partition].offsets_of.add(record, offset)


def _take_assign(partitions: Partitions, event: Event) -> None:
    for item in event.listed():
        match item:
            case str(partition) | [str(partition)] | [str(partition), None]:
                start = None
            case [str(partition), start] if type(start) is int and start >= 0:
                pass
            case _:
                raise event.wrong(item)
        run = Run(start, is_assigned=True, number=event.number)
        partitions[partition].runs.setdefault(event.process, []).append(run)


def _take_drained(partitions: Partitions, event: Event) -> None:
    for (partition,) in event.items(str):
        partitions[partition].run(event.process).is_drained = True


def _take_end_offset(partitions: Partitions, event: Event) -> None:
    for partition, offset in event.items(str, int):
        partitions[partition].end_offsets.setdefault(event.process, []).append(offset)


def _take_log_start(partitions: Partitions, event: Event) -> None:
    for partition, offset in event.items(str, int):
        history = partitions[partition]
        history.log_start = max(history.log_start, offset)


def _take_resent(partitions: Partitions, event: Event) -> None:
    for partition, record in event.named():
        partitions[partition].resent.add(record)


_TAKEN: Final[Takers] = {
    ("send", "invoke"): _take_send,
    ("send", "ok"): _take_sent,
    ("send", "fail"): _take_failed,
    ("poll", "ok"): _take_poll,
    ("poll_committed", "ok"): _take_place,
    ("assign", "ok"): _take_assign,
    ("drained", "ok"): _take_drained,
    ("end_offset", "ok"): _take_end_offset,
    ("log_start", "ok"): _take_log_start,
    ("resent", "ok"): _take_resent,
}
_OF_COMMITTED: Final[Takers] = {
    ("poll_committed", "ok"): _take_poll,
    ("assign_committed", "ok"): _take_assign,
    ("drained_committed", "ok"): _take_drained,
}
"""Who takes an event, by its function and type."""
