"""The clients of labs. They are librdkafka's, as an application has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median
from threading import Event, Thread
from typing import Any, Final, NamedTuple, Self

from minikafka.chaos.lab.stage import NotSeenError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.rounds.loads import Pace
from minikafka.chaos.rounds.reading import silent

IMPATIENT: Final = {
    "log_level": 0,
    "socket.timeout.ms": 5_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
}
"""So that a lab does not wait for the patience of a client: a request to a node that hangs ends after 5 s."""
_TOPIC_S: Final = 30.0
_FLUSH_S: Final = 60.0
_TICK_S: Final = 0.01


def create_topic(cluster: LocalCluster, name: str, replicas: Iterable[list[int]], **config: str) -> None:
    """A topic with its replicas by partition, the preferred leader first, and all of them in sync.

    Settings have underscores for dots. ClusterError: they do not get in sync.
    """
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    replicas = list(replicas)
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=settings)
    admin = AdminClient({**IMPATIENT, "bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([topic])[name].result(timeout=_TOPIC_S)
    cluster.wait_for(
        lambda view: view.fully_replicated and any(each.topic == name for each in view.partitions),
        f"the replicas of topic {name}",
    )


def create_topic_error(servers: str, name: str, timeout_s: float) -> str | None:
    """Kafka's name of the error with which a topic is not created; None: it is created."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({**IMPATIENT, "bootstrap.servers": servers})
    created = admin.create_topics([NewTopic(name, 1)], request_timeout=timeout_s, operation_timeout=timeout_s)
    return failure(lambda: created[name].result(timeout=_TOPIC_S))


def failure(act: Callable[[], object]) -> str | None:
    """Kafka's name of the error with which a call of a client fails; None: it does not."""
    from confluent_kafka import KafkaException

    try:
        act()
    except KafkaException as error:
        return str(error.args[0].name())
    return None


class Fate(NamedTuple):
    """What a producer was told of a record. ``error``: Kafka's name; None: it is acknowledged."""

    value: str
    offset: int
    error: str | None
    latency_s: float


class Writer:
    """A producer. Settings have underscores for dots."""

    def __init__(self, servers: str, topic: str, **settings: Any) -> None:
        from confluent_kafka import Producer

        named = {name.replace("_", "."): value for name, value in settings.items()}
        known = {"bootstrap.servers": servers, "linger.ms": 0, **IMPATIENT}
        self.client = Producer({**known, **named}, logger=silent())
        self.topic = topic
        self.fates: list[Fate] = []

    def send(self, value: str, partition: int = 0) -> None:
        """A record, without waiting for its fate."""
        self.client.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)

    def write(self, values: Iterable[str], timeout_s: float = _FLUSH_S) -> list[Fate]:
        """Records, and what became of them. NotSeenError: that is not known after a time."""
        before = len(self.fates)
        for value in values:
            self.send(value)
        if self.client.flush(timeout_s):
            raise NotSeenError(f"an answer to every record within {timeout_s:g} s")
        return self.fates[before:]

    @property
    def acknowledged(self) -> dict[str, int]:
        """The acknowledged records with their offsets."""
        return {fate.value: fate.offset for fate in self.fates if fate.error is None}

    def close(self) -> None:
        """Give up what is not acknowledged."""
        failure(self.client.purge)
        failure(lambda: self.client.flush(1))  # a producer that was fenced says so at each call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _on_delivery(self, error: Any, message: Any) -> None:
        name = None if error is None else error.name()
        offset = -1 if message.offset() is None else message.offset()
        self.fates.append(Fate(message.value().decode(), offset, name, message.latency() or 0.0))


class Stream(Thread):
    """A producer that writes numbered records at an even rate, to all partitions in turn, from ``with`` to its end."""

    def __init__(self, writer: Writer, rate: float, *, partitions: int = 1, size: int = 0) -> None:
        super().__init__(daemon=True)
        self.writer = writer
        self.sent = 0
        self._pace = Pace(rate)
        self._partitions = partitions
        self._size = size
        self._is_over = Event()

    def run(self) -> None:
        """The thread."""
        while not self._is_over.is_set():
            for _ in range(self._pace.due()):
                self._send()
            self.writer.client.poll(_TICK_S)

    def finish(self) -> None:
        """Send no more, and wait until the fate of all is known."""
        self._is_over.set()
        self.join()
        self.writer.write(())

    def settle(self) -> None:
        """Wait until all that was sent before now has its fate."""
        sent = self.sent
        deadline = time.monotonic() + _FLUSH_S
        while len(self.writer.fates) < sent:
            if time.monotonic() > deadline:
                raise NotSeenError(f"an answer to every record within {_FLUSH_S:g} s")
            time.sleep(_TICK_S)

    def median_latency_ms(self, since: int = 0) -> float:
        """Of the records that were acknowledged, from the ``since``-th on."""
        return 1000 * median(fate.latency_s for fate in self.writer.fates[since:] if fate.error is None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self.join()
        self.writer.close()

    def _send(self) -> None:
        try:
            self.writer.send(f"{self.sent:06d}".ljust(self._size, "."), self.sent % self._partitions)
        except BufferError:  # its queue is full while the cluster takes no records
            return
        self.sent += 1


def read_all(servers: str, topic: str, partitions: int = 1, *, committed: bool = False) -> list[str]:
    """The values of a topic up to its present end, by partition and offset; ``committed``: as read_committed."""
    return [value for _, value in sorted(read_places(servers, topic, partitions, committed=committed).items())]


def read_places(
    servers: str, topic: str, partitions: int = 1, *, committed: bool = False
) -> dict[tuple[int, int], str]:
    """The same by partition and offset. NotSeenError: the end was not reached in time."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    isolation = "read_committed" if committed else "read_uncommitted"
    known = {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False, **IMPATIENT}
    consumer = Consumer({**known, "isolation.level": isolation, "enable.partition.eof": True}, logger=silent())
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[tuple[int, int], str] = {}
    unread, deadline = set(range(partitions)), time.monotonic() + _FLUSH_S
    try:
        while unread:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    found[message.partition() or 0, message.offset() or 0] = (message.value() or b"").decode()
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
            if time.monotonic() > deadline:
                raise NotSeenError(f"the end of {topic} within {_FLUSH_S:g} s")
    finally:
        consumer.close()
    return found
