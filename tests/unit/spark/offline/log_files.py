"""Writes log directories as a node leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from minikafka.model import TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, OffsetCheckpoint
from minikafka.storage.disk import OsDisk
from minikafka.storage.meta import DirectoryMeta, write_meta


def batch(
    base_offset: int,
    count: int = 3,
    epoch: int = 2,
    size: int = 10,
    producer: int = 7,
    *,
    is_transactional: bool = False,
) -> bytes:
    """Values are offsets, filled up with dots."""
    records = [
        Record(-1, 1000 + n, b"k", b"%d" % n + b"." * size, (("h", b"x"),)) for n in _offsets(base_offset, count)
    ]
    return bytes(
        build_batch(
            records,
            base_offset=base_offset,
            leader_epoch=epoch,
            producer_id=producer,
            producer_epoch=1,
            base_sequence=base_offset,
            is_transactional=is_transactional,
        )
    )


def _offsets(base_offset: int, count: int) -> range:
    return range(base_offset, base_offset + count)


class Logs:
    """One log directory."""

    def __init__(self, path: Path, node_id: int | None) -> None:
        self.path = path
        path.mkdir(parents=True)
        if node_id is not None:
            write_meta(OsDisk(), str(path), DirectoryMeta("c", node_id, UUID(int=node_id)))

    def segment(self, tp: TopicPartition, base_offset: int, *batches: bytes) -> Path:
        """Write a segment; its path."""
        directory = self.path / str(tp)
        directory.mkdir(exist_ok=True)
        path = directory / f"{base_offset:020}.log"
        path.write_bytes(b"".join(batches))
        return path

    def high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint."""
        OffsetCheckpoint(OsDisk(), str(self.path), HIGH_WATERMARK_FILE).write(offsets)

    def log_starts(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint."""
        OffsetCheckpoint(OsDisk(), str(self.path), LOG_START_FILE).write(offsets)
