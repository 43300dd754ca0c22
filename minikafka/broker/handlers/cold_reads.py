"""What a fetch would read from segments that nobody read lately: verified and loaded in a thread before it is read.

The first read of an old segment computes the checksums of up to a MiB and loads its indexes. A consumer that reads a
topic from its start does that again and again, and so do several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from minikafka.broker.lookups import Lookups
from minikafka.errors import KafkaError
from minikafka.storage.read_jobs import ReadJob

ColdRead = Callable[[], ReadJob[None] | None]
"""Prepares the job when its turn comes; None when another has read that meanwhile."""


async def read_beside_the_loop(reads: Iterable[ColdRead], lookups: Lookups, connection: Hashable) -> None:
    """Run the jobs of the connection one after the other. What cannot be read is told by the read that follows."""
    for prepare in reads:
        try:
            await lookups.warm(prepare, connection)
        except KafkaError:
            continue
