"""Work inside batches, and cold reads, in threads: timestamps, keys, codecs, old segments.

A batch of 1.4 KB may hold millions of records, and any client may ask for a time again and again. So jobs have budgets
(``storage.timestamps``, ``records.validate``), and few of them run at once. Connections take turns: one may have
hundreds of look-ups that wait, of a tenth of a second each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, TypeVar

from minikafka.broker.places import Places
from minikafka.broker.threads import RunInThread
from minikafka.errors import KafkaError
from minikafka.records.batch import Buffer, parse_header
from minikafka.records.recompress import Codec, recompress
from minikafka.records.validate import RecordsCheck
from minikafka.storage.read_jobs import ReadJob

T = TypeVar("T")

JOBS_AT_ONCE: Final = 2
JOBS_OF_ONE: Final = 1
"""Of one connection. A request has its jobs one after the other anyway."""


class Lookups:
    """Runs these jobs."""

    def __init__(self, read: RunInThread) -> None:
        self._read = read
        self._by_time = Places(JOBS_AT_ONCE, JOBS_OF_ONE)
        self._cold_reads = Places(JOBS_AT_ONCE, JOBS_OF_ONE)  # fetches do not wait for look-ups by time
        self._batch_check = asyncio.Lock()  # each may take 100 MiB for a moment
        self._recompression = asyncio.Lock()  # and many seconds, at the highest levels: checks do not wait for it

    async def run(self, prepare: Callable[[], ReadJob[T]], connection: Hashable) -> T:
        """The result of the connection's job. KafkaError when the log cannot be read, or changed meanwhile.

        It is prepared when its turn comes: it may hold a copy of a large index, and thousands may wait.
        """
        async with self._by_time.one(connection):
            job = prepare()
            await self._read(job.run)
            return job.answer()

    async def warm(self, prepare: Callable[[], ReadJob[None] | None], connection: Hashable) -> None:
        """Let the job, if there is one still, verify and load the batches of a cold fetch. As :meth:`run`."""
        async with self._cold_reads.one(connection):
            job = prepare()
            if job is not None:
                await self._read(job.run)
                job.answer()

    async def check_records(self, batch: Buffer, check: RecordsCheck) -> KafkaError | None:
        """What ``check`` raises against a batch, or None."""
        error: KafkaError | None
        async with self._batch_check:
            error = await self._read(partial(_records_error, batch, check))
        return error

    async def recompress(self, batch: Buffer, codec: Codec) -> bytearray:
        """The batch in that codec. KafkaError when it cannot be decompressed, or is too large inside."""
        async with self._recompression:
            result: bytearray | KafkaError = await self._read(partial(_recompressed, batch, codec))
        if isinstance(result, KafkaError):
            raise result
        return result


def _recompressed(batch: Buffer, codec: Codec) -> bytearray | KafkaError:
    try:
        return recompress(batch, codec)
    except KafkaError as error:
        return KafkaError(error.code, error.message)  # ``error`` refers to the batch


def _records_error(batch: Buffer, check: RecordsCheck) -> KafkaError | None:
    try:
        check(batch, parse_header(batch))
    except KafkaError as error:
        return error.with_traceback(None)  # that refers to all that was decompressed
    return None
