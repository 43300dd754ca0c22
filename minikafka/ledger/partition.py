"""The events of one partition: sends, acknowledgements, and the records that each consumer got."""

from __future__ import annotations

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

    def run(self, consumer: str) -> Run:
        """Its current run."""
        return self.runs.setdefault(consumer, [Run()])[-1]

    def all_runs(self) -> Iterator[tuple[str, Run]]:
        """(consumer, run) of every run."""
        for consumer, runs in self.runs.items():
            for run in runs:
                yield consumer, run

    def offset_of(self, record: str) -> int | None:
        """The offset of a record, if known."""
        return min(self.acknowledged.get(record) or self.offsets_of.get(record) or (), default=None)

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
        for record in self.offsets_of | self.acknowledged:
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

    def unjudged(self) -> int:
        """Number of acknowledged records that no reader looked for."""
        return sum(not self._is_judged(self.offset_of(record)) for record in self.acknowledged)

    def _is_judged(self, offset: int | None) -> bool:
        is_deleted = offset is not None and offset < self.log_start
        return is_deleted or any(self.must_hand(reader, offset) for reader in self.readers)


def gather(events: Iterable[Event]) -> dict[str, PartitionHistory]:
    """The events by partition. Raises HistoryError for an invalid history."""
    partitions: dict[str, PartitionHistory] = defaultdict(PartitionHistory)
    for event in events:
        if take := _TAKERS.get(f"{event.function} {event.type}"):
            for name, fields in _items(event):
                take(partitions[name], event, *fields)
    return dict(partitions)


def _items(event: Event) -> Iterator[tuple[str, Sequence[Any]]]:
    """(partition, the rest of the item) for each item of an event."""
    if not isinstance(event.value, list | tuple):
        raise HistoryError(f"event {event.number} is no {event.function}: {event.value!r} is no list")
    types = _FIELDS_OK[event.function] if event.type == "ok" else _FIELDS[event.function]
    for item in event.value:
        name, *fields = item if isinstance(item, list | tuple) and item else (item,)
        has_no_start = event.function == "assign" and fields in ([], [None])
        if not isinstance(name, str) or ([*map(type, fields)] != types and not has_no_start):
            raise HistoryError(f"event {event.number} is no {event.function}: {item!r}")
        yield name, [] if has_no_start else fields


def _take_send(history: PartitionHistory, event: Event, record: str) -> None:
    if record in history.sent_ids:
        raise HistoryError(f"{record} was sent twice: a workload must send each id once")
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
        raise HistoryError(f"event {event.number} is no poll: {record!r} cannot have been read at offset {offset}")
    history.offsets_of.setdefault(record, set()).add(offset)
    history.run(event.process).handed.append((offset, record))


def _take_assign(history: PartitionHistory, event: Event, start: int | None = None) -> None:
    run = Run(None if start is None else max(start, 0), is_assigned=True, number=event.number)
    history.runs.setdefault(event.process, []).append(run)


def _take_drained(history: PartitionHistory, event: Event) -> None:
    history.run(event.process).is_drained = True


def _take_end_offset(history: PartitionHistory, event: Event, offset: int) -> None:
    history.end_offsets.setdefault(event.process, []).append(offset)


def _take_log_start(history: PartitionHistory, event: Event, offset: int) -> None:
    history.log_start = max(history.log_start, offset)


_FIELDS: Final[dict[str, list[type]]] = {"send": [str]}
"""Of an item, behind the partition, as long as nobody knows an offset."""

_FIELDS_OK: Final[dict[str, list[type]]] = {
    "send": [str, int],
    "poll": [str, int],
    "assign": [int],  # which may be missing
    "drained": [],
    "end_offset": [int],
    "log_start": [int],
}

_TAKERS: Final[dict[str, Callable[..., None]]] = {
    "send invoke": _take_send,
    "send ok": _take_sent,
    "send fail": _take_failed,
    "poll ok": _take_poll,
    "assign ok": _take_assign,
    "drained ok": _take_drained,
    "end_offset ok": _take_end_offset,
    "log_start ok": _take_log_start,
}
