"""Judges a history: did the cluster lose, repeat, reorder or invent records? Pure: events in, a verdict out.

First the events are gathered per partition (:class:`PartitionHistory`): what was sent in which order, what was
acknowledged at which offset, and what each consumer was handed. Then each rule looks at one partition and yields a
sentence per violation:

* ``lost``                 acknowledged, below what was read, never read
* ``unseen``               acknowledged, and still unread when a consumer had read to the end
* ``duplicate``            one record at two offsets
* ``reordered``            a producer's later record at a lower offset than an earlier one
* ``poll_went_back``       a consumer was handed an offset at or below its position
* ``poll_skipped``         an assigned consumer was not handed a record between two that it was handed
* ``phantom``              read, but never sent
* ``failed_read``          read, although its producer was told that it certainly failed
* ``inconsistent_offset``  a record read at an offset at which another was acknowledged or read
* ``offset_reused``        two records acknowledged at one offset
* ``end_offset_went_back`` one process saw a partition's end move back

Unknown outcomes, and how long a partition took no write, are reported and are not violations.

No rule depends on the order of events except where it says so: of what a producer sent, of what a consumer was handed
and of the ends that a process saw. So ``spark.pipelines.audit`` can judge by the same rules what does not fit in
memory; a test holds the two together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from minikafka.ledger.events import Event, HistoryError

EXAMPLES_MAX: Final = 10


@dataclass(slots=True)
class PartitionHistory:
    """What happened to one partition."""

    sent: dict[str, list[str]] = field(default_factory=dict)  # by process, in the order of sending
    sent_ids: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    acknowledged: dict[str, set[int]] = field(default_factory=dict)  # every offset at which an id was acknowledged
    acknowledged_at_ms: list[int] = field(default_factory=list)
    offsets_of: dict[str, set[int]] = field(default_factory=dict)  # every offset at which an id was read
    polls: dict[str, list[list[tuple[int, str]]]] = field(default_factory=dict)  # by consumer, a list per assignment
    assigned: set[str] = field(default_factory=set)  # consumers that must not skip
    end_offsets: dict[str, list[int]] = field(default_factory=dict)  # by process
    drained: bool = False

    def highest_read(self) -> int:
        """The largest offset that any consumer was handed, or -1."""
        return max((max(offsets) for offsets in self.offsets_of.values()), default=-1)

    def offset_of(self, record: str) -> int | None:
        """Where a record is, as far as anyone knows."""
        return min(self.acknowledged.get(record) or self.offsets_of.get(record) or (), default=None)

    def polled(self) -> Iterator[tuple[str, list[tuple[int, str]]]]:
        """(consumer, what it was handed in one assignment as (offset, id)) for every assignment."""
        for consumer, runs in self.polls.items():
            for run in runs:
                yield consumer, run


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement: how often each rule was broken, with a few examples, and figures that break no rule."""

    sent: int
    acknowledged: int
    read: int
    unknown: int
    acknowledged_at_ms: dict[str, list[int]]  # by partition: the times at which writes were acknowledged
    violations: dict[str, int]  # every rule, with its count
    examples: dict[str, list[str]]

    def longest_gap_ms(self, since_ms: int = 0, until_ms: int | None = None) -> dict[str, int]:
        """By partition: the longest time without an acknowledged write, of those that touch the given window."""
        return {
            name: max(
                (b - a for a, b in pairwise(times) if b > since_ms and (until_ms is None or a < until_ms)), default=0
            )
            for name, times in self.acknowledged_at_ms.items()
        }

    @property
    def ok(self) -> bool:
        """True when no rule was broken and something was acknowledged and read: a dead cluster proves nothing."""
        return not any(self.violations.values()) and self.acknowledged > 0 and self.read > 0


def check(events: Iterable[Event]) -> Verdict:
    """Judge a whole history. Raises HistoryError when it is none."""
    partitions = gather(events)
    violations = dict.fromkeys(RULES, 0)
    examples: dict[str, list[str]] = {}
    for name, rule in RULES.items():
        for partition, history in sorted(partitions.items()):
            for sentence in rule(history):
                violations[name] += 1
                if violations[name] <= EXAMPLES_MAX:
                    examples.setdefault(name, []).append(f"{partition}: {sentence}")
    return Verdict(
        sent=sum(len(history.sent_ids) for history in partitions.values()),
        acknowledged=sum(len(history.acknowledged) for history in partitions.values()),
        read=sum(len(history.offsets_of) for history in partitions.values()),
        unknown=sum(
            len(history.sent_ids - history.acknowledged.keys() - history.failed) for history in partitions.values()
        ),
        acknowledged_at_ms={name: sorted(set(partitions[name].acknowledged_at_ms)) for name in sorted(partitions)},
        violations=violations,
        examples=examples,
    )


def gather(events: Iterable[Event]) -> dict[str, PartitionHistory]:
    """The events of each partition, brought together."""
    partitions: dict[str, PartitionHistory] = defaultdict(PartitionHistory)
    for event in events:
        if take := _TAKERS.get(f"{event.function} {event.type}"):
            for item in event.value:
                name, *rest = item if isinstance(item, list | tuple) else (item,)
                try:
                    take(partitions[name], event, *rest)
                except TypeError as error:
                    raise HistoryError(f"event {event.number} is no {event.function}: {item!r}") from error
    return dict(partitions)


def _take_send(history: PartitionHistory, event: Event, record: str) -> None:
    if record in history.sent_ids:
        raise HistoryError(f"{record} was sent twice: a workload must send each id once")
    history.sent.setdefault(event.process, []).append(record)
    history.sent_ids.add(record)


def _take_sent(history: PartitionHistory, event: Event, record: str, offset: int) -> None:
    history.acknowledged.setdefault(record, set()).add(offset)
    history.acknowledged_at_ms.append(event.time_ms)


def _take_failed(history: PartitionHistory, event: Event, record: str) -> None:
    history.failed.add(record)


def _take_poll(history: PartitionHistory, event: Event, record: str, offset: int) -> None:
    history.offsets_of.setdefault(record, set()).add(offset)
    history.polls.setdefault(event.process, [[]])[-1].append((offset, record))


def _take_assign(history: PartitionHistory, event: Event) -> None:
    history.polls.setdefault(event.process, []).append([])
    history.assigned.add(event.process)


def _take_drained(history: PartitionHistory, event: Event) -> None:
    history.drained = True


def _take_end_offset(history: PartitionHistory, event: Event, offset: int) -> None:
    history.end_offsets.setdefault(event.process, []).append(offset)


_TAKERS: Final[dict[str, Callable[..., None]]] = {
    "send invoke": _take_send,
    "send ok": _take_sent,
    "send fail": _take_failed,
    "poll ok": _take_poll,
    "assign ok": _take_assign,
    "drained ok": _take_drained,
    "end_offset ok": _take_end_offset,
}


def lost(history: PartitionHistory) -> Iterator[str]:
    """Acknowledged, below what was read, never read."""
    highest_read = history.highest_read()
    for record, offsets in history.acknowledged.items():
        if (offset := min(offsets)) < highest_read and record not in history.offsets_of:
            yield f"{record} was acknowledged at {offset} and never read, though {highest_read} was"


def unseen(history: PartitionHistory) -> Iterator[str]:
    """Acknowledged, and above everything that was read to the end."""
    highest_read = history.highest_read()
    for record, offsets in history.acknowledged.items():
        if history.drained and (offset := min(offsets)) >= highest_read and record not in history.offsets_of:
            yield f"{record} was acknowledged at {offset}, and reading to the end stopped at {highest_read}"


def duplicate(history: PartitionHistory) -> Iterator[str]:
    """One record at two offsets."""
    for record in history.offsets_of | history.acknowledged:
        seen = history.offsets_of.get(record, set()) | history.acknowledged.get(record, set())
        if len(seen) > 1:
            yield f"{record} is at {len(seen)} offsets, from {min(seen)} to {max(seen)}"


def reordered(history: PartitionHistory) -> Iterator[str]:
    """A producer's later record at a lower offset than an earlier one."""
    for process, records in history.sent.items():
        highest, highest_record = -1, ""
        for record in records:
            offset = history.offset_of(record)
            if offset is None:
                continue
            if offset < highest:
                yield f"{process} sent {record} after {highest_record}, but it is at {offset}, before {highest}"
            else:
                highest, highest_record = offset, record


def poll_went_back(history: PartitionHistory) -> Iterator[str]:
    """A consumer was handed an offset at or below its position."""
    for consumer, run in history.polled():
        for (before, _), (after, record) in pairwise(run):
            if after <= before:
                yield f"{consumer} was handed {record} at {after} after {before}"


def poll_skipped(history: PartitionHistory) -> Iterator[str]:
    """An assigned consumer was not handed a record that lies between two that it was handed."""
    known = sorted(set().union(*history.acknowledged.values(), *history.offsets_of.values()))
    for consumer, run in history.polled():
        if consumer not in history.assigned:
            continue
        for (before, _), (after, record) in pairwise(run):
            following = bisect_right(known, before)
            if after > before and known[following] < after:
                yield f"{consumer} went from {before} to {record} at {after} and skipped {known[following]}"


def phantom(history: PartitionHistory) -> Iterator[str]:
    """Read, but never sent."""
    for record, offsets in history.offsets_of.items():
        if record not in history.sent_ids:
            yield f"{record} was read at {min(offsets)} and never sent"


def failed_read(history: PartitionHistory) -> Iterator[str]:
    """Read, although the producer was told that it certainly failed."""
    for record in history.failed:
        if record in history.offsets_of:
            yield f"{record} was refused, and read at {min(history.offsets_of[record])}"


def inconsistent_offset(history: PartitionHistory) -> Iterator[str]:
    """A record read at an offset at which another was acknowledged, or else read."""
    acknowledged = _by_offset(history.acknowledged)
    for offset, records in _by_offset(history.offsets_of).items():
        here = acknowledged.get(offset, records[:1])
        for record in records:
            if record not in here:
                yield f"offset {offset} holds {here[0]} for some and {record} for others"


def offset_reused(history: PartitionHistory) -> Iterator[str]:
    """Two records acknowledged at one offset."""
    for offset, (first, *others) in _by_offset(history.acknowledged).items():
        for other in others:
            yield f"{first} and {other} were both acknowledged at {offset}"


def _by_offset(offsets_of: dict[str, set[int]]) -> dict[int, list[str]]:
    """The records at each offset, sorted."""
    records: dict[int, list[str]] = {}
    for record, offsets in sorted(offsets_of.items()):
        for offset in offsets:
            records.setdefault(offset, []).append(record)
    return records


def end_offset_went_back(history: PartitionHistory) -> Iterator[str]:
    """One process saw the end of the partition move back."""
    for process, offsets in history.end_offsets.items():
        for before, after in pairwise(offsets):
            if after < before:
                yield f"{process} saw the end at {before} and then at {after}"


RULES: Final[dict[str, Callable[[PartitionHistory], Iterator[str]]]] = {
    rule.__name__: rule
    for rule in (
        lost,
        unseen,
        duplicate,
        reordered,
        poll_went_back,
        poll_skipped,
        phantom,
        failed_read,
        inconsistent_offset,
        offset_reused,
        end_offset_went_back,
    )
}
