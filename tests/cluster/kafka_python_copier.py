"""The application of the tests of exactly-once processing with kafka-python, until it is killed.

``python kafka_python_copier.py SERVERS INPUT OUTPUT GROUP TRANSACTIONAL_ID RECORDS_PER_TRANSACTION ABORT_EVERY``

Offsets are committed in the transactions, as a member of the group (KIP-447).

kafka-python 3.0.12 forgets a transactional request whose coordinator refuses the connection, and waits for its answer
for ever. Only a new process helps: this one ends, with code 4.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from threading import Timer

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

PARTITIONS = 3
PATIENCE_S = 8.0
FATAL, STUCK = 3, 4


def in_time(act: Callable[[], object]) -> None:
    """Do it, or end the process."""
    stuck = Timer(PATIENCE_S, os._exit, (STUCK,))
    stuck.start()
    try:
        act()
    finally:
        stuck.cancel()


def main() -> None:
    """See the module."""
    servers, input_, output, group, transactional_id, records, abort_every = sys.argv[1:]
    producer = KafkaProducer(
        bootstrap_servers=servers, transactional_id=transactional_id, transaction_timeout_ms=20_000, linger_ms=2
    )
    producer.init_transactions()
    consumer = KafkaConsumer(
        input_,
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=2000,
        heartbeat_interval_ms=300,
    )
    transactions = 0
    while True:
        found = consumer.poll(500, max_records=int(records))
        if not found:
            continue
        transactions += 1
        producer.begin_transaction()
        try:
            for tp_records in found.values():
                for record in tp_records:
                    producer.send(output, record.value, record.key, partition=record.value[-1] % PARTITIONS)
            ends = {tp: OffsetAndMetadata(of[-1].offset + 1, "", -1) for tp, of in found.items()}
            member = consumer.group_metadata()
            in_time(partial(producer.send_offsets_to_transaction, ends, member))
            if not int(abort_every) or transactions % int(abort_every):
                in_time(producer.commit_transaction)
                continue
        except ProducerFencedError:
            raise
        except KafkaError as error:
            print(f"A {error!r}", flush=True)
        in_time(producer.abort_transaction)
        for tp in consumer.assignment():
            consumer.seek(tp, consumer.committed(tp) or 0)


if __name__ == "__main__":
    try:
        main()
    except KafkaError as error:
        print(f"F {error!r}", flush=True)
        sys.exit(FATAL)
