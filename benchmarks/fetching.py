"""What reading costs the broker: one partition, read from the start over one connection.

A bare client throws away what it receives, so that only the broker and the system limit it; librdkafka's consumer
makes messages of it.
"""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.bare import CLIENT_ID, BareClient
from benchmarks.clusters import broker_cpu, create_topic, leader_of, running_cluster
from benchmarks.replication import RECORD_SIZE, connected_producer, send
from benchmarks.report import Figure, Run
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.records.batch import iter_batches
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

SUMMARY = "what reading costs the broker"
TOPIC: Final = "fetching"
RECORDS: Final = 300_000
FETCH_VERSION: Final = 12
FETCH_BYTES: Final = 8 << 20


def run(run: Run) -> list[Figure]:
    """The topic is in the page cache: what is measured is the way through the broker."""
    with running_cluster() as cluster:
        create_topic(cluster, TOPIC, copies=1)
        send(connected_producer(cluster, TOPIC, 1), TOPIC, 1, RECORDS)
        run.say(f"{RECORDS * RECORD_SIZE / 1e6:.0f} MB written")
        leader = leader_of(cluster, TOPIC)
        found = []
        for name, read in (("bare client", _read_bare), ("librdkafka consumer", _read_with_librdkafka)):
            before, began = broker_cpu(cluster)[leader], time.monotonic()
            size = read(cluster, leader)
            seconds = time.monotonic() - began
            cpu_s = broker_cpu(cluster)[leader] - before
            note = f"broker CPU {cpu_s / size * 1e9:.2f} s per GB"
            found.append(
                Figure(f"{name}, fetches of up to {FETCH_BYTES >> 20} MiB", size / seconds / 1e6, "MB/s", note=note)
            )
        return found


def _read_bare(cluster: LocalCluster, leader: int) -> int:
    """Bytes of records received; answers are parsed only as far as the next offset needs it."""
    size = offset = 0
    with BareClient(cluster.layout.client_port(leader)) as client:
        while offset < RECORDS:
            asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                session_epoch=-1,
                topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
            )
            answer = client.ask(ApiKey.FETCH, FETCH_VERSION, request, FetchResponse)
            records = answer.responses[0].partitions[0].records
            assert records
            size += len(records)
            for _, header in iter_batches(memoryview(records)):
                offset = header.base_offset + header.last_offset_delta + 1
    return size


def _read_with_librdkafka(cluster: LocalCluster, leader: int) -> int:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": CLIENT_ID,
        "fetch.message.max.bytes": FETCH_BYTES,
        "queued.max.messages.kbytes": 1 << 16,
        "fetch.queue.backoff.ms": 10,  # when that is full; it is a second, unless told
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    size = count = 0
    while count < RECORDS:
        for message in consumer.consume(10_000, 10.0):
            assert message.error() is None, message.error()
            count += 1
            size += len(message.value() or b"")
    consumer.close()
    return size
