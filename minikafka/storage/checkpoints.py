"""Kafka's checkpoint files: text, a version line, a count line, one row per line.

``replication-offset-checkpoint``, ``recovery-point-offset-checkpoint``, ``log-start-offset-checkpoint`` and
``cleaner-offset-checkpoint`` of a log directory hold ``topic partition offset`` rows (row R22). They are always
replaced atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.model import TopicPartition
from minikafka.storage.disk import Disk

VERSION = 0

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"


class DamagedCheckpointError(Exception):
    """The file does not hold what its count line promises."""


def format_checkpoint(rows: Iterable[Sequence[str]]) -> bytes:
    """The content of a checkpoint file."""
    lines = [" ".join(row) for row in rows]
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def parse_checkpoint(data: bytes) -> list[list[str]]:
    """The rows of a checkpoint file; DamagedCheckpointError when it is not one."""
    try:
        version, count, *rows = data.decode().splitlines()
        if int(version) != VERSION or int(count) != len(rows):
            raise DamagedCheckpointError(f"version {version}, {count} rows promised, {len(rows)} there")
    except ValueError as error:
        raise DamagedCheckpointError(str(error)) from error
    return [row.split(" ") for row in rows]


class OffsetCheckpoint:
    """An offset per partition in one file of a log directory."""

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{name}"
        self._written: dict[TopicPartition, int] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; empty when the file is absent or damaged, for every user then takes the safe side."""
        try:
            rows = parse_checkpoint(self._disk.read_bytes(self._path))
            offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
        except (FileNotFoundError, DamagedCheckpointError, ValueError):
            return {}
        self._written = dict(offsets)
        return offsets

    def mentions(self, where: TopicPartition) -> bool:
        """True when the file, as last read or written, has a row for the partition."""
        return self._written is not None and where in self._written

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file durably, unless it already says so."""
        if offsets == self._written:
            return
        rows = ((topic, str(partition), str(offset)) for (topic, partition), offset in sorted(offsets.items()))
        self._disk.write_atomic(self._path, format_checkpoint(rows))
        self._written = dict(offsets)
