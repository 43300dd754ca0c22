"""Histories of transactions of chance: honest ones of a naive cluster, and the same with one wrong thing.

The cluster is a few lists. It knows which transactions are committed; a read_committed consumer is handed what lies
before the first open transaction of a partition, and is of none or of a committed one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from minikafka.ledger.events import Event

INPUT, OUTPUTS, GROUP, COPIER = "in-0", ("out-0", "out-1"), "copiers", "copier"
PARTITIONS = (INPUT, *OUTPUTS)
TELLERS = ("a", "b")
IDS = (*TELLERS, COPIER)
Item = list[object]


@dataclass
class Told:
    """One event without its number."""

    process: str
    type: str
    function: str
    items: list[Item]


@dataclass
class Stored:
    """What is at an offset: a record, or a marker without one."""

    record: str | None
    transaction: str | None = None


@dataclass
class Tale:
    """A history, and what its writer knows of the truth."""

    told: list[Told] = field(default_factory=list)
    logs: dict[str, list[Stored]] = field(default_factory=lambda: {each: [] for each in PARTITIONS})
    fates: dict[str, bool] = field(default_factory=dict)  # of transactions that are over
    sizes: dict[str, int] = field(default_factory=dict)  # of transactions, in records
    copies: dict[str, int] = field(default_factory=dict)  # record -> offset of the input

    def tell(self, process: str, type: str, function: str, *items: Item) -> None:
        self.told.append(Told(process, type, function, list(items)))

    def of(self, name: str) -> list[Told]:
        """The events of that function and type."""
        return [each for each in self.told if f"{each.function} {each.type}" == name]

    def handed(self, *, to_readers: bool | None = None) -> Iterator[tuple[Told, Item]]:
        """(event, item) of what read_committed consumers got."""
        for each in self.of("poll_committed ok"):
            if to_readers is None or each.process.startswith("reader") == to_readers:
                for item in each.items:
                    yield each, item

    def transaction_of(self, record: object) -> str | None:
        return next(each.transaction for log in self.logs.values() for each in log if each.record == record)

    @property
    def begun(self) -> int:
        return sum(size > 0 for size in self.sizes.values())

    @property
    def committed(self) -> int:
        return sum(size > 0 and self.fates[name] for name, size in self.sizes.items())

    @property
    def copied(self) -> int:
        return len({offset for record, offset in self.copies.items() if self.fates[self.transaction_of(record) or ""]})

    def events(self) -> list[Event]:
        return [
            Event(at, at, each.process, each.type, each.function, each.items)  # type: ignore[arg-type]
            for at, each in enumerate(self.told)
        ]


class _Cluster:
    """A correct cluster and its clients, one step after another."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tale = Tale()
        self.lives = dict.fromkeys(IDS, 0)
        self.open: dict[str, str] = {}  # process -> its transaction
        self.markers: list[tuple[str, str]] = []  # (partition, transaction) to be written
        self.positions: dict[tuple[str, str], int] = {}
        self.copied_to = 0
        self.copying: dict[str, int] = {}  # transaction -> where the group is when it is committed
        self.number = 0
        for name in IDS:
            self.take_over(name)

    def process(self, name: str) -> str:
        return f"{name}{self.lives[name]}"

    def take_over(self, name: str) -> None:
        """Another producer begins with that id; the one before hears nothing of it."""
        before = self.process(name)
        self.lives[name] += 1
        process = self.process(name)
        self.tale.tell(process, "invoke", "take_over", [name])
        transaction = self.open.pop(before, None)
        if transaction is not None:
            self.finish(transaction, commits=False)
            self.markers = [each for each in self.markers if not self.mark(*each)]
        self.tale.tell(process, "ok", "take_over", [name])
        if transaction is not None and self.rng.random() < 0.7:
            self.number += 1
            self.tale.tell(before, "invoke", "send", [self.rng.choice(PARTITIONS), f"z{self.number}"])
            self.tale.tell(before, "invoke", "commit", [transaction])
            self.tale.tell(before, "info", "commit", [transaction])

    def send(self) -> None:
        name = self.rng.choice((*TELLERS, "plain"))
        if name == "plain":
            self.write("plain", None, self.rng.choice(PARTITIONS))
            return
        process = self.process(name)
        if process not in self.open:
            self.begin(process)
        self.write(process, self.open[process], self.rng.choice(PARTITIONS))

    def begin(self, process: str) -> str:
        self.number += 1
        transaction = self.open[process] = f"T{self.number}"
        self.tale.sizes[transaction] = 0
        self.tale.tell(process, "invoke", "begin", [transaction])
        return transaction

    def write(self, process: str, transaction: str | None, partition: str) -> str:
        self.number += 1
        record, log = f"r{self.number}", self.tale.logs[partition]
        self.tale.tell(process, "invoke", "send", [partition, record])
        if transaction is not None:
            self.tale.sizes[transaction] += 1
        log.append(Stored(record, transaction))
        if self.rng.random() < 0.8:
            self.tale.tell(process, "ok", "send", [partition, record, len(log) - 1])
        return record

    def copy(self) -> None:
        """The next records of the input."""
        process = self.process(COPIER)
        found = list(self.visible(INPUT, self.copied_to))[: self.rng.randrange(1, 4)]
        if process in self.open or not found:
            return
        transaction = self.begin(process)
        for _, offset in found:
            record = self.write(process, transaction, self.rng.choice(OUTPUTS))
            self.tale.copies[record] = offset
            self.tale.tell(process, "invoke", "copy", [record, GROUP, INPUT, offset])
        self.copying[transaction] = found[-1][1] + 1

    def end(self) -> None:
        if not self.open:
            return
        process = self.rng.choice(list(self.open))
        transaction = self.open.pop(process)
        commits, says = self.rng.random() < 0.7, self.rng.random()
        if commits or says < 0.5:
            self.tale.tell(process, "invoke", "commit", [transaction])
        self.finish(transaction, commits=commits)
        if says < 0.3:
            self.tale.tell(process, "ok" if commits else "fail", "commit", [transaction])
        elif commits and says < 0.8:
            self.tale.tell(process, self.rng.choice(("ok", "info")), "commit", [transaction])

    def finish(self, transaction: str, *, commits: bool) -> None:
        self.tale.fates[transaction] = commits
        position = self.copying.pop(transaction, self.copied_to)
        if commits:
            self.copied_to = position
        for partition, log in self.tale.logs.items():
            if any(each.transaction == transaction for each in log):
                self.markers.append((partition, transaction))

    def mark(self, partition: str, transaction: str) -> bool:
        self.tale.logs[partition].append(Stored(None))
        return True

    def write_marker(self) -> None:
        if self.markers:
            self.mark(*self.markers.pop(self.rng.randrange(len(self.markers))))

    def stable_end(self, partition: str) -> int:
        """The first offset of what has no marker yet."""
        unstable = {*self.open.values(), *(each for where, each in self.markers if where == partition)}
        log = self.tale.logs[partition]
        return next((at for at, each in enumerate(log) if each.transaction in unstable), len(log))

    def visible(self, partition: str, position: int) -> Iterator[tuple[str, int]]:
        log = self.tale.logs[partition]
        for offset in range(position, self.stable_end(partition)):
            stored = log[offset]
            if stored.record is not None and (stored.transaction is None or self.tale.fates[stored.transaction]):
                yield stored.record, offset

    def poll(self, consumer: str, partition: str, at_most: int) -> bool:
        where = consumer, partition
        found = list(self.visible(partition, self.positions[where]))[:at_most]
        if found:
            self.positions[where] = found[-1][1] + 1
            self.tale.tell(consumer, "ok", "poll_committed", *([partition, *each] for each in found))
        return bool(found)

    def consume(self) -> None:
        consumer, partition = self.rng.choice(("c", "d")), self.rng.choice(PARTITIONS)
        if (consumer, partition) not in self.positions or self.rng.random() < 0.1:
            self.positions[consumer, partition] = 0
            self.tale.tell(consumer, "ok", "assign_committed", [partition])
        self.poll(consumer, partition, self.rng.randrange(1, 6))

    def settle(self) -> None:
        """Everything ends, and is read."""
        for transaction in self.open.values():
            self.finish(transaction, commits=False)
        self.open.clear()
        while self.markers:
            self.write_marker()
        self.tale.tell("clerk", "ok", "position", [GROUP, INPUT, self.copied_to])
        for partition, log in self.tale.logs.items():
            self.tale.tell("observer", "ok", "stable_end", [partition, len(log), len(log)])
        for reader in ("reader1", "reader2")[: self.rng.randrange(1, 3)]:
            for partition in PARTITIONS:
                self.positions[reader, partition] = 0
                self.tale.tell(reader, "ok", "assign_committed", [partition, 0])
                while self.poll(reader, partition, 10):
                    pass
                self.tale.tell(reader, "ok", "drained_committed", [partition])


def honest(rng: random.Random) -> Tale:
    """A history that breaks no rule."""
    cluster = _Cluster(rng)
    steps = [cluster.send] * 5 + [cluster.end, cluster.write_marker, cluster.write_marker, cluster.copy, cluster.copy]
    steps += [cluster.consume, cluster.consume]
    for _ in range(rng.randrange(5, 120)):
        rng.choice(steps)()
        if rng.random() < 0.03:
            cluster.take_over(rng.choice(IDS))
    cluster.settle()
    return cluster.tale


# -- dishonest ---------------------------------------------------------------------------------------------------------

Mutation = Callable[[Tale, random.Random], set[str] | None]
MUTATIONS: list[Mutation] = []


def mutation(mutate: Mutation) -> Mutation:
    MUTATIONS.append(mutate)
    return mutate


@mutation
def a_reader_is_not_handed_a_record(tale: Tale, rng: random.Random) -> set[str] | None:
    handed = list(tale.handed(to_readers=True))
    promised = [found for found in handed if _is_promised(tale, found[1][1])]
    if not promised:
        return None
    told, item = rng.choice(promised)
    told.items.remove(item)
    return {"torn-transaction", "lost-commit", "not-copied"}


def _is_promised(tale: Tale, record: object) -> bool:
    """It was acknowledged outside of transactions, or its commit was, or other records of it are seen."""
    transaction = tale.transaction_of(record)
    if transaction is None:
        return any(item[1] == record for each in tale.of("send ok") for item in each.items)
    is_told = any([transaction] in each.items for each in tale.of("commit ok"))
    others = [item[1] for _, item in tale.handed() if item[1] != record]
    return is_told or transaction in map(tale.transaction_of, others)


@mutation
def nobody_is_handed_anything_of_a_committed_one(tale: Tale, rng: random.Random) -> set[str] | None:
    found = [item[0] for each in tale.of("commit ok") for item in each.items if tale.sizes[str(item[0])]]
    if not found:
        return None
    gone = rng.choice(found)
    for told, item in list(tale.handed()):
        if tale.transaction_of(item[1]) == gone:
            told.items.remove(item)
    return {"lost-commit"}


@mutation
def a_record_of_an_aborted_one_is_handed_out(tale: Tale, rng: random.Random) -> set[str] | None:
    asked = {item[0] for each in tale.of("commit invoke") for item in each.items}
    refused = {item[0] for each in tale.of("commit fail") for item in each.items}
    found = [
        (partition, each.record, offset)
        for partition, log in tale.logs.items()
        for offset, each in enumerate(log)
        if each.transaction is not None and not tale.fates[each.transaction]
        if each.transaction in refused or each.transaction not in asked
    ]
    if not found:
        return None
    tale.tell("another", "ok", "poll_committed", list(rng.choice(found)))
    return {"aborted-read"}


@mutation
def a_record_is_handed_out_before_its_commit(tale: Tale, rng: random.Random) -> set[str] | None:
    found = [item for _, item in tale.handed() if tale.transaction_of(item[1]) is not None]
    if not found:
        return None
    item = rng.choice(found)
    name = tale.transaction_of(item[1])
    at = next(at for at, each in enumerate(tale.told) if each.function == "commit" and [name] in each.items)
    tale.told.insert(at, Told("another", "ok", "poll_committed", [item]))
    return {"precommitted-read"}


@mutation
def a_consumer_goes_over_a_record(tale: Tale, rng: random.Random) -> set[str] | None:
    inner = [(each, item) for each in tale.of("poll_committed ok") for item in each.items[1:-1]]
    others = [(each.process, item) for each, item in tale.handed()]
    inner = [(told, item) for told, item in inner if any(who != told.process and item == it for who, it in others)]
    if not inner:
        return None
    told, item = rng.choice(inner)
    told.items.remove(item)
    return {"prefix-changed"}


@mutation
def a_record_is_elsewhere_for_one_of_them(tale: Tale, rng: random.Random) -> set[str] | None:
    found = list(tale.handed())
    if not found:
        return None
    _, item = rng.choice(found)
    where = str(item[0])
    tale.tell("another", "ok", "poll_committed", [where, item[1], len(tale.logs[where])])
    return {"offset-changed"}


@mutation
def two_records_are_handed_at_each_others_place(tale: Tale, rng: random.Random) -> set[str] | None:
    several = [each for each in tale.of("poll_committed ok") if len(each.items) > 1]
    if not several:
        return None
    items = rng.choice(several).items
    at = rng.randrange(len(items) - 1)
    items[at], items[at + 1] = items[at + 1], items[at]
    return {"offset-changed"}


@mutation
def two_copies_are_of_one_record(tale: Tale, rng: random.Random) -> set[str] | None:
    copies = _visible_copies(tale)
    if len(copies) < 2:
        return None
    one, other = rng.sample(copies, 2)
    one[3] = other[3]
    return {"copied-twice"}


@mutation
def the_offset_is_behind_what_was_not_copied(tale: Tale, rng: random.Random) -> set[str] | None:
    [position] = tale.of("position ok")[0].items
    left = [item[2] for _, item in tale.handed(to_readers=True) if item[0] == INPUT and item[2] >= position[2]]  # type: ignore[operator]
    if not left or not any(each.function == "copy" for each in tale.told):
        return None
    position[2] = rng.choice(left) + 1  # type: ignore[operator]
    return {"not-copied"}


@mutation
def a_copy_came_without_its_offset(tale: Tale, rng: random.Random) -> set[str] | None:
    copies = _visible_copies(tale)
    if not copies:
        return None
    [position] = tale.of("position ok")[0].items
    position[2] = rng.choice(copies)[3]
    return {"copied-ahead"}


def _visible_copies(tale: Tale) -> list[Item]:
    """The items of the events that say what they are copies of."""
    seen = {item[1] for _, item in tale.handed()}
    return [item for each in tale.of("copy invoke") for item in each.items if item[0] in seen]


@mutation
def a_transaction_hangs(tale: Tale, rng: random.Random) -> set[str] | None:
    ends = [item for each in tale.of("stable_end ok") for item in each.items if item[2]]
    if not ends:
        return None
    end = rng.choice(ends)
    end[1] = rng.randrange(end[2])  # type: ignore[call-overload]
    return {"hanging-transaction"}


@mutation
def a_zombie_writes(tale: Tale, rng: random.Random) -> set[str] | None:
    late = [(each.process, item) for each in tale.of("send invoke") for item in each.items if str(item[1])[0] == "z"]
    if not late:
        return None
    process, item = rng.choice(late)
    tale.tell(process, "ok", "send", [*item, len(tale.logs[str(item[0])])])
    return {"zombie-write"}


@mutation
def a_zombie_commits(tale: Tale, rng: random.Random) -> set[str] | None:
    wrote = {each.process for each in tale.of("send invoke") for item in each.items if str(item[1])[0] == "z"}
    found = [each for each in tale.of("commit info") if each.process in wrote and not tale.fates[str(each.items[0][0])]]
    if not found:
        return None
    rng.choice(found).type = "ok"
    return {"zombie-write"}
