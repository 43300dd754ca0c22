"""Kafka's checkpoint files: text, a version line, a count line, one row per line; and a line with their checksum.

``replication-offset-checkpoint``, ``recovery-point-offset-checkpoint``, ``log-start-offset-checkpoint`` and
``cleaner-offset-checkpoint`` of a log directory hold ``topic partition offset`` rows (row R22). They are always
replaced atomically.

The last line is ``crc32c`` and the CRC-32C of the lines before it: a single wrong bit could raise a log start, or end
an epoch at 0. Kafka and older versions write no such line; a file without it is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from crc32c import crc32c

from minikafka.event_log import get_logger
from minikafka.model import TopicPartition
from minikafka.storage.disk import Disk
from minikafka.storage.small_file import SmallFile, read_small_file

VERSION = 0

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CHECKPOINT_FILES = (RECOVERY_POINT_FILE, LOG_START_FILE, CLEANER_FILE, HIGH_WATERMARK_FILE)

_CHECKSUM_LINE = re.compile(rb"^crc32c [0-9a-f]{8}\n\Z", re.MULTILINE)

log = get_logger()


class DamagedCheckpointError(ValueError):
    """The file does not match its count line or its checksum."""


def format_checkpoint(rows: Iterable[Sequence[str]]) -> bytes:
    """The content of a checkpoint file."""
    return with_checksum(format_rows(rows))


def parse_checkpoint(data: bytes) -> list[list[str]]:
    """The rows of a checkpoint file; DamagedCheckpointError when it is not one."""
    return parse_rows(without_checksum(data))  # a line that is malformed is one row too many


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file of a log directory; ValueError when it is not one."""
    rows = parse_checkpoint(data)
    return {
        TopicPartition(topic, parse_number(partition, 32)): parse_number(offset, 64)
        for topic, partition, offset in rows
    }


def with_checksum(content: bytes) -> bytes:
    """The lines, followed by the line with their checksum."""
    return content + _checksum_line(content)


def without_checksum(data: bytes) -> bytes:
    """The lines before the checksum, or all without one; DamagedCheckpointError for a wrong checksum."""
    found = _CHECKSUM_LINE.search(data)
    content = data if found is None else data[: found.start()]
    if found is not None and found[0] != _checksum_line(content):
        raise DamagedCheckpointError("the checksum is wrong")
    return content


def parse_number(text: str, bits: int) -> int:
    """A number of a row; DamagedCheckpointError when it does not fit Kafka's type of ``bits`` bits."""
    number = int(text)
    if not 0 <= number < 1 << (bits - 1):
        raise DamagedCheckpointError(f"{number} is not within 0 and 2^{bits - 1} - 1")
    return number


def format_rows(rows: Iterable[Sequence[str]]) -> bytes:
    """The same without a checksum."""
    lines = [" ".join(row) for row in rows]
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def parse_rows(data: bytes) -> list[list[str]]:
    """The same without a checksum."""
    try:
        version, count, *rows = data.decode().splitlines()
        if int(version) != VERSION or int(count) != len(rows):
            raise DamagedCheckpointError(f"version {version}, {count} rows promised, {len(rows)} there")
    except ValueError as error:
        raise DamagedCheckpointError(str(error)) from error
    return [row.split(" ") for row in rows]


def _checksum_line(content: bytes) -> bytes:
    return f"crc32c {crc32c(content):08x}\n".encode()


class OffsetCheckpoint:
    """An offset per partition in one file of a log directory.

    The rows change on the event loop only; any thread may :meth:`store` them. ``is_unreadable``: the file was present,
    but damaged.
    """

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{name}"
        self._file = SmallFile(disk, self._path)
        self._desired: dict[TopicPartition, int] = {}
        self._version = 1  # of the desired rows
        self.is_unreadable = False

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; empty when the file is absent or unreadable: every user is safe without them."""
        try:
            offsets = parse_offsets(read_small_file(self._disk, self._path))
        except FileNotFoundError:
            self._file.found(self._version)  # without a row, as it should be
            return {}
        except (DamagedCheckpointError, ValueError) as error:
            self.is_unreadable = True
            log.warning("checkpoint unreadable", path=self._path, why=str(error), effect="it counts as absent")
            return {}
        self._desired = dict(offsets)
        self._file.found(self._version)
        return offsets

    def mentions(self, tp: TopicPartition) -> bool:
        """True when the file has, may have or will have a row for the partition."""
        return tp in self._desired or self._file.durable_version < self._version

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """The desired rows."""
        return self._desired

    def note(self, tp: TopicPartition, offset: int) -> None:
        """Set the desired row of a partition."""
        if self._desired.get(tp) != offset:
            self._desired[tp] = offset
            self._version += 1

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the rows of all others."""
        for tp in [tp for tp in self._desired if tp not in partitions]:
            self.forget(tp)

    def forget(self, tp: TopicPartition) -> None:
        """Remove the row of a partition, if there is one."""
        if self._desired.pop(tp, None) is not None:
            self._version += 1

    def lower(self, tp: TopicPartition, offset: int) -> None:
        """Lower the row of a partition, if there is one, to at most ``offset``."""
        if offset < self._desired.get(tp, offset):
            self._desired[tp] = offset
            self._version += 1

    def store(self) -> None:
        """Write the desired rows durably, unless the file has them. OSError when the disk refuses."""
        self.prepare_store()()

    def prepare_store(self) -> Callable[[], None]:
        """The returned function does that with the rows of now."""
        version = self._version  # read first: the rows may be newer, never older
        return partial(self._store, version, self._desired.copy())

    def _store(self, version: int, offsets: Mapping[TopicPartition, int]) -> None:
        if version > self._file.durable_version:
            rows = ((topic, str(partition), str(offset)) for (topic, partition), offset in sorted(offsets.items()))
            self._file.store(version, format_checkpoint(rows))

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file durably now, unless it has these rows."""
        self.keep(offsets)
        for tp, offset in offsets.items():
            self.note(tp, offset)
        self.store()
