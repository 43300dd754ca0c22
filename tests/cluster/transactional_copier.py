"""The application of the tests of exactly-once processing: copies a topic in transactions, until it is killed.

``python transactional_copier.py SERVERS INPUT OUTPUT GROUP TRANSACTIONAL_ID RECORDS_PER_TRANSACTION ABORT_EVERY``

Offsets are committed in the transactions (KIP-447). Each ABORT_EVERY-th transaction is aborted on purpose (0: none),
with all that was written, and its input is read again. An error that the client calls fatal ends the process with code
3, a client that hangs with 4; then start it again. It prints ``C SECONDS RECORDS TIME`` after each commit, and ``A TIME
CAUSE`` after each abort.
"""

from __future__ import annotations

import os
import sys
import time
from threading import Timer
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

PATIENCE_S = 60.0
COMMIT_S = 3.0
FATAL, STUCK = 3, 4


class Copier:
    """A consumer and a transactional producer."""

    def __init__(self, servers: str, input_: str, output: str, group: str, transactional_id: str) -> None:
        common = {
            "bootstrap.servers": servers,
            "log_level": 0,
            "socket.timeout.ms": 5000,
        }
        self._output = output
        self._consumer = Consumer(
            common
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 2000,
                "heartbeat.interval.ms": 300,
            }
        )
        self._producer = Producer(
            common | {"transactional.id": transactional_id, "transaction.timeout.ms": 20_000, "linger.ms": 2}
        )
        self._producer.init_transactions(PATIENCE_S)
        self._consumer.subscribe([input_])

    def copy(self, records: int, *, aborts: bool) -> None:
        """One transaction of up to so many records."""
        messages = [m for m in self._consumer.consume(records, 0.5) if m.error() is None]
        if not messages:
            return
        began_s = time.monotonic()
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._send(message)
            self._commit(_after(messages))
            if aborts:
                self._abort(messages, "on purpose")
                return
            self._end(lambda: self._producer.commit_transaction(PATIENCE_S))
        except (KafkaException, BufferError) as error:
            why = error.args[0]
            if isinstance(why, KafkaError) and why.fatal():
                raise
            self._abort(messages, str(why))
            return
        print(f"C {time.monotonic() - began_s:.4f} {len(messages)} {time.time():.3f}", flush=True)

    def _commit(self, offsets: list[TopicPartition]) -> None:
        """In the transaction.

        librdkafka 2.16 forgets a broker that Metadata names no more. It waits for ever, whatever time it is given, if
        that was the group's coordinator (its issues 5511 and 5456): only a new process helps.
        """
        stuck = Timer(COMMIT_S, os._exit, (STUCK,))
        stuck.start()
        try:
            self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), COMMIT_S)
        finally:
            stuck.cancel()

    def _send(self, message: Message) -> None:
        """To the partition that the value's last byte names: a transaction has all of them."""
        self._producer.produce(self._output, message.value(), message.key(), partition=message.value()[-1] % 3)

    def _abort(self, messages: list[Message], why: str) -> None:
        self._end(lambda: self._producer.abort_transaction(PATIENCE_S))
        assigned = {(tp.topic, tp.partition) for tp in self._consumer.assignment()}
        mine = [
            tp for tp in self._consumer.committed(_after(messages), PATIENCE_S) if (tp.topic, tp.partition) in assigned
        ]
        for tp in mine:
            if tp.offset < 0:
                tp.offset = 0
            self._consumer.seek(tp)
        print(f"A {time.time():.3f} {why}", flush=True)

    def _end(self, end: Any) -> None:
        """Until it is done: librdkafka goes on with the same request."""
        while True:
            try:
                end()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise


def _after(messages: list[Message]) -> list[TopicPartition]:
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        ends[message.topic(), message.partition()] = message.offset() + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


def main() -> None:
    """See the module."""
    servers, input_, output, group, transactional_id, records, abort_every = sys.argv[1:]
    number = 0
    try:
        copier = Copier(servers, input_, output, group, transactional_id)
        while True:
            number += 1
            copier.copy(int(records), aborts=int(abort_every) > 0 and number % int(abort_every) == 0)
    except KafkaException as error:
        print(f"F {time.time():.3f} {error!r}", flush=True)
        sys.exit(FATAL)


if __name__ == "__main__":
    main()
