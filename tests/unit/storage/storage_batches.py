"""Batches for tests, and how they are appended to and read from a log."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.model import Compression
from minikafka.records.batch import BatchHeader, iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage.log import AppendInfo, Log

OpenLog = Callable[..., Log]

NOW_MS = 1_700_000_000_000


def batch(
    *values: bytes,
    keys: tuple[bytes | None, ...] = (),
    timestamp: int = NOW_MS,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
) -> bytearray:
    """A batch of records with these values; ``producer`` is (id, epoch, first sequence)."""
    producer_id, producer_epoch, base_sequence = producer
    records = [Record(index, timestamp, keys[index] if keys else b"key", value) for index, value in enumerate(values)]
    return build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def stage(log: Log, data: bytearray, *, leader_epoch: int = 0, wall_ms: int = NOW_MS) -> AppendInfo:
    return log.stage(memoryview(data), parse_header(data), leader_epoch=leader_epoch, wall_ms=wall_ms)


def append(log: Log, *values: bytes, leader_epoch: int = 0, wall_ms: int = NOW_MS, **how: object) -> AppendInfo:
    """One batch, committed."""
    appended = stage(log, batch(*values, **how), leader_epoch=leader_epoch, wall_ms=wall_ms)  # type: ignore[arg-type]
    log.commit()
    return appended


def headers_in(data: bytes) -> list[BatchHeader]:
    return [header for _position, header in iter_batches(data)]


def values_in(data: bytes) -> dict[int, bytes | None]:
    """offset -> value of every record."""
    return {
        record.offset: record.value
        for position, header in iter_batches(data)
        for record in iter_records(data, position, header)
    }


def read_all(log: Log, start_offset: int | None = None) -> bytes:
    """All batches from ``start_offset`` (the log's start) on, segment after segment."""
    parts = []
    offset = log.log_start_offset if start_offset is None else start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 30).read()
        if not data:
            break
        parts.append(data)
        offset = headers_in(data)[-1].next_offset
    return b"".join(parts)


def all_values(log: Log) -> dict[int, bytes | None]:
    return {offset: value for offset, value in values_in(read_all(log)).items() if offset >= log.log_start_offset}
