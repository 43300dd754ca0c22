"""Load for a cluster that is being broken: clients that write and read, and the history of what they were told.

A record's key is its id in the history, its value some bytes made from it. The clients are librdkafka's, in threads.
What a load promises, the ledger judges: each record that was acknowledged is there once, at its place, for every
reader.
"""

from __future__ import annotations

import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, ClassVar, Final
from zlib import crc32

from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.report.run import Finding

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

TOPIC: Final = "load"
PARTITIONS: Final = 6
TICK_S: Final = 0.02
CLIENT_ID: Final = "chaos"
DRAIN_S: Final = 120.0
STALL_S: Final = 30.0
AT_ONCE: Final = 2_000
COMMON: Final = {
    "client.id": CLIENT_ID,
    "log_level": 0,
    "socket.timeout.ms": 5_000,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
}
"""A request to a node that hangs ends before the spell does."""


def value_of(key: str) -> bytes:
    """100 bytes that belong to a record."""
    return (key + "/" + f"{crc32(key.encode()):08x}" * 12)[:100].encode()


def identity(message: Message) -> str:
    """The id of a record that was handed out; another one, if it is not what was sent."""
    key = (message.key() or b"").decode(errors="replace")
    return key if message.value() == value_of(key) else f"{key}#damaged"


def place(message: Message) -> str:
    """``topic-partition``."""
    return f"{message.topic()}-{message.partition()}"


def silent() -> logging.Logger:
    """A logger for clients: brokers go away here on purpose."""
    logger = logging.Logger("chaos")
    logger.addHandler(logging.NullHandler())
    return logger


class Worker(Thread, ABC):
    """A thread of a load, with a client that it makes, ends, and makes again when it is fatally wrong."""

    def __init__(self, name: str, load: Load) -> None:
        super().__init__(name=name, daemon=True)
        self.load = load
        self.history = load.history
        self.failure: BaseException | None = None

    def run(self) -> None:
        """The thread."""
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def work(self) -> None:
        """Until the load is over."""


class Load(ABC):
    """One kind of load: its topics, its threads, and who reads all of it at the end."""

    name: ClassVar[str]
    topics: ClassVar[tuple[str, ...]] = (TOPIC,)
    is_transactional: ClassVar[bool] = False
    group: ClassVar[str | None] = None
    client: ClassVar[str] = "librdkafka"

    def __init__(self, servers: str, history: History, rate: int, seed: int) -> None:
        self.servers = servers
        self.history = history
        self.rate = rate
        self.rng = random.Random(seed)
        self.sending_is_over = Event()
        self.reading_is_over = Event()
        self.acknowledged = 0
        self.read = 0
        self.writers: list[Worker] = []
        self.readers: list[Worker] = []

    def counts(self) -> tuple[int, int]:
        """Records acknowledged and read so far."""
        return self.acknowledged, self.read

    # -- what a runner does -----------------------------------------------------------------------------------------

    def create_topics(self, replication_factor: int, in_sync: int) -> None:
        """As any user would. ClusterError: they cannot be made."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        config = {"min.insync.replicas": str(in_sync), "segment.bytes": str(4 << 20)}
        new = [NewTopic(each, PARTITIONS, replication_factor=replication_factor, config=config) for each in self.topics]
        for topic, outcome in admin.create_topics(new).items():
            try:
                outcome.result(timeout=30)
            except KafkaException as error:
                raise ClusterError(f"could not create the topic {topic}: {error}") from error

    def start(self) -> None:
        """Begin."""
        self.writers, self.readers = self.make_writers(), self.make_readers()
        for worker in (*self.readers, *self.writers):
            worker.start()

    def stop_sending(self) -> None:
        """Send no more, and wait until the fate of all is known, as far as clients find it out."""
        self.sending_is_over.set()
        self._end(self.writers)

    def stop_reading(self) -> None:
        """End those who read along."""
        self.reading_is_over.set()
        self._end(self.readers)

    def abandon(self) -> None:
        """End everything soon."""
        self.sending_is_over.set()
        self.reading_is_over.set()

    @abstractmethod
    def make_writers(self) -> list[Worker]:
        """Threads that send."""

    @abstractmethod
    def make_readers(self) -> list[Worker]:
        """Threads that read along."""

    def drain(self) -> None:
        """Read everything from the beginning to the end, once no write is under way."""
        topic = self.topics[-1]
        for committed in (False, True) if self.is_transactional else (False,):
            read_all(self.servers, topic, self.history, committed=committed)

    def settings(self) -> dict[str, str]:
        """What a report names, beside the cluster's settings."""
        return {"partitions": str(PARTITIONS), "rate": f"{self.rate:,} records a second"}

    def findings(self) -> list[Finding]:
        """What else must hold; the ledger is judged apart."""
        return []

    # -- for threads ------------------------------------------------------------------------------------------------

    def _end(self, workers: list[Worker]) -> None:
        deadline = time.monotonic() + DRAIN_S
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if worker.is_alive():
                raise ClusterError(f"{worker.name} did not end within {DRAIN_S:.0f} s; its client hangs")
            if worker.failure is not None:
                raise worker.failure


class Pace:
    """How many records are due, at an even rate; at most a second's worth at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._due = 0.0
        self._last = time.monotonic()

    def due(self) -> int:
        """Since the last call."""
        now = time.monotonic()
        self._due = min(self._due + (now - self._last) * self._rate, self._rate)
        self._last = now
        count = int(self._due)
        self._due -= count
        return count


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
        from confluent_kafka import Producer

        fatal: list[Any] = []
        settings = {"linger.ms": 5, "acks": "all", "enable.idempotence": True, "message.timeout.ms": 60_000}

        def on_error(error: Any) -> None:
            if error.fatal():
                fatal.append(error)

        producer = Producer(
            {**COMMON, **settings, "bootstrap.servers": self.load.servers, "error_cb": on_error}, logger=silent()
        )
        pace = Pace(self._rate)
        while not (self.load.sending_is_over.is_set() or fatal):
            self._send(producer, process, pace.due())
            producer.poll(TICK_S)
            self._record(process)
        if fatal:
            self.history.append(process, "info", "fault", f"its producer gave up: {fatal[0]}")
        deadline = time.monotonic() + DRAIN_S
        while len(producer) and time.monotonic() < deadline:
            producer.poll(TICK_S)
            self._record(process)

    def _send(self, producer: Producer, process: str, count: int) -> None:
        if not count:
            return
        items = []
        for _ in range(count):
            items.append((self._number % PARTITIONS, f"{process}-{self._number}"))
            self._number += 1
        self.history.append(process, "invoke", "send", [[f"{TOPIC}-{partition}", key] for partition, key in items])
        for partition, key in items:
            while True:
                try:
                    producer.produce(TOPIC, value_of(key), key, partition, on_delivery=self._on_delivery)
                    break
                except BufferError:  # its queue is full while the cluster takes nothing
                    producer.poll(TICK_S)
                    self._record(process)

    def _on_delivery(self, error: Any, message: Message) -> None:
        item = [place(message), identity(message)]
        if error is not None:  # it may be written nevertheless
            self._untold.append(item)
        else:
            self._told.append([*item, -1 if message.offset() is None else message.offset()])

    def _record(self, process: str) -> None:
        told, self._told = self._told, []
        untold, self._untold = self._untold, []
        if told:
            self.load.acknowledged += len(told)
            self.history.append(process, "ok", "send", told)
        if untold:
            self.history.append(process, "info", "send", untold)


class Follower(Worker):
    """Reads along from all partitions, without a group."""

    def __init__(self, name: str, load: Load, topic: str, *, committed: bool = False) -> None:
        super().__init__(name, load)
        self._topic = topic
        self._suffix = "_committed" if committed else ""
        self._isolation = "read_committed" if committed else "read_uncommitted"
        self.handed = 0
        """Records."""

    def work(self) -> None:
        consumer = make_consumer(self.load.servers, self._isolation)
        assign_all(consumer, self._topic)
        partitions = [[f"{self._topic}-{n}", 0] for n in range(PARTITIONS)]
        self.history.append(self.name, "ok", f"assign{self._suffix}", partitions)
        while not self.load.reading_is_over.is_set():
            count = note_polled(self.history, self.name, consumer.consume(AT_ONCE, 0.2), self._suffix)
            self.handed += count
            self.load.read += count
        consumer.close()


class Produce(Load):
    """Two producers, and two consumers that read along."""

    name = "produce"

    def make_writers(self) -> list[Worker]:
        return [Writer(f"producer-{n}", self, self.rate / 2) for n in (1, 2)]

    def make_readers(self) -> list[Worker]:
        return [Follower(f"consumer-{n}", self, TOPIC) for n in (1, 2)]


# -- consumers -----------------------------------------------------------------------------------------------


def make_consumer(servers: str, isolation: str, **settings: str | int | bool) -> Consumer:
    """Without a group, unless ``settings`` name one."""
    from confluent_kafka import Consumer

    named = {name.replace("_", "."): value for name, value in settings.items()}
    own = {"group.id": "none", "enable.auto.commit": False, "isolation.level": isolation}
    limits = {"auto.offset.reset": "error", "fetch.wait.max.ms": 200, "fetch.error.backoff.ms": 50}
    return Consumer(
        {**COMMON, **own, **limits, **named, "bootstrap.servers": servers, "error_cb": lambda error: None},
        logger=silent(),
    )


def assign_all(consumer: Consumer, topic: str) -> None:
    """From the first record on."""
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])


def ends_of(consumer: Consumer, topic: str) -> dict[int, int]:
    """Where each partition ends for this consumer: its last stable offset, if that is read_committed."""
    from confluent_kafka import KafkaException, TopicPartition

    ends: dict[int, int] = {}
    deadline = time.monotonic() + STALL_S
    while len(ends) < PARTITIONS and time.monotonic() < deadline:
        for n in range(PARTITIONS):
            try:
                ends[n] = consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1]
            except KafkaException:
                time.sleep(TICK_S)
    return ends


def note_polled(history: History, process: str, messages: list[Message], suffix: str = "") -> int:
    """What a consumer was handed, for the history; how much it was."""
    handed = [[place(each), identity(each), each.offset()] for each in messages if each.error() is None]
    if handed:
        history.append(process, "ok", f"poll{suffix}", handed)
    return len(handed)


def read_all(servers: str, topic: str, history: History, *, committed: bool) -> None:
    """Read a topic from the beginning to the end with a new consumer. Who gets no further for 30 s stops.

    What it did not get then counts as unseen.
    """
    from confluent_kafka import KafkaError

    suffix = "_committed" if committed else ""
    process = f"reader{suffix}"
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = make_consumer(servers, isolation, enable_partition_eof=True, auto_offset_reset="earliest")
    names = [f"{topic}-{n}" for n in range(PARTITIONS)]
    ends = ends_of(consumer, topic)
    assign_all(consumer, topic)
    history.append(process, "ok", f"assign{suffix}", [[name, 0] for name in names])
    unread = dict(ends)
    progress_at = time.monotonic()
    while unread and time.monotonic() - progress_at < STALL_S:
        messages = consumer.consume(AT_ONCE, 0.2)
        if note_polled(history, process, messages, suffix):
            progress_at = time.monotonic()
        for each in messages:  # a position does not pass the end of a transaction; an end of the partition does
            error, partition, offset = each.error(), each.partition() or 0, each.offset() or 0
            is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if is_end and offset >= unread.get(partition, 0):
                unread.pop(partition, None)
    history.append(process, "ok", f"drained{suffix}", names)
    consumer.close()


LoadType = Callable[[str, History, int, int], Load]
