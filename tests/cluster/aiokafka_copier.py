"""The application of the tests of exactly-once processing with aiokafka, until it is killed.

``python aiokafka_copier.py SERVERS INPUT OUTPUT GROUP TRANSACTIONAL_ID RECORDS_PER_TRANSACTION ABORT_EVERY``

aiokafka commits offsets by the group's name alone, which fences nobody (before KIP-447). So each instance has
partitions of its own, by the number at the end of its transactional id; it has fenced who had the id before.
"""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

INSTANCES, PARTITIONS = 2, 3
FATAL = 3


async def main() -> None:
    """See the module."""
    servers, input_, output, group, transactional_id, records, abort_every = sys.argv[1:]
    number = int(transactional_id.rpartition("-")[2])
    mine = [TopicPartition(input_, partition) for partition in range(PARTITIONS) if partition % INSTANCES == number]
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id=transactional_id, transaction_timeout_ms=20_000
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, group_id=group, enable_auto_commit=False, isolation_level="read_committed"
    )
    await producer.start()  # ends the transaction of the instance before
    await consumer.start()
    consumer.assign(mine)
    transactions = 0
    while True:
        for tp in mine:
            consumer.seek(tp, await consumer.committed(tp) or 0)
        try:
            while found := await consumer.getmany(*mine, timeout_ms=500, max_records=int(records)):
                transactions += 1
                await producer.begin_transaction()
                for tp_records in found.values():
                    for record in tp_records:
                        await producer.send(output, record.value, record.key, partition=record.value[-1] % PARTITIONS)
                ends = {tp: tp_records[-1].offset + 1 for tp, tp_records in found.items()}
                await producer.send_offsets_to_transaction(ends, group)
                if int(abort_every) and transactions % int(abort_every) == 0:
                    await producer.abort_transaction()
                    break
                await producer.commit_transaction()
        except ProducerFenced:
            raise
        except KafkaError as error:
            print(f"A {error!r}", flush=True)
            await producer.abort_transaction()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KafkaError as error:
        print(f"F {error!r}", flush=True)
        sys.exit(FATAL)
