"""The events of one partition: sends, acknowledgements, and the records that each consumer got."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from minikafka.ledger.events import Event, HistoryError


@dataclass(slots=True)
class Run:
    """Records of one consumer from one assignment to the next."""

    start: int | None = None  # its first offset, if the history has it
    is_assigned: bool = False  # False only before a consumer's first assignment
    is_drained: bool = False  # it read to the end, after the last write
    handed: list[tuple[int, str]] = field(default_factory=list)  # (offset, id), in order
    number: int = 0  # of the event of its assignment


class Reader(NamedTuple):
    """A run that read to the end: it had to get every record from ``start`` on that still existed."""

    name: str
    start: int
    highest: int  # offset that it was handed, -1 if nothing
    records: frozenset[str]


@dataclass
class PartitionHistory:
    """The history of one partition. Derived values are computed once, at first use."""

    sent: dict[str, list[str]] = field(default_factory=dict)  # by process, in the order of sending
    sent_ids: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    acknowledged: dict[str, set[int]] = field(
        default_factory=dict
    )  # every known offset at which an id was acknowledged
    acknowledged_at_ms: list[int] = field(default_factory=list)
    offsets_of: dict[str, set[int]] = field(default_factory=dict)  # every offset at which an id was read
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

    def offsets_at(self, record: str) -> set[int]:
        """Every offset at which a record was read or acknowledged."""
        return self.offsets_of.get(record, set()) | self.acknowledged.get(record, set())

    def all_runs(self) -> Iterator[tuple[str, Run]]:
        """(consumer, run) of every run."""
        for consumer, runs in self.runs.items():
            for run in runs:
                yield consumer, run

    def offset_of(self, record: str) -> int | None:
        """The offset of a record, if known."""
        return self._places.get(record)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The offset of each record that has one: the lowest of its acknowledgements, or else of its reads."""
        read = {record: min(offsets) for record, offsets in self.offsets_of.items()}
        return read | {record: min(offsets) for record, offsets in self.acknowledged.items() if offsets}

    @cached_property
    def known_offsets(self) -> list[int]:
        """Every offset at which a record was acknowledged or read, ascending."""
        return sorted(set().union(*self.acknowledged.values(), *self.offsets_of.values()))

    @cached_property
    def readers(self) -> list[Reader]:
        """The runs that read to the end, by name."""
        return [
            Reader(
                consumer,
                run.start or 0,
                max((offset for offset, _ in run.handed), default=-1),
                frozenset(record for _, record in run.handed),
            )
            for consumer, run in sorted(self.all_runs(), key=lambda found: found[0])
            if run.is_drained
        ]

    @cached_property
    def gone(self) -> dict[str, tuple[int | None, Reader]]:
        """Records that a reader had to get and did not: their offset, and that reader.

        Of several readers the first that got later records, else the first.
        """
        found = {}
        handed_by_all = frozenset.intersection(*(reader.records for reader in self.readers)) if self.readers else ()
        for record in self.offsets_of | self.acknowledged:
            if record in handed_by_all:
                continue
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
        offsets = map(self.offset_of, self.acknowledged)
        return sum(offset is not None and offset < self.log_start for offset in offsets)

    def unjudged(self) -> int:
        """Number of acknowledged records that no reader looked for."""
        judged_from = max(min((reader.start for reader in self.readers), default=math.inf), self.log_start)
        offsets = map(self.offset_of, self.acknowledged)
        return sum(judged_from > 0 if offset is None else self.log_start <= offset < judged_from for offset in offsets)


def gather(events: Iterable[Event]) -> dict[str, PartitionHistory]:
    """The events by partition. Raises HistoryError for an invalid history."""
    partitions: dict[str, PartitionHistory] = defaultdict(PartitionHistory)
    for event in events:
        if (known := _KNOWN.get((event.function, event.type))) is None:
            continue
        take, types = known
        if not isinstance(event.value, list | tuple):
            raise HistoryError(f"no {event.function}: {event.value!r} is no list", event.number)
        for item in event.value:
            fields: Sequence[Any] = item if isinstance(item, list | tuple) else (item,)
            if tuple(map(type, fields)) != types:
                fields = _without_start(event, item)
            take(partitions[fields[0]], event, *fields[1:])
    return dict(partitions)


def _without_start(event: Event, item: Any) -> Sequence[Any]:
    """The fields of an assignment without a start. Other items are no good."""
    name, *rest = item if isinstance(item, list | tuple) and item else (item,)
    if event.function == "assign" and isinstance(name, str) and rest in ([], [None]):
        return [name]
    raise HistoryError(f"no {event.function}: {item!r}", event.number)


def _take_send(history: PartitionHistory, event: Event, record: str) -> None:
    if record in history.sent_ids:
        raise HistoryError(f"{record} was sent before: a workload must send each id once", event.number)
    history.sent.setdefault(event.process, []).append(record)
    history.sent_ids.add(record)


def _take_sent(history: PartitionHistory, event: Event, record: str, offset: int) -> None:
    places = history.acknowledged.setdefault(record, set())
    if offset >= 0:
        places.add(offset)
    history.acknowledged_at_ms.append(event.time_ms)


def _take_failed(history: PartitionHistory, event: Event, record: str) -> None:
    history.failed.add(record)


def _take_poll(history: PartitionHistory, event: Event, record: str, offset: int) -> None:
    if offset < 0:
        raise HistoryError(f"no poll: {record!r} cannot have been read at offset {offset}", event.number)
    history.offsets_of.setdefault(record, set()).add(offset)
    history.run(event.process).handed.append((offset, record))


def _take_place(history: PartitionHistory, event: Event, record: str, offset: int) -> None:
    """A read_committed consumer's position is not a matter of this history, which has what others pass over."""
    history.offsets_of.setdefault(record, set()).add(offset)


def _take_assign(history: PartitionHistory, event: Event, start: int | None = None) -> None:
    run = Run(None if start is None else max(start, 0), is_assigned=True, number=event.number)
    history.runs.setdefault(event.process, []).append(run)


def _take_drained(history: PartitionHistory, event: Event) -> None:
    history.run(event.process).is_drained = True


def _take_end_offset(history: PartitionHistory, event: Event, offset: int) -> None:
    history.end_offsets.setdefault(event.process, []).append(offset)


def _take_log_start(history: PartitionHistory, event: Event, offset: int) -> None:
    history.log_start = max(history.log_start, offset)


def _take_resent(history: PartitionHistory, event: Event, record: str) -> None:
    history.resent.add(record)


_KNOWN: Final[dict[tuple[str, str], tuple[Callable[..., None], tuple[type, ...]]]] = {
    ("send", "invoke"): (_take_send, (str, str)),
    ("send", "ok"): (_take_sent, (str, str, int)),
    ("send", "fail"): (_take_failed, (str, str)),
    ("poll", "ok"): (_take_poll, (str, str, int)),
    ("poll_committed", "ok"): (_take_place, (str, str, int)),
    ("assign", "ok"): (_take_assign, (str, int)),  # the start may be missing
    ("drained", "ok"): (_take_drained, (str,)),
    ("end_offset", "ok"): (_take_end_offset, (str, int)),
    ("log_start", "ok"): (_take_log_start, (str, int)),
    ("resent", "ok"): (_take_resent, (str, str)),
}
"""By function and type: who takes an item, and the types of its fields, the partition first."""
