"""A record that is there twice: whether its producer sent it twice is in what the batches say of the producer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from live_cluster import eventually
from live_wire import Wire, batch, produce_request

from minikafka.chaos.rounds import repetitions
from minikafka.chaos.rounds.confluent_clients import EpochBumps
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.repetitions import Stamp, resent, told_apart
from minikafka.client import Producer as Transactor
from minikafka.ledger.events import Event
from minikafka.testing import MiniKafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[MiniKafka]:
    with MiniKafka(brokers=1, in_process=True) as kafka:
        yield kafka


def test_sent_again_by_its_producer_is_told_from_repeated_by_others(kafka: MiniKafka) -> None:
    kafka.create_topic("stamped", partitions=1)
    batches = [
        batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0),
        batch(b"b", b"c", producer_id=7, producer_epoch=0, base_sequence=1),
        batch(b"c", producer_id=7, producer_epoch=1, base_sequence=0),
        batch(b"d"),  # of a producer without an id: nobody can tell
        batch(b"d"),
    ]
    with Wire(kafka.cluster.layout.client_port(1)) as wire:
        for each in batches:
            wire.ask(produce_request("stamped", each), 9)
    rows = [["stamped-0", record.value.decode(), record.offset] for record in kafka.records("stamped") if record.value]
    events = [Event(0, 0, "reader", "ok", "poll", rows)]
    assert [row[1] for row in rows] == ["a", "b", "c", "c", "d", "d"]
    kafka.rule("Fetch", delay_ms=3 * repetitions._WAIT_MS, times=1)  # a cluster that has much to do
    assert asyncio.run(resent(Reached(kafka.bootstrap_servers), events)) == [["stamped-0", "c"]]


async def test_who_copies_in_transactions_must_not_do_so_twice(kafka: MiniKafka) -> None:
    kafka.create_topic("copied", partitions=1)
    async with Transactor(kafka.bootstrap_servers, transactional_id="copier") as producer:
        for _ in range(2):
            async with producer.transaction():
                await producer.send("copied", b"e")
    records = await asyncio.to_thread(kafka.records, "copied")
    rows = [["copied-0", record.value.decode(), record.offset] for record in records if record.value]
    assert len(rows) == 2
    assert await resent(Reached(kafka.bootstrap_servers), [Event(0, 0, "reader", "ok", "poll", rows)]) == []


@pytest.mark.parametrize(
    ("stamps", "are"),
    [
        ({1: Stamp(7, 0, 5), 9: Stamp(7, 1, 0)}, True),
        ({1: Stamp(7, 0, 5), 9: Stamp(7, 0, 6)}, True),
        ({1: Stamp(7, 0, 5), 9: Stamp(7, 0, 5)}, False),  # a broker must know this one again
        ({1: Stamp(7, 0, 5)}, False),  # the other was not found
    ],
)
def test_only_other_stamps_excuse_the_cluster(stamps: dict[int, Stamp], are: bool) -> None:
    assert told_apart(stamps, {1, 9}) is are


def test_librdkafka_sends_a_record_twice(kafka: MiniKafka) -> None:
    """Its issue 4953: a batch overtakes one that was refused, and another partition's batch is written again."""
    kafka.create_topic("bumped", partitions=2)
    bumps, said = EpochBumps(), list[str]()
    settings = {"linger.ms": 0, "batch.num.messages": 1, "retry.backoff.ms": 1_000, "retry.backoff.max.ms": 1_000}
    producer = Producer(
        {**settings, "bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "debug": "eos"},
        logger=bumps.logger,
    )

    def is_bumped() -> bool:
        producer.poll(0.02)
        said.extend(bumps.take())
        return any("skipped sequence numbers" in line for line in said)

    def has_doubled(name: str) -> bool:
        """Whether the batch was sent as a new one, before it was sent again."""
        said.clear()
        kafka.rule("Produce", error="REQUEST_TIMED_OUT", after=True, times=1)
        producer.produce("bumped", name, partition=1)
        eventually(lambda: kafka.faults()[1] == [], "its answer to be lost")
        kafka.rule("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
        for _ in ("refused", "overtakes it"):
            producer.produce("bumped", partition=0)
        eventually(is_bumped, "a new epoch")
        assert producer.flush(60) == 0
        values = [record.value for record in kafka.records("bumped")]
        return values.count(name.encode()) == 2

    for partition in (0, 1):
        producer.produce("bumped", partition=partition)
    assert producer.flush(60) == 0
    name = next(name for name in map(str, range(50)) if has_doubled(name))
    rows = [[f"bumped-{r.partition}", r.value.decode(), r.offset] for r in kafka.records("bumped") if r.value]
    found = asyncio.run(resent(Reached(kafka.bootstrap_servers), [Event(0, 0, "reader", "ok", "poll", rows)]))
    assert found == [["bumped-1", name]]
