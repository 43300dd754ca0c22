"""Load for a cluster that is being broken: clients that write and read, and the history of what they were told.

What a load promises, the ledger judges: each record that was acknowledged is there once, at its place, for every
reader.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Event, Lock, Thread
from typing import Any, ClassVar, Final, Protocol

from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.reading import read_all
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC, place
from minikafka.ledger.events import EventType

DRAIN_S: Final = 120.0


class Worker(Thread, ABC):
    """A thread of a load, with a client that it makes, ends, and makes again when it is fatally wrong."""

    def __init__(self, name: str, load: Load) -> None:
        super().__init__(name=name, daemon=True)
        self.load = load
        self.failure: BaseException | None = None
        self.handed = 0
        """Records that it read."""

    def run(self) -> None:
        """The thread."""
        try:
            self.work()
        except BaseException as error:
            self.failure = error
            self.load.has_failed.set()

    @abstractmethod
    def work(self) -> None:
        """Until the load is over."""

    def note(self, process: str, type: EventType, function: str, value: Any) -> None:
        """What its client did, or was told."""
        if function.startswith("poll"):
            self.handed += len(value)
        self.load.note(process, type, function, value)


class Clients(Protocol):
    """Clients of one make. Each method makes a thread; loads put them together."""

    @property
    def name(self) -> str:
        """For reports, with the version."""
        ...

    @property
    def protocols(self) -> tuple[str, ...]:
        """Of groups, that they speak."""
        ...

    def writer(self, name: str, load: Load, rate: float) -> Worker:
        """Sends to all partitions in turn, with acks=all and idempotence."""
        ...

    def follower(self, name: str, load: Load, topic: str, *, committed: bool = False) -> Worker:
        """Reads along from all partitions, without a group."""
        ...

    def member(self, name: str, load: Load, group: str, protocol: str) -> Worker:
        """A member of a group, which leaves after some seconds and comes back as another one."""
        ...

    def transactor(self, name: str, load: Load, rate: float) -> Worker:
        """Sends in transactions, of which it aborts some. Its name is its transactional id."""
        ...


class Load(ABC):
    """One kind of load: its topics, its threads, and who reads all of it at the end."""

    name: ClassVar[str]
    topics: ClassVar[tuple[str, ...]] = (TOPIC,)
    is_transactional: ClassVar[bool] = False
    group: ClassVar[str | None] = None

    def __init__(self, cluster: Reached, history: History, rate: int, seed: int, clients: Clients) -> None:
        self.cluster = cluster
        self.history = history
        self.rate = rate
        self.rng = random.Random(seed)
        self.clients = clients
        self.sending_is_over = Event()
        self.reading_is_over = Event()
        self.has_failed = Event()
        """A worker ended with an exception."""
        self.is_abandoned = False
        self.acknowledged = 0
        self.read = 0
        self.writers: list[Worker] = []
        self.readers: list[Worker] = []
        self._heard = set[str]()
        self._counting = Lock()

    def counts(self) -> tuple[int, int]:
        """Records acknowledged and read so far."""
        return self.acknowledged, self.read

    @property
    def client(self) -> str:
        """Whose clients it has."""
        return self.clients.name

    @property
    def followers(self) -> list[Worker]:
        """Those who read along from all partitions."""
        return self.readers

    # -- what a runner does -----------------------------------------------------------------------------------------

    def create_topics(self, replication_factor: int, in_sync: int) -> None:
        """As any user would. ClusterError: they cannot be made."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({**self.cluster.by_librdkafka, "log_level": 0})
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

    def wait(self, seconds: float) -> None:
        """Let time pass. Raises what a worker ended with: the rest of a trial would prove too little."""
        if self.has_failed.wait(seconds):
            raise next(each.failure for each in (*self.writers, *self.readers) if each.failure is not None)

    def listen_anew(self) -> None:
        """What was heard so far does not count (``unheard``)."""
        with self._counting:
            self._heard.clear()

    def unheard(self) -> list[str]:
        """Partitions of which no record was acknowledged, and writers that learned the fate of none, as ``aborted``."""
        places = [place(topic, n) for topic in self.topics for n in range(PARTITIONS)]
        with self._counting:
            return [each for each in (*places, *(writer.name for writer in self.writers)) if each not in self._heard]

    def stop_sending(self) -> None:
        """Send no more, and wait until the fate of all is known, as far as clients find it out."""
        self.sending_is_over.set()
        self._end(self.writers)

    def stop_reading(self) -> None:
        """End those who read along."""
        self.reading_is_over.set()
        self._end(self.readers)

    def abandon(self) -> None:
        """End everything soon: nobody will read its history."""
        self.is_abandoned = True
        self.sending_is_over.set()
        self.reading_is_over.set()

    def make_writers(self) -> list[Worker]:
        """Threads that send."""
        return [self.clients.writer(f"producer-{n}", self, self.rate / 2) for n in (1, 2)]

    @abstractmethod
    def make_readers(self) -> list[Worker]:
        """Threads that read along."""

    def drain(self) -> None:
        """Read everything from the beginning to the end, once no write is under way."""
        topic = self.topics[-1]
        for committed in (False, True) if self.is_transactional else (False,):
            read_all(self.cluster, topic, self.history, committed=committed)

    def settings(self) -> dict[str, str]:
        """What a report names, beside the cluster's settings."""
        return {"partitions": str(PARTITIONS), "rate": f"{self.rate:,} records a second"}

    def findings(self) -> list[Finding]:
        """What else must hold; the ledger is judged apart."""
        return []

    # -- for threads ------------------------------------------------------------------------------------------------

    def note(self, process: str, type: EventType, function: str, value: Any) -> None:
        """What a client did, or was told."""
        self.history.append(process, type, function, value)
        with self._counting:
            if function == "send" and type in ("ok", "fail"):
                self._heard.add(process.partition(".")[0])
            if function == "send" and type == "ok":
                self.acknowledged += len(value)
                self._heard.update(item[0] for item in value)
            elif function.startswith("poll"):
                self.read += len(value)

    def note_committed(self, process: str, offsets: Sequence[tuple[str, int]], *, is_done: bool) -> None:  # noqa: B027
        """A member of a group was told that its offsets there are committed, or are not, as far as it knows."""

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


class Produce(Load):
    """Two producers, and two consumers that read along."""

    name = "produce"

    def make_readers(self) -> list[Worker]:
        return [self.clients.follower(f"consumer-{n}", self, TOPIC) for n in (1, 2)]
