"""Clients of confluent-kafka, which are librdkafka's."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from minikafka.chaos.rounds.loads import DRAIN_S, Load, Pace, Worker
from minikafka.chaos.rounds.reading import (
    AT_ONCE,
    COMMON,
    TICK_S,
    assign_all,
    items_of,
    make_consumer,
    silent,
)
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC, place, value_of
from minikafka.chaos.rounds.transaction_load import ABORTED, PATIENCE_S, RECORDS, TRANSACTION_TIMEOUT_MS

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

LIFE_S: Final = (3.0, 15.0)


class Writer(Worker):
    """Sends to all partitions in turn, with acks=all and idempotence."""

    def __init__(self, name: str, load: Load, rate: float) -> None:
        super().__init__(name, load)
        self._rate = rate
        self._number = 0
        self._told: list[list[Any]] = []
        self._untold: list[list[Any]] = []

    def work(self) -> None:
        life = 0
        while not self.load.sending_is_over.is_set():
            life += 1
            self._live(f"{self.name}.{life}")

    def _live(self, process: str) -> None:
        """One producer, until it is fatally wrong or the load is over."""
        from confluent_kafka import KafkaException, Producer

        bumps = EpochBumps()
        settings = {"linger.ms": 5, "acks": "all", "enable.idempotence": True, "message.timeout.ms": 60_000}
        settings["debug"] = "eos"  # where it says so
        by_librdkafka = self.load.cluster.by_librdkafka
        producer = Producer(
            {**COMMON, **settings, **by_librdkafka, "error_cb": lambda error: None}, logger=bumps.logger
        )
        pace = Pace(self._rate)
        try:
            while not self.load.sending_is_over.is_set():
                self._send(producer, process, pace.due())
                producer.poll(TICK_S)
                self._record(process)
                for why in bumps.take():
                    self.note(process, "info", "fault", why)
        except (KafkaException, SystemError) as error:  # SystemError: it called a delivery report with the other one
            self.note(process, "info", "fault", f"its producer gave up: {error}")
        deadline = time.monotonic() + DRAIN_S
        while len(producer) and time.monotonic() < deadline:
            with suppress(KafkaException, SystemError):
                producer.poll(TICK_S)
            self._record(process)

    def _send(self, producer: Producer, process: str, count: int) -> None:
        if not count:
            return
        items = []
        for _ in range(count):
            items.append((self._number % PARTITIONS, f"{process}-{self._number}"))
            self._number += 1
        self.note(process, "invoke", "send", [[place(TOPIC, partition), key] for partition, key in items])
        for partition, key in items:
            while True:
                try:
                    producer.produce(TOPIC, value_of(key), key, partition, on_delivery=self._on_delivery)
                    break
                except BufferError:  # its queue is full while the cluster takes nothing
                    producer.poll(TICK_S)
                    self._record(process)

    def _on_delivery(self, error: Any, message: Message) -> None:
        item = _sent(message)
        if error is not None:  # it may be written nevertheless
            self._untold.append(item)
        else:
            self._told.append([*item, -1 if message.offset() is None else message.offset()])

    def _record(self, process: str) -> None:
        told, self._told = self._told, []
        untold, self._untold = self._untold, []
        if told:
            self.note(process, "ok", "send", told)
        if untold:
            self.note(process, "info", "send", untold)


class EpochBumps(logging.Handler):
    """What librdkafka's log says of new producer epochs: then it sends again, for all partitions, what has no answer.

    A broker cannot tell that from new records (librdkafka 4953), so whoever looks for the cause of a duplicate needs to
    know.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self.logger = logging.Logger("chaos")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line.startswith("DRAIN ") and "epoch bump" in line:
            self._lines.append(line.partition("]: ")[2])

    def take(self) -> list[str]:
        """The lines since the last time."""
        lines, self._lines = self._lines, []
        return lines


class Follower(Worker):
    """Reads along from all partitions, without a group."""

    def __init__(self, name: str, load: Load, topic: str, *, committed: bool) -> None:
        super().__init__(name, load)
        self._topic = topic
        self._suffix = "_committed" if committed else ""
        self._isolation = "read_committed" if committed else "read_uncommitted"

    def work(self) -> None:
        consumer = make_consumer(self.load.cluster, self._isolation)
        assign_all(consumer, self._topic)
        partitions = [[place(self._topic, n), 0] for n in range(PARTITIONS)]
        self.note(self.name, "ok", f"assign{self._suffix}", partitions)
        while not self.load.reading_is_over.is_set():
            if handed := items_of(consumer.consume(AT_ONCE, 0.2)):
                self.note(self.name, "ok", f"poll{self._suffix}", handed)
        consumer.close()


class Member(Worker):
    """A member of a group, and its successors."""

    def __init__(self, name: str, load: Load, group: str, protocol: str) -> None:
        super().__init__(name, load)
        self._group, self._protocol = group, protocol

    def work(self) -> None:
        life = 0
        while not self.load.reading_is_over.is_set():
            life += 1
            self._live(f"{self.name}.{life}")

    def _live(self, process: str) -> None:
        def on_assign(consumer: Any, partitions: list[Any]) -> None:
            self.note(process, "ok", "assign", [place(each.topic, each.partition) for each in partitions])

        def on_commit(error: Any, partitions: list[Any]) -> None:
            for is_done in (True, False):
                told = [each for each in partitions if (error is None and each.error is None) is is_done]
                offsets = [(place(each.topic, each.partition), each.offset) for each in told if each.offset > 0]
                self.load.note_committed(process, offsets, is_done=is_done)

        consumer = make_consumer(
            self.load.cluster,
            "read_uncommitted",
            on_commit=on_commit,
            group_id=self._group,
            group_protocol=self._protocol,
            enable_auto_commit=True,
            auto_commit_interval_ms=500,
            auto_offset_reset="earliest",
            **({"session_timeout_ms": 6_000} if self._protocol == "classic" else {}),
        )
        consumer.subscribe([TOPIC], on_assign=on_assign)
        ends_at = time.monotonic() + self.load.rng.uniform(*LIFE_S)
        while not self.load.reading_is_over.is_set():
            if time.monotonic() > ends_at and not self.load.sending_is_over.is_set():
                break
            if handed := items_of(consumer.consume(AT_ONCE, 0.2)):
                self.note(process, "ok", "poll", handed)
        consumer.close()


class OutOfDateError(Exception):
    """This producer cannot go on; a new one takes its id over."""


class Transactor(Worker):
    """A producer with a transactional id, and its successors."""

    def __init__(self, name: str, load: Load, rate: float) -> None:
        super().__init__(name, load)
        self._rate = rate
        self._number = 0
        self._offsets: dict[str, int] = {}
        self._lives = 0

    def work(self) -> None:
        while not self.load.sending_is_over.is_set():
            self._lives += 1
            process = f"{self.name}.{self._lives}"
            self.note(process, "invoke", "take_over", [self.name])
            producer = self._producer()
            try:
                self._until_done(lambda: producer.init_transactions(PATIENCE_S))  # noqa: B023 - called at once
                self.note(process, "ok", "take_over", [self.name])
                self._live(process, producer)
            except OutOfDateError as error:
                self.note(process, "info", "fault", f"its producer gave up: {error}")
                time.sleep(10 * TICK_S)

    def _live(self, process: str, producer: Producer) -> None:
        """Transactions of one producer, until the load is over. OutOfDateError: it cannot go on."""
        pace = Pace(self._rate)
        due = 0
        while not self.load.sending_is_over.is_set():
            due += pace.due()
            if due < RECORDS:
                time.sleep(TICK_S)
                continue
            due -= RECORDS
            items = [self._next(process) for _ in range(RECORDS)]
            self._transact(process, producer, items, aborts=self.load.rng.random() < ABORTED)

    def _next(self, process: str) -> tuple[int, str]:
        self._number += 1
        return self._number % PARTITIONS, f"{process}-{self._number}"

    def _transact(self, process: str, producer: Producer, items: list[tuple[int, str]], *, aborts: bool) -> None:
        """One transaction. OutOfDateError: nobody knows, or the producer cannot go on."""
        from confluent_kafka import KafkaException

        name = f"{process}/{self._number}"
        self._offsets.clear()
        self.note(process, "invoke", "begin", [name])
        self._until_done(producer.begin_transaction)
        sent = [[place(TOPIC, partition), key] for partition, key in items]
        self.note(process, "invoke", "send", sent)
        try:
            for partition, key in items:
                producer.produce(TOPIC, value_of(key), key, partition, on_delivery=self._on_delivery)
            if aborts or producer.flush(PATIENCE_S):
                self._abort(process, producer, name, sent)
                return
            self.note(process, "invoke", "commit", [name])
            self._until_done(lambda: producer.commit_transaction(PATIENCE_S))
        except (KafkaException, BufferError) as error:
            why = error.args[0]
            if getattr(why, "fatal", lambda: False)():
                raise OutOfDateError(str(why)) from error
            self._abort(process, producer, name, sent)
            return
        except SystemError as error:
            # confluent-kafka 2.16 called a delivery report while it had an exception of its own (seen once in 60,000
            # records): what became of the transaction is not known.
            raise OutOfDateError(str(error)) from error
        self.note(process, "ok", "commit", [name])
        self.note(process, "ok", "send", [[*item, self._offsets.get(item[1], -1)] for item in sent])

    def _abort(self, process: str, producer: Producer, name: str, sent: list[list[str]]) -> None:
        self._until_done(lambda: producer.abort_transaction(PATIENCE_S))
        self.note(process, "fail", "commit", [name])
        self.note(process, "fail", "send", sent)

    def _until_done(self, step: Any) -> None:
        """librdkafka goes on with the same request when it is asked again."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + DRAIN_S
        while True:
            try:
                step()
                return
            except KafkaException as error:
                why = error.args[0]
                if why.fatal() or not (why.retriable() or why.txn_requires_abort()):
                    raise OutOfDateError(str(why)) from error
                if why.txn_requires_abort():
                    raise
                if time.monotonic() > deadline:
                    raise OutOfDateError(f"no end within {DRAIN_S:.0f} s: {why}") from error

    def _producer(self) -> Producer:
        from confluent_kafka import Producer

        own = {"transactional.id": self.name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "linger.ms": 2}
        return Producer(
            {**COMMON, **own, **self.load.cluster.by_librdkafka, "error_cb": lambda error: None}, logger=silent()
        )

    def _on_delivery(self, error: Any, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            self._offsets[_sent(message)[1]] = offset


def _sent(message: Message) -> list[str]:
    """Place and id, by a delivery report."""
    return [place(message.topic(), message.partition()), (message.key() or b"").decode()]


class ConfluentClients:
    """See ``loads.Clients``."""

    protocols = ("classic", "consumer")

    def __init__(self) -> None:
        import confluent_kafka

        self.name = f"confluent-kafka {version('confluent-kafka')}, librdkafka {confluent_kafka.libversion()[0]}"

    def writer(self, name: str, load: Load, rate: float) -> Worker:
        """See ``loads.Clients``."""
        return Writer(name, load, rate)

    def follower(self, name: str, load: Load, topic: str, *, committed: bool = False) -> Worker:
        """See ``loads.Clients``."""
        return Follower(name, load, topic, committed=committed)

    def member(self, name: str, load: Load, group: str, protocol: str) -> Worker:
        """See ``loads.Clients``."""
        return Member(name, load, group, protocol)

    def transactor(self, name: str, load: Load, rate: float) -> Worker:
        """See ``loads.Clients``."""
        return Transactor(name, load, rate)
