"""Replays the partition of a coordinator in portions, so that a large one does not block the loop.

A thread reads the files. The loop decodes the records, some at a time, with other work in between. The caller loads
several partitions one after the other: in parallel they would take a turn of the loop each.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

from minikafka.broker.partition import Partition
from minikafka.broker.threads import RunInThread
from minikafka.errors import ErrorCode, KafkaError
from minikafka.records.batch import BatchHeader, iter_batches
from minikafka.records.read import iter_records
from minikafka.records.record import Record

LOAD_CHUNK_BYTES: Final = 256 * 1024
RECORDS_PER_TURN: Final = 200
"""About 2 ms of the loop's time."""
LARGE_RECORD_BYTES: Final = 256
"""A record counts as one more for so many: a transaction of 1,000 partitions takes 1 ms."""
RECORDS_PER_FREEZE: Final = 20_000
"""Loaded records stay in memory. Without a freeze the garbage collector would visit them, for 0.2 s at a time."""


async def replay_log(
    partition: Partition,
    replay: Callable[[BatchHeader, Record], None],
    is_wanted: Callable[[], bool],
    read: RunInThread,
) -> int:
    """Pass every record, with its batch, to ``replay``, and return the log's end offset.

    Stops early, at any offset, when the load is cancelled. KafkaError or OSError: the log cannot be read now.
    """
    offset, count = partition.log.log_start_offset, 0
    left = RECORDS_PER_TURN
    while is_wanted() and offset < partition.log.log_end_offset:
        log = partition.log  # each time as it is: directories change
        if (job := log.prepare_read(offset, LOAD_CHUNK_BYTES)) is not None:
            await read(job.run)
            log.complete_read(job)
            if log is not partition.log:
                continue
        region = log.read(offset, LOAD_CHUNK_BYTES)
        data: bytes = await read(region.read)
        region.release()
        chunk_offset = offset
        for position, header in iter_batches(data):
            for record in iter_records(data, position, header):
                if not is_wanted():
                    return offset
                replay(header, record)
                count += 1
                left -= 1 + len(record.value or b"") // LARGE_RECORD_BYTES
                if left <= 0:
                    left = RECORDS_PER_TURN
                    await asyncio.sleep(0)
                if count % RECORDS_PER_FREEZE == 0:
                    gc.freeze()
            offset = header.next_offset
        if offset == chunk_offset:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no whole batch is found at offset {offset}")
    return offset
