"""Histories of chance that are honest, and ways to make one dishonest.

``honest`` plays a partition with a correct broker: producers with every outcome, one of them with acks=0, offsets
without a record, retention, consumers that are rebalanced, one that is subscribed and skips, readers at the end. Each
of ``MUTATIONS`` changes it in one place so that a promise is broken, or nobody can know; it answers what a checker must
say, or None where that history offers it no place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from minikafka.ledger.events import Event

Item = list[Any]


@dataclass
class Told:
    """One event without its number. Items are without the partition."""

    process: str
    type: str
    function: str
    items: list[Item]


@dataclass
class Tale:
    """A history of one partition, and what its writer knows of the truth."""

    told: list[Told] = field(default_factory=list)
    log: dict[int, str] = field(default_factory=dict)  # what is stored, retention done
    log_start: int = 0
    readers: list[str] = field(default_factory=list)

    def tell(self, process: str, type: str, function: str, *items: Item) -> None:
        self.told.append(Told(process, type, function, list(items)))

    def of(self, name: str, processes: list[str] | None = None) -> list[Told]:
        """The events of that function and type."""
        return [
            each
            for each in self.told
            if f"{each.function} {each.type}" == name and (processes is None or each.process in processes)
        ]

    def acknowledged(self) -> dict[str, int]:
        """Where each record was acknowledged; those without a place are left out."""
        return {record: offset for each in self.of("send ok") for record, offset in each.items if offset >= 0}

    def read(self, *, by: list[str] | None = None) -> dict[str, int]:
        """Where each record was read."""
        return {record: offset for each in self.of("poll ok", by) for record, offset in each.items}

    def events(self, partition: str = "t-0", first: int = 0) -> list[Event]:
        """As a checker takes them."""
        return [
            Event(first + at, first + at, each.process, each.type, each.function, self._value(each, partition))  # type: ignore[arg-type]
            for at, each in enumerate(self.told)
        ]

    @staticmethod
    def _value(each: Told, partition: str) -> list[Any]:
        bare = each.function in ("assign", "drained")
        return [[partition, *item] if item or not bare else partition for item in each.items]


# -- honest ------------------------------------------------------------------------------------------------------------


class _Partition:
    """A correct broker and its clients, one step after another."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tale = Tale()
        self.end = 0
        self.number = 0
        self.outcomes: list[tuple[str, str, list[Item]]] = []  # decided, and not told yet
        self.positions: dict[str, int] = {}
        self.seen_end = 0

    def send(self) -> None:
        rng, tale = self.rng, self.tale
        process = rng.choice(("p", "q", "acks=0"))
        records = [f"{process}{self.number + n}" for n in range(rng.randrange(1, 5))]
        self.number += len(records)
        tale.tell(process, "invoke", "send", *([record] for record in records))
        fate = rng.choice(("ok", "ok", "ok", "ok", "placeless", "unknown", "gone", "fail"))
        if process == "acks=0" and fate != "gone":
            fate = "unknown"
        if fate in ("gone", "fail"):
            outcome = rng.choice(("info", "")) if fate == "gone" else "fail"
            self.outcomes.append((process, outcome, [[record] for record in records]))
            return
        if rng.random() < 0.2:
            self.end += rng.randrange(1, 4)  # offsets without a record
        placed = []
        for record in records:
            tale.log[self.end] = record
            placed.append([record, self.end])
            self.end += 1
        if fate == "unknown":
            self.outcomes.append((process, rng.choice(("info", "")), [[record] for record in records]))
        else:
            self.outcomes.append((process, "ok", placed if fate == "ok" else [[record, -1] for record, _ in placed]))

    def settle(self) -> None:
        if self.outcomes:
            process, outcome, items = self.outcomes.pop(self.rng.randrange(len(self.outcomes)))
            if outcome:
                self.tale.tell(process, outcome, "send", *items)

    def poll(self, consumer: str, *, at_most: int = 4) -> None:
        position = max(self.positions[consumer], self.tale.log_start)
        handed = [[self.tale.log[offset], offset] for offset in range(position, self.end) if offset in self.tale.log]
        handed = handed[: self.rng.randrange(1, at_most + 1)]
        if handed:
            self.tale.tell(consumer, "ok", "poll", *handed)
            self.positions[consumer] = handed[-1][1] + 1

    def consume(self) -> None:
        consumer = self.rng.choice(("c", "d", "free"))
        if consumer == "free":  # never assigned, so it may skip, but not go back
            position = self.positions.get(consumer, 0)
            self.positions[consumer] = min(self.end, position + self.rng.choice((0, 0, 2)))
        elif consumer not in self.positions or self.rng.random() < 0.2:
            start = self.positions[consumer] = self.rng.randrange(self.end + 1)
            self.tale.tell(consumer, "ok", "assign", [start] if self.rng.random() < 0.5 else [])
        self.poll(consumer)

    def look(self) -> None:
        self.seen_end = self.rng.randrange(self.seen_end, self.end + 1)
        self.tale.tell("observer", "ok", "end_offset", [self.seen_end])

    def retain(self) -> None:
        if self.rng.random() < 0.3:
            tale = self.tale
            tale.log_start = self.rng.randrange(tale.log_start, self.end + 1)
            tale.log = {offset: record for offset, record in tale.log.items() if offset >= tale.log_start}
            tale.tell("admin", "ok", "log_start", [tale.log_start])

    def drain(self) -> None:
        """One reader reads everything; others may begin later."""
        for number in range(self.rng.randrange(1, 4)):
            reader = f"reader{number}"
            start = self.positions[reader] = 0 if number == 0 else self.rng.randrange(self.end + 1)
            self.tale.readers.append(reader)
            self.tale.tell(reader, "ok", "assign", [start] if start or self.rng.random() < 0.5 else [])
            while any(offset >= self.positions[reader] for offset in self.tale.log):
                self.poll(reader, at_most=10)
            self.tale.tell(reader, "ok", "drained", [])


def honest(rng: random.Random) -> Tale:
    """A history that breaks no rule, and in which everything acknowledged is looked for."""
    partition = _Partition(rng)
    steps = [partition.send, partition.send, partition.settle, partition.consume, partition.consume, partition.look]
    if rng.random() < 0.4:
        steps.append(partition.retain)
    for _ in range(rng.randrange(1, 40)):
        rng.choice(steps)()
    while partition.outcomes and rng.random() < 0.95:
        partition.settle()
    partition.drain()
    while partition.outcomes:
        partition.settle()
    for _ in range(rng.randrange(3)):
        partition.consume()
    tale = partition.tale
    if tale.log_start and any(item[1] < 0 for each in tale.of("send ok") for item in each.items):
        # Where nobody knows the place, nobody knows whether retention took it: those are not promised here.
        for each in tale.of("send ok"):
            if each.items[0][1] < 0:
                each.type, each.items = "info", [[record] for record, _ in each.items]
    return tale


# -- dishonest ---------------------------------------------------------------------------------------------------------

Mutation = Callable[[Tale, random.Random], set[str] | None]
MUTATIONS: list[Mutation] = []


def mutation(mutate: Mutation) -> Mutation:
    MUTATIONS.append(mutate)
    return mutate


def _handed(tale: Tale, processes: list[str]) -> Iterator[tuple[Told, Item]]:
    for each in tale.of("poll ok", processes):
        for item in each.items:
            yield each, item


def _promised(tale: Tale) -> list[tuple[Told, Item]]:
    """What readers were handed of what was acknowledged at a place."""
    acknowledged = tale.acknowledged()
    return [(told, item) for told, item in _handed(tale, tale.readers) if item[0] in acknowledged]


def _drop(found: list[tuple[Told, Item]]) -> None:
    for told, item in found:
        told.items.remove(item)


@mutation
def one_reader_is_not_handed_an_acknowledged_record(tale: Tale, rng: random.Random) -> set[str] | None:
    if not (promised := _promised(tale)):
        return None
    _drop([rng.choice(promised)])
    return {"lost-write", "unseen"}


@mutation
def the_tail_is_gone(tale: Tale, rng: random.Random) -> set[str] | None:
    if not (promised := _promised(tale)):
        return None
    cut = rng.choice(promised)[1][1]
    _drop([found for found in _handed(tale, tale.readers) if found[1][1] >= cut])
    return {"unseen"}


@mutation
def the_head_is_gone(tale: Tale, rng: random.Random) -> set[str] | None:
    if not (promised := _promised(tale)):
        return None
    cut = rng.choice(promised)[1][1]
    _drop([found for found in _handed(tale, tale.readers) if found[1][1] <= cut])
    return {"lost-write", "unseen"}


@mutation
def everything_is_gone(tale: Tale, rng: random.Random) -> set[str] | None:
    if not _promised(tale):
        return None
    for each in tale.of("poll ok", tale.readers):
        each.items.clear()
    return {"unseen"}


@mutation
def a_record_without_a_place_is_nowhere(tale: Tale, rng: random.Random) -> set[str] | None:
    placeless = [record for each in tale.of("send ok") for record, offset in each.items if offset < 0]
    if not placeless:
        return None
    gone = rng.choice(placeless)
    for each in tale.of("poll ok"):
        each.items = [item for item in each.items if item[0] != gone]
    return {"lost-write"}


@mutation
def a_dirty_read(tale: Tale, rng: random.Random) -> set[str] | None:
    acknowledged = {item[0] for each in tale.of("send ok") for item in each.items}
    others = [each.process for each in tale.of("poll ok") if each.process not in tale.readers]
    seen = tale.read(by=others)
    found = [(told, item) for told, item in _handed(tale, tale.readers) if item[0] not in acknowledged]
    found = [(told, item) for told, item in found if item[0] in seen]
    if not found:
        return None
    _drop([rng.choice(found)])
    return {"dirty-read"}


@mutation
def the_reader_was_assigned_anew_before_it_was_done(tale: Tale, rng: random.Random) -> set[str] | None:
    if not (promised := _promised(tale)):
        return None
    reader = promised[0][0].process
    at = next(at for at, each in enumerate(tale.told) if (each.process, each.function) == (reader, "drained"))
    tale.told.insert(at, Told(reader, "ok", "assign", [[]]))
    return {"unseen"}


@mutation
def nobody_read_to_the_end(tale: Tale, rng: random.Random) -> set[str] | None:
    if not _promised(tale):
        return None
    tale.told = [each for each in tale.told if each.function != "drained"]
    return {"not judged"}


@mutation
def a_record_is_there_twice(tale: Tale, rng: random.Random) -> set[str] | None:
    found = list(_handed(tale, tale.readers))
    if not found:
        return None
    told, item = rng.choice(found)
    last = tale.of("poll ok", [told.process])[-1]
    last.items.append([item[0], max(tale.log) + rng.randrange(1, 3)])
    return {"duplicate"}


@mutation
def a_record_is_elsewhere(tale: Tale, rng: random.Random) -> set[str] | None:
    if not (promised := _promised(tale)):
        return None
    rng.choice(promised)[1][1] += rng.choice((1, 2, 100))
    return {"duplicate"}


@mutation
def two_records_are_handed_in_the_wrong_order(tale: Tale, rng: random.Random) -> set[str] | None:
    several = [each for each in tale.of("poll ok") if len(each.items) > 1]
    if not several:
        return None
    items = rng.choice(several).items
    at = rng.randrange(len(items) - 1)
    items[at], items[at + 1] = items[at + 1], items[at]
    return {"nonmonotonic-poll"}


@mutation
def two_records_are_handed_at_each_others_place(tale: Tale, rng: random.Random) -> set[str] | None:
    several = [each for each in tale.of("poll ok", tale.readers) if len(each.items) > 1]
    if not several:
        return None
    one, other = rng.sample(rng.choice(several).items, 2)
    if not {one[0], other[0]} & (tale.acknowledged().keys() | tale.read(by=["c", "d", "free"]).keys()):
        return None  # nobody else knows their places
    one[0], other[0] = other[0], one[0]
    return {"duplicate", "inconsistent-offsets"}


@mutation
def a_record_has_changed(tale: Tale, rng: random.Random) -> set[str] | None:
    if not (promised := _promised(tale)):
        return None
    rng.choice(promised)[1][0] += "?"
    return {"phantom"}


@mutation
def a_record_was_acknowledged_that_nobody_sent(tale: Tale, rng: random.Random) -> set[str] | None:
    acknowledged = tale.acknowledged()
    if not acknowledged:
        return None
    gone = rng.choice(sorted(acknowledged))
    for each in tale.of("send invoke"):
        each.items = [item for item in each.items if item != [gone]]
    return {"phantom"}


@mutation
def a_record_is_there_that_was_refused(tale: Tale, rng: random.Random) -> set[str] | None:
    seen = tale.read()
    if not seen:
        return None
    tale.tell("p", "fail", "send", [rng.choice(sorted(seen))])
    return {"aborted-read"}


@mutation
def an_offset_was_given_twice(tale: Tale, rng: random.Random) -> set[str] | None:
    items = [item for each in tale.of("send ok") for item in each.items if item[1] >= 0]
    if len(items) < 2:
        return None
    one, other = rng.sample(items, 2)
    one[1] = other[1]
    return {"reused-offset"}


@mutation
def a_producer_is_overtaken_by_itself(tale: Tale, rng: random.Random) -> set[str] | None:
    placed = tale.read() | tale.acknowledged()
    sends = [
        (one, other)
        for process in ("p", "q", "acks=0")
        for one, other in pairwise([item for each in tale.of("send invoke", [process]) for item in each.items])
        if one[0] in placed and other[0] in placed
    ]
    if not sends:
        return None
    one, other = rng.choice(sends)
    one[0], other[0] = other[0], one[0]
    return {"nonmonotonic-send"}


@mutation
def a_consumer_skips_a_record(tale: Tale, rng: random.Random) -> set[str] | None:
    known = tale.acknowledged()
    inner = [
        (each, item)
        for each in tale.of("poll ok", ["c", "d", *tale.readers])
        for item in each.items[1:-1]
        if item[1] >= tale.log_start and item[0] in known
    ]
    if not inner:
        return None
    _drop([rng.choice(inner)])
    return {"poll-skip"}


@mutation
def the_end_moves_back(tale: Tale, rng: random.Random) -> set[str] | None:
    ends = [item for each in tale.of("end_offset ok") for item in each.items]
    if not ends or not ends[-1][0]:
        return None
    tale.tell("observer", "ok", "end_offset", [rng.randrange(ends[-1][0])])
    return {"nonmonotonic-end-offset"}
