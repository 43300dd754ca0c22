"""Random schedules: applications that begin, write, commit, abort, stall, crash and come back; requests that are
delayed, lost and repeated; leaders that ask before they append; markers that come late and twice; a log whose writes
fail or linger; coordinators that move, and that hear of partitions later than the leaders do; time-outs; ids that
expire. And what must hold whatever happens.

Checked from outside, by what applications were told and by what the logs of the partitions hold:

- all or nothing: the items of a transaction are all committed or all aborted, in every partition;
- promises: what was told to be committed is, and what was told to be aborted is;
- one decision: the markers of a transaction are of one kind, whichever coordinator writes them;
- zombies: once a newer producer of an id was told its epoch, no item of an older one gets into a log, and the older one
  does not go on;
- identities: producer id and epoch are given to one producer, and never fall;
- peace: an application whose id is its own, and that is not slow, is never told that it is not the producer, nor that
  its transaction is over. (A leader that was told that the partition is part of it, and sees a marker that came
  meanwhile, asks again.);
- the end: once it is told, nothing is open until the application begins anew;
- no hanging transaction: when faults end, every transaction is over.

Clients of version 1 may be in haste, as librdkafka is: they add a partition before they are told that another one was
added, and abort without an answer to either. All that goes through one connection, in order, and the end waits in the
broker for what is being added. A coordinator that has heard of an addition takes the abort, be it of nothing.

And from inside, after every step, :meth:`Driver.check`.

Version 1 promises less: a record that its producer gave up may get into the next transaction, so none of these is asked
for its fate. And it gets less to bear: other requests that were given up are not delivered later, and a marker is not
delivered twice (KIP-890 tells what would happen).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from transactions_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.transactions.effects import Outcome, SendMarkers
from minikafka.transactions.records import encode_transaction
from minikafka.transactions.transaction import EPOCH_MAX, Transaction, TransactionState
from minikafka.wire.versioned import Record

E = ErrorCode
STEPS = 400
IDS = ("a", "b")
AGAIN = "add again"
PARTITIONS = tuple(TopicPartition("t", index) for index in range(3))
TRY_AGAIN = frozenset(
    {
        E.CONCURRENT_TRANSACTIONS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.NOT_COORDINATOR,
    }
)


Message = tuple[str, Callable[[], None]]
"""What it is, and how it arrives."""


class ViolationError(AssertionError):
    """Something that must hold did not."""


class Item(NamedTuple):
    """A record: of which application, in which of its transactions, and which one."""

    app: int
    number: int
    serial: int


@dataclass
class Written:
    """What one producer id did in one partition."""

    epoch: int = -1
    coordinator_epoch: int = -1
    open: list[Item] = field(default_factory=list)
    ends: int = 0  # markers so far: whoever asked before the last one must ask again


class Marker(NamedTuple):
    """One marker, of the coordinator in that epoch."""

    markers: SendMarkers
    coordinator_epoch: int
    partition: TopicPartition
    is_again: bool = False

    @property
    def key(self) -> tuple[str, int, int, TopicPartition]:
        """Whose."""
        return self.markers.transactional_id, self.markers.producer_epoch, self.coordinator_epoch, self.partition


class Log:
    """A partition, as naive as can be: the rules of Kafka's ProducerAppendInfo."""

    def __init__(self) -> None:
        self.written: dict[int, Written] = {}
        self.fates: dict[Item, bool | None] = {}

    def of(self, producer_id: int) -> Written:
        """What it did here."""
        return self.written.setdefault(producer_id, Written())

    def append(self, item: Item, producer: ProducerIdentity, verified_at: int | None) -> ErrorCode:
        """``verified_at``: how many ends there were when the coordinator was asked; None: it was not."""
        known = self.of(producer.producer_id)
        if item in self.fates:
            return E.NONE
        if producer.epoch < known.epoch:
            return E.INVALID_PRODUCER_EPOCH
        if not (known.open and known.epoch == producer.epoch) and verified_at != known.ends:
            return E.INVALID_TXN_STATE
        known.epoch = producer.epoch
        known.open.append(item)
        self.fates[item] = None
        return E.NONE

    def end(self, markers: SendMarkers, coordinator_epoch: int) -> ErrorCode:
        """A marker arrives."""
        known = self.of(markers.producer_id)
        if coordinator_epoch < known.coordinator_epoch:
            return E.TRANSACTION_COORDINATOR_FENCED
        is_stale = markers.producer_epoch < known.epoch
        if is_stale or (markers.transaction_version >= 2 and markers.producer_epoch == known.epoch and known.open):
            return E.INVALID_PRODUCER_EPOCH
        for item in known.open:
            self.fates[item] = markers.commits
        known.open = []
        known.epoch, known.coordinator_epoch = markers.producer_epoch, coordinator_epoch
        known.ends += 1
        return E.NONE


@dataclass(eq=False)
class App:
    """An application with a transactional id: one request at a time, tried again until it is answered."""

    index: int
    name: str
    version: int
    state: str = "new"  # new, ready, open, ending, dead
    identity: ProducerIdentity | None = None
    recovers: bool = False  # begins anew as the one that it was
    number: int = 0  # of its transaction
    serial: int = 0
    added: set[TopicPartition] = field(default_factory=set)
    commits: bool = False
    must_abort: bool = False
    again: Callable[[], None] | None = None  # the request that it has to repeat
    since_ms: int = 0  # began, or began its transaction
    has_given_up: bool = False  # to begin: that may happen yet, and fence itself
    token: object | None = None  # of the request that it waits for
    adding: dict[object, TopicPartition] = field(default_factory=dict)  # by request, in order, without an answer yet


class World:
    """Applications, partitions, a network, a driver; `run` does random things."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.random = Random(seed)
        self.is_traced = is_traced
        self.version = self.random.choice([1, 2])
        self.driver = Driver(
            auto_commit=False,
            version=self.version,
            retry_ms=1_000,
            write_timeout_ms=self.random.choice([50, 5_000]),
            id_expiration_ms=self.random.choice([5_000, 10**9]),
            expiry_interval_ms=2_000,
            ids_per_step=1,
        )
        self.driver.on_answer = self.on_answer
        self.timeout_ms = self.random.choice([2_000, 20_000])
        self.log_speed = self.random.choice([15, 60])
        self.marker_speed = self.random.choice([5, 25])
        self.haste = self.random.choice([2, 8])
        self.logs = {tp: Log() for tp in PARTITIONS}
        self.apps: list[App] = []
        self.network: list[Message] = []
        self.waiting: dict[object, Callable[[Outcome], None]] = {}
        self.behind: dict[object, list[Message]] = {}  # an addition that has not arrived: what arrives next
        self.handlers: dict[object, Callable[[Outcome], None]] = {}  # of additions, that wait for the coordinator
        self.additions: dict[str, set[object]] = {name: set() for name in IDS}  # in their handlers
        self.held: list[tuple[set[object], Message]] = []  # ends, and the additions that they wait for
        self.heard: dict[tuple[int, int], int] = {}  # transaction: the coordinator that heard of an addition to it
        self.markers: list[Marker] = []  # on their way
        self.reporting: set[Marker] = set()  # written; the coordinator is not told yet
        self.serials = 0
        self.late: set[Item] = set()  # given up by a producer of version 1
        self.trace: list[str] = []
        self.told: dict[tuple[int, int], bool] = {}
        self.given: dict[ProducerIdentity, int] = {}  # to which application
        self.newest: dict[str, ProducerIdentity] = {}  # that an application was told, by id
        self.committed: dict[str, ProducerIdentity] = {}  # of the coordinator, by id
        self.seen: dict[str, Transaction] = {}  # the value that was looked at last, by id
        self.forgotten: set[int] = set()  # producer ids of ids that have expired
        self.decisions: dict[tuple[int, int], bool] = {}
        if self.random.random() < 0.3:
            self.begin_near_the_last_epoch()
        self.lags = self.random.random() < 0.3
        if self.lags:  # leaders have heard of all partitions, the coordinator's node has not yet
            self.driver.unknown.update(self.random.sample(PARTITIONS, self.random.randint(1, len(PARTITIONS))))
        for name in IDS:
            self.start_app(name)
        choices: list[tuple[int, Callable[[], None]]] = [
            (50, self.act),
            (5, self.hurry),
            (50, self.deliver),
            (self.log_speed, self.commit_write),
            (self.marker_speed, self.write_marker),
            (2, self.fail_write),
            (3, self.give_up_waiting),
            (1, self.lose_message),
            (self.haste, self.pass_time),
            (2, self.fail_over),
            (1, self.crash),
            (8, self.start_another),
            (1, self.run_out_of_ids),
            (2, self.hear_of_partition),
            (1, self.create_again),
        ]
        self.acts = [act for _, act in choices]
        self.weights = list(accumulate(weight for weight, _ in choices))

    def begin_near_the_last_epoch(self) -> None:
        """An id whose epochs are nearly used up."""
        known = Transaction(
            transactional_id=IDS[0],
            producer_id=7,
            producer_epoch=EPOCH_MAX - self.random.randint(1, 5),
            timeout_ms=1_000,
            updated_ms=self.driver.wall_ms,
        )
        self.driver.log.append(encode_transaction(known))
        self.driver.failover()

    def start_app(self, name: str) -> None:
        """Another application with that id; the one before may still be there."""
        self.apps.append(App(len(self.apps), name, self.version))

    def run(self, steps: int = STEPS) -> None:
        """Random steps, and then the end of all faults. Most steps do not concern the coordinator, and none of the
        others changes anything that is looked at."""
        acts, weights, number, driver = self.acts, self.weights, self.random.random, self.driver
        for _ in range(steps):
            acts[bisect_right(weights, number() * weights[-1])]()
            if driver.has_run:
                self.check()
        self.settle()

    def note(self, text: str, *what: object) -> None:
        """Remember what happened, for whoever reads the trace of a failure: of no other schedule is the text made."""
        if self.is_traced:
            self.trace.append(f"{self.driver.now_ms:>7}  {text.format(*what)}")

    # -- applications -----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """An application does the next thing."""
        able = [app for app in self.apps if app.state != "dead" and app.token is None]
        if not able:
            return
        app = self.random.choice(able)
        if app.again is not None:
            again, app.again = app.again, None
            again()
        elif app.state == "new":
            self.init(app)
        elif app.state == "ready" and self.random.random() < 0.1:
            app.state, app.recovers = "new", True
        elif app.state == "ready":
            self.check_nothing_is_open(app)
            app.number += 1
            app.added, app.must_abort, app.state = set(), False, "open"
            app.since_ms = self.driver.now_ms
        elif app.serial > 0 and (app.must_abort or self.random.random() < 0.35):
            app.commits = not app.must_abort and not app.adding and self.random.random() < 0.7
            app.state = "ending"
            self.end(app)
        else:
            self.produce(app, self.random.choice(PARTITIONS))

    def hurry(self) -> None:
        """An application does not wait for an answer to what it adds: it adds another partition, or aborts."""
        able = [app for app in self.apps if app.state == "open" and app.token in app.adding]
        if not able:
            return
        app = self.random.choice(able)
        left = [tp for tp in PARTITIONS if tp not in app.added and tp not in app.adding.values()]
        if left and self.random.random() < 0.5:
            self.add(app, self.random.choice(left))
        else:
            app.commits, app.state = False, "ending"
            self.end(app)

    def init(self, app: App) -> None:
        """InitProducerId."""
        expected = app.identity if app.recovers else None
        app.since_ms = self.driver.now_ms

        def answered(told: Outcome) -> None:
            if told.error is E.NONE:
                newest = self.newest.get(app.name)
                identity = ProducerIdentity(told.producer_id, told.producer_epoch)
                self.on_given(app, identity)
                if expected and newest and self.given[newest] != app.index and identity > newest:
                    raise ViolationError(f"application {app.index} goes on, and is a zombie")
                app.state, app.recovers, app.serial = "ready", False, 0
            else:
                # whoever goes on may repeat its request, but not at another coordinator: no record has the last epoch
                app.has_given_up |= told.error is E.REQUEST_TIMED_OUT or expected is not None
                self.failed(app, told.error, lambda: self.init(app))

        self.ask(app, "init", answered, lambda token: self.driver.init(app.name, expected, self.timeout_ms, token))

    def on_given(self, app: App, identity: ProducerIdentity) -> None:
        """The application was told what it is from now on."""
        app.identity = identity
        before = self.given.setdefault(identity, app.index)
        if before != app.index:
            raise ViolationError(f"{identity} was given to applications {before} and {app.index}")
        if identity.producer_id not in self.forgotten:  # the answer may come later than the end of the id
            self.newest[app.name] = max(identity, self.newest.get(app.name, identity))
        self.driver.has_run = True

    def produce(self, app: App, tp: TopicPartition) -> None:
        """Write a record: with version 1 after the partition was added, with version 2 the leader adds it."""
        assert app.identity is not None
        if app.version == 1 and tp not in app.added:
            self.add(app, tp)
            return
        self.serials += 1
        self.send_item(app, tp, Item(app.index, app.number, self.serials), app.identity)

    def add(self, app: App, tp: TopicPartition) -> None:
        """AddPartitionsToTxn of a client of version 1."""
        producer, transaction = app.identity, (app.index, app.number)
        assert producer is not None

        def answered(told: Outcome) -> None:
            if app.state != "open":
                return  # it aborts, whatever the answer
            if told.error is E.NONE:
                app.added.add(tp)
                app.serial += 1
            elif not is_temporary(told.error) or (app.token is None and app.again is None):
                self.failed(app, told.error, lambda: self.add(app, tp))

        def arrive(token: object) -> None:
            self.heard[transaction] = self.driver.epoch
            self.additions[app.name].add(token)
            self.handle_addition(app.name, tp, producer, self.driver.epoch, token)

        self.ask(app, f"add {tp}", answered, arrive)
        app.adding[app.token] = tp

    def handle_addition(
        self, name: str, tp: TopicPartition, producer: ProducerIdentity, epoch: int, token: object
    ) -> None:
        """The broker asks its coordinator, again while the transaction before is not over, and only for a while."""

        def answered(told: Outcome) -> None:
            if told.error is E.CONCURRENT_TRANSACTIONS and token in self.waiting and self.random.random() < 0.9:
                self.network.append((AGAIN, lambda: self.handle_addition(name, tp, producer, epoch, token)))
                return
            self.additions[name].discard(token)
            for under_way, _ in self.held:
                under_way.discard(token)
            self.network += [message for under_way, message in self.held if not under_way]
            self.held = [each for each in self.held if each[0]]
            self.on_answer(token, told)

        if epoch != self.driver.epoch:
            answered(Outcome(E.NOT_COORDINATOR))
            return
        asked = object()
        self.handlers[asked] = answered
        self.driver.add(producer, tp, name=name, version=1, token=asked)

    def send_item(self, app: App, tp: TopicPartition, item: Item, producer: ProducerIdentity) -> None:
        """Produce, and again until it is answered: the leader knows a repeated item."""

        def answered(told: Outcome) -> None:
            if told.error is E.NONE:
                app.serial += 1
            elif told.error in (E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE):
                self.check_peace(app, told.error)
                app.must_abort = True
                app.serial += 1
            elif app.version == 1 and told.error is E.REQUEST_TIMED_OUT:
                app.must_abort = True
                app.serial += 1
                self.late.add(item)
            else:
                self.failed(app, told.error, lambda: self.send_item(app, tp, item, producer))

        def arrive(token: object) -> None:
            self.at_leader(app, tp, item, producer, token)

        self.ask(app, f"produce {tp} {item}", answered, arrive)

    def at_leader(self, app: App, tp: TopicPartition, item: Item, producer: ProducerIdentity, token: object) -> None:
        """The leader asks the coordinator unless the transaction is open here, and then appends."""
        log = self.logs[tp]
        known = log.of(producer.producer_id)
        if (known.open and known.epoch == producer.epoch) or item in log.fates or producer.epoch < known.epoch:
            self.answer_produce(app, tp, item, producer, None, token)
            return
        self.ask_coordinator(app, tp, item, producer, token)

    def ask_coordinator(
        self,
        app: App,
        tp: TopicPartition,
        item: Item,
        producer: ProducerIdentity,
        token: object,
        before: int | None = None,
    ) -> None:
        """The leader notes how often the producer's transactions have ended, and asks: that takes its time.

        ``before``: what it had noted, if it asks again because the transaction before was not over.
        """
        verified_at = self.noted(self.logs[tp].of(producer.producer_id), before)
        arrive = partial(self.at_coordinator, app, tp, item, producer, verified_at, token)
        self.network.append((f"verify {item}", arrive))

    def at_coordinator(
        self, app: App, tp: TopicPartition, item: Item, producer: ProducerIdentity, verified_at: int, token: object
    ) -> None:
        """Is the partition part of the transaction? With version 2 it is added."""
        if app.version == 1:
            error = self.driver.coordinator.verify_partitions(app.name, producer, [tp])[tp]
            later = f"verified {error.name} {item}"
            self.network.append((later, lambda: self.verified(app, tp, item, producer, verified_at, error, token)))
            return

        def answered(told: Outcome) -> None:
            self.verified(app, tp, item, producer, verified_at, told.error, token)

        asked = object()
        self.waiting[asked] = answered
        self.driver.add(producer, tp, name=app.name, version=2, token=asked)

    def verified(
        self,
        app: App,
        tp: TopicPartition,
        item: Item,
        producer: ProducerIdentity,
        verified_at: int,
        error: ErrorCode,
        token: object,
    ) -> None:
        """The coordinator has answered the leader, which waits for the end of the transaction before."""
        if error is E.NONE:
            self.answer_produce(app, tp, item, producer, verified_at, token)
        elif error is E.CONCURRENT_TRANSACTIONS and app.version >= 2 and self.random.random() < 0.9:
            self.ask_coordinator(app, tp, item, producer, token, verified_at)
        else:
            self.answer(token, Outcome(E.INVALID_PRODUCER_EPOCH if error is E.PRODUCER_FENCED else error))

    def noted(self, known: Written, before: int | None) -> int:
        """The end that was waited for is no end of what comes now: the leader notes it anew each time it asks."""
        return known.ends

    def asks_again(self) -> bool:
        """A marker came since the leader asked: maybe that of the transaction before."""
        return True

    def answer_produce(
        self,
        app: App,
        tp: TopicPartition,
        item: Item,
        producer: ProducerIdentity,
        verified_at: int | None,
        token: object,
    ) -> None:
        """Append, unless the log says no."""
        log = self.logs[tp]
        is_new = item not in log.fates
        error = log.append(item, producer, verified_at)
        if error is E.INVALID_TXN_STATE and self.asks_again():
            self.ask_coordinator(app, tp, item, producer, token)
            return
        self.note("log {}: {} in {}: {.name}", tp, item, producer, error)
        newest = self.newest.get(app.name)
        if error is E.NONE and is_new and newest is not None and self.given[newest] != app.index:
            raise ViolationError(f"{item} of a zombie got into {tp}")
        self.answer(token, Outcome(error))

    def end(self, app: App) -> None:
        """EndTxn."""
        producer, commits = app.identity, app.commits
        assert producer is not None

        def answered(told: Outcome) -> None:
            self.forget_additions(app)
            if told.error is not E.NONE:
                self.failed(app, told.error, lambda: self.end(app))
                return
            self.told[app.index, app.number] = commits
            app.state, app.serial = "ready", 0
            if app.version >= 2:
                self.on_given(app, ProducerIdentity(told.producer_id, told.producer_epoch))

        def arrive(token: object) -> None:
            self.driver.end(producer, commits=commits, name=app.name, version=app.version, token=token)

        def arrive_in_order(token: object) -> None:
            under_way = self.under_way(app.name)
            if under_way:
                epoch = self.driver.epoch
                self.held.append((under_way, ("end", lambda: self.go_on(token, epoch, arrive))))
            else:
                arrive(token)

        self.ask(app, f"end {app.number} {'commit' if commits else 'abort'}", answered, arrive_in_order)

    def under_way(self, name: str) -> set[object]:
        """The additions that an end waits for."""
        return set(self.additions[name])

    def go_on(self, token: object, epoch: int, arrive: Callable[[object], None]) -> None:
        """An end has waited; meanwhile its client may be gone, and the coordinator elsewhere."""
        if token in self.waiting and epoch == self.driver.epoch:
            arrive(token)
        else:
            self.on_answer(token, Outcome(E.NOT_COORDINATOR))

    def forget_additions(self, app: App) -> None:
        """Nothing that the application adds is on its way any more: answers come in order, or its connection broke."""
        for token in app.adding:
            if token is not app.token:
                self.waiting.pop(token, None)
        app.adding.clear()

    def failed(self, app: App, error: ErrorCode, again: Callable[[], None]) -> None:
        """Try again, or give up for good."""
        if is_temporary(error):
            app.again = again
            return
        has_not_heard = self.heard.get((app.index, app.number)) != self.driver.epoch and not app.added
        is_excused = error is E.INVALID_TXN_STATE and app.state == "ending" and has_not_heard
        app.state = "dead"
        if not is_excused:
            self.check_peace(app, error)

    def check_nothing_is_open(self, app: App) -> None:
        """Nobody would end what opens behind its end, and its time-out would fence the application."""
        entry = self.driver.coordinator.shard.entries.get(app.name)
        now = None if entry is None else entry.transaction
        if now is not None and now.identity == app.identity and now.state is TransactionState.ONGOING:
            raise ViolationError(f"application {app.index} has ended transaction {app.number}, and one is open")

    def check_peace(self, app: App, error: ErrorCode) -> None:
        """Whoever has its id for itself, and is not slow, may go on."""
        is_alone = sum(each.name == app.name for each in self.apps) == 1 and not app.has_given_up
        may_expire = self.driver.settings.id_expiration_ms < 60_000
        if is_alone and not may_expire and self.driver.now_ms - app.since_ms < self.timeout_ms:
            raise ViolationError(f"application {app.index} is alone, and told {error.name}")

    # -- the network ------------------------------------------------------------------------------------------------

    def ask(self, app: App, what: str, answered: Callable[[Outcome], None], arrive: Callable[[Any], object]) -> None:
        """Send a request; it arrives some time."""
        token = object()
        app.token = token

        def on_answer(told: Outcome) -> None:
            self.note("app {} ({}) is told {.name} to {}", app.index, app.name, told.error, what)
            app.adding.pop(token, None)
            if app.token is token:
                app.token = None
            if app.state != "dead":
                answered(told)

        def on_arrival() -> None:
            self.network += self.behind.pop(token, ())
            if may_be_late or token in self.waiting:
                arrive(token)

        self.waiting[token] = on_answer
        self.note("app {} ({}, {}) asks {}", app.index, app.name, app.identity, what)
        may_be_late = self.version >= 2 or what.startswith("produce")
        before = next((each for each in reversed(app.adding) if each in self.behind), None)
        (self.network if before is None else self.behind[before]).append((what, on_arrival))
        if what.startswith("add"):
            self.behind[token] = []

    def answer(self, token: object, told: Outcome) -> None:
        """An answer arrives, if anybody still waits for it."""
        waiting = self.waiting.pop(token, None)
        if waiting is not None:
            waiting(told)

    def on_answer(self, token: object, told: Outcome) -> None:
        """The coordinator answers: later, or never; at once who waits for it in the broker."""
        handler = self.handlers.pop(token, None)
        if handler is not None:
            handler(told)
            return
        self.network.append(("answer", lambda: self.answer(token, told)))

    def deliver(self) -> None:
        """Any message arrives."""
        if self.network:
            self.network.pop(self.random.randrange(len(self.network)))[1]()

    def give_up_waiting(self) -> None:
        """An application hears nothing in time. With version 2 its request may still be on its way."""
        able = [app for app in self.apps if app.token in self.waiting and app.state != "dead"]
        if able:
            app = self.random.choice(able)
            self.forget_additions(app)
            self.answer(app.token, Outcome(E.REQUEST_TIMED_OUT))

    def lose_message(self) -> None:
        """A message is lost; reports of markers are not, for their senders send again."""
        able = [at for at, (what, _) in enumerate(self.network) if what not in ("marked", AGAIN)]
        if able:
            self.network.pop(self.random.choice(able))

    def crash(self) -> None:
        """An application dies; what it sent may still arrive."""
        able = [app for app in self.apps if app.state != "dead"]
        if able:
            app = self.random.choice(able)
            app.state = "dead"
            if app.token is not None:
                self.answer(app.token, Outcome(E.REQUEST_TIMED_OUT))
            self.note("app {} dies", app.index)

    def start_another(self) -> None:
        """An id gets another application; mostly the one before is dead."""
        name = self.random.choice(IDS)
        is_alive = any(app.name == name and app.state != "dead" for app in self.apps)
        if not is_alive or self.random.random() < 0.1:
            self.start_app(name)

    # -- markers ----------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """What the coordinator orders is on its way, and its decisions are noted. A partition that its node has not
        heard of gets no marker."""
        known = {each.key for each in (*self.markers, *self.reporting)}
        for markers in self.driver.marking:
            decided = self.decisions.setdefault((markers.producer_id, markers.producer_epoch), markers.commits)
            if self.version >= 2 and decided != markers.commits:
                raise ViolationError(f"{markers.transactional_id} was decided both ways")
            wanted = (Marker(markers, self.driver.epoch, tp) for tp in sorted(markers.partitions))
            for each in wanted:
                if each.key in known:
                    continue
                if each.partition in self.driver.unknown:
                    self.send_report(each)  # it counts as deleted
                else:
                    self.markers.append(each)

    def write_marker(self) -> None:
        """A marker arrives; the coordinator hears of it later. With version 2 it may arrive again."""
        if not self.markers:
            return
        marker = self.markers.pop(self.random.randrange(len(self.markers)))
        markers, epoch, tp, is_again = marker
        error = self.logs[tp].end(markers, epoch)
        self.driver.has_run = True  # a marker that was refused is wanted again
        self.note("log {}: marker of {} {}: {.name}", tp, markers.transactional_id, markers.producer_epoch, error)
        if error is E.INVALID_PRODUCER_EPOCH and epoch == self.driver.epoch and not is_again:
            raise ViolationError(f"the marker of {markers.transactional_id} is refused by {tp}")
        if error is E.NONE and self.version >= 2 and self.random.random() < 0.2:
            self.markers.append(marker._replace(is_again=True))
        if error is E.NONE:
            self.send_report(marker)
            if self.version >= 2 and self.random.random() < 0.5:
                self.network.append(("marked again", lambda: self.report(marker)))

    def send_report(self, marker: Marker) -> None:
        """A partition has its marker, or is there no more; the coordinator hears of that later."""
        self.reporting.add(marker)
        self.network.append(("marked", lambda: self.report(marker)))

    def report(self, marker: Marker) -> None:
        """The coordinator hears of a marker that it ordered."""
        self.reporting.discard(marker)
        markers, epoch, tp, _is_again = marker
        if epoch != self.driver.epoch:
            return
        left = [replace_partitions(each, tp) if each[:3] == markers[:3] else each for each in self.driver.marking]
        self.driver.marking = [each for each in left if each.partitions]
        producer = ProducerIdentity(markers.producer_id, markers.producer_epoch)
        self.driver.run(self.driver.coordinator.on_marked(markers.transactional_id, producer, [tp], self.driver.now_ms))

    # -- the log of the coordinator, and time -----------------------------------------------------------------------

    def commit_write(self) -> None:
        """The oldest write is committed."""
        if self.driver.appended:
            self.driver.committed()

    def fail_write(self) -> None:
        """The youngest write was not appended."""
        if self.driver.appended:
            self.driver.failed(self.random.choice([E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR]), -1)

    def pass_time(self) -> None:
        """Timers fire."""
        self.driver.ids_at_hand = True
        may_expire = self.driver.settings.id_expiration_ms < 60_000
        ms = self.random.choice([10, 500, 3_000, *([8_000] if may_expire else ())])
        self.driver.advance(ms)

    def fail_over(self) -> None:
        """Another coordinator takes the shard over; of the writes under way the first ones survive."""
        survive = self.random.randint(0, len(self.driver.appended))
        self.note("failover, {} of {} writes survive", survive, len(self.driver.appended))
        self.driver.failover(survive)
        self.driver.log = compacted(self.driver.log)
        if self.version == 1:  # requests of nodes end with their connections
            self.markers.clear()
            self.reporting.clear()

    def run_out_of_ids(self) -> None:
        """No producer id is at hand, until time passes."""
        self.driver.ids_at_hand = False

    def hear_of_partition(self) -> None:
        """The metadata of the coordinator's node come later than those of leaders. What it has heard of the next
        coordinator has, too: it was elected later."""
        if self.driver.unknown:
            self.driver.unknown.discard(self.random.choice(sorted(self.driver.unknown)))

    def create_again(self) -> None:
        """A partition that has nothing of an open transaction is deleted and created again. The coordinator's node
        has heard of the first only. Leaders have asked about the former partition, and ask again."""
        idle = [tp for tp in PARTITIONS if not any(known.open for known in self.logs[tp].written.values())]
        if self.lags and idle:
            tp = self.random.choice(idle)
            self.driver.unknown.add(tp)
            for known in self.logs[tp].written.values():
                known.ends += 1
            self.note("{} is created again", tp)

    # -- what must hold ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """After every step of the coordinator, and whatever else concerns what is looked at here."""
        self.driver.has_run = False
        self.collect()
        entries = self.driver.coordinator.shard.entries
        for name in [name for name in self.seen if name not in entries]:  # it has expired: nobody knows who was newer
            gone = self.seen.pop(name)
            self.forgotten |= {gone.producer_id, gone.previous_producer_id, gone.next_producer_id}
            self.newest.pop(name, None)
        for name, entry in entries.items():
            if entry.transaction is self.seen.get(name):
                continue
            self.seen[name] = entry.transaction
            identity = entry.transaction.identity
            if identity.epoch >= 0 and identity < self.committed.get(name, identity):
                raise ViolationError(f"{name} fell from {self.committed[name]} to {identity}")
            self.committed[name] = max(identity, self.committed.get(name, identity))

    def settle(self) -> None:
        """Faults end: everything arrives, transactions time out, and then everything is over."""
        self.note("settling")
        for app in self.apps:
            app.state = "dead"
        self.driver.ids_at_hand = True
        self.driver.unknown.clear()
        for _ in range(400):
            while self.network:
                self.deliver()
            while self.driver.appended:
                self.driver.committed()
            self.check()
            while self.markers:
                self.write_marker()
                self.check()
            if not (self.network or self.driver.appended or self.markers):
                if self.is_over():
                    break
                self.driver.advance(1_000)
        else:
            raise ViolationError("a transaction hangs")
        self.check_fates()

    def is_over(self) -> bool:
        """No transaction is under way, in the coordinator or in a log."""
        states = {entry.transaction.state for entry in self.driver.coordinator.shard.entries.values()}
        under_way = states & {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
        return not under_way and not self.driver.appended

    def check_fates(self) -> None:
        """All or nothing, and as was told."""
        fates: dict[tuple[int, int], set[bool]] = {}
        for tp, log in self.logs.items():
            for item, fate in log.fates.items():
                if fate is None:
                    raise ViolationError(f"{item} hangs in {tp}")
                if item not in self.late:
                    fates.setdefault((item.app, item.number), set()).add(fate)
        for key, found in fates.items():
            if len(found) > 1:
                raise ViolationError(f"transaction {key} is committed in part")
            if key in self.told and found != {self.told[key]}:
                raise ViolationError(f"transaction {key} was told to be {self.told[key]}, and is {found}")


def is_temporary(error: ErrorCode) -> bool:
    """The client tries again."""
    return error in TRY_AGAIN or error is E.REQUEST_TIMED_OUT


def replace_partitions(markers: SendMarkers, done: TopicPartition) -> SendMarkers:
    """Without the one that has its marker."""
    return markers._replace(partitions=markers.partitions - {done})


def compacted(log: list[Record]) -> list[Record]:
    """What a cleaner leaves: the next coordinator reads that, and all that is written from now on."""
    kept: dict[bytes, Record] = {}
    for record in log:
        if record.value is None:
            kept.pop(record.key, None)
        else:
            kept[record.key] = record
    return list(kept.values())


def run(seed: int) -> World:
    """One schedule."""
    world = World(seed)
    world.run()
    return world


def trace_of(seed: int) -> str:
    """Every step of a schedule."""
    world = World(seed, is_traced=True)
    try:
        world.run()
    except AssertionError as violation:
        world.note("VIOLATION: {}", violation)
    return "\n".join(world.trace)


__all__ = ["ViolationError", "World", "run", "trace_of"]
