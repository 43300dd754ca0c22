"""What a fetch would read from segments that nobody read lately: verified and loaded in a thread before it is read.

The first read of an old segment computes the checksums of up to a MiB and loads its indexes. A consumer that reads a
topic from its start does that again and again, and so do several at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.broker.serving import Serving
from minikafka.errors import KafkaError
from minikafka.replication.session_cache import CachedPartition
from minikafka.storage.log import Log
from minikafka.storage.read_jobs import ReadJob
from minikafka.storage.reading import COLD_READ_BYTES

ColdRead = tuple[Log, ReadJob[None]]


def cold_reads(partitions: Iterable[CachedPartition], room: int, node: Serving) -> list[ColdRead]:
    """What has to be read beside the loop before a fetch of ``partitions``, of at most ``room`` bytes, is answered."""
    found: list[ColdRead] = []
    for cached in partitions:
        partition = None if cached.where is None else node.replicas.get(cached.where)
        if partition is None:
            continue
        log, offset = partition.log, cached.asked.fetch_offset
        if not log.log_start_offset <= offset < log.log_end_offset:
            continue
        size = min(cached.asked.partition_max_bytes, room)
        try:
            job = log.prepare_read(offset, size)
        except KafkaError:
            continue  # the read itself will say why
        if job is not None:
            found.append((log, job))
        room -= min(size, COLD_READ_BYTES)
        if room <= 0:
            break
    return found


async def read_beside_the_loop(reads: Iterable[ColdRead], node: Serving) -> None:
    """Run the jobs one after the other. What cannot be read is told by the read that follows."""
    for log, job in reads:
        try:
            await node.lookups.warm(log, job)
        except KafkaError:
            continue
