"""The file ``log-ends`` of a log directory: a lower bound of each log's end, its epoch there, and its first segment.

The writes of a killed process stay in the page cache while the machine runs on. So a start on the same boot can tell a
log that lost its end from one that was never longer, if it knows the log's end. This file has it, exactly; the
checkpoints are written every few seconds only.

A header of 64 bytes names the boot. Slots of 64 bytes follow: topic id, partition (int32), 4 zeros, base offset of the
first segment (int64), and that xor a key of topic id and partition, leader epoch of the last batch before the end
(int32, -1 when unknown), that xor the lower halves of key and log end offset, log end offset (int64), and that xor the
key. A free slot is zeros. A damaged or incomplete slot is ignored, and so is an epoch that was noted with another end,
or a file of another boot. The file is never synced: after a power cut the next boot has another id.

A slot is a bound: the log ends there or later, and begins there or before. Otherwise it is damaged. The batch that ends
there is of the noted epoch, and no batch before it is of a later one: no checksum covers the epoch of a batch.

* An append writes the batches, then the slot, and only then moves the log end. No record is acknowledged, to a producer
  or by the next fetch, before that.
* Before a cut the slot is lowered to the end of a batch that surely stays.
* Before the first files of a log go, the slot gets the start of the remaining ones. A roll and the cleaner change
  nothing.
* At a start the old file is in force until a new one, with the found ends, has its name. The start itself cuts off only
  records after the slot, or marks the log as damaged first.
* A log is removed after its slot. A slot with records but without a log shows the loss until the log is created again.

A log without a valid slot may have lost its end after a kill: the next registration does not claim it as whole.

A slot that is too low would hide a lost end; one that is too high would make a whole log look damaged. So the file is
removed with the first slot that cannot be written, with a log line: the ends are unknown then. If the file cannot be
removed either, the append or the cut fails, as with an error of the log's own file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID
from zlib import crc32

from minikafka.event_log import get_logger
from minikafka.model import NO_EPOCH, ZERO_TOPIC_ID
from minikafka.storage.aside import TEMPORARY_SUFFIX
from minikafka.storage.disk import Disk, SlotFile, write_rest_at
from minikafka.storage.errors import StorageFailure, is_full, is_passing
from minikafka.storage.small_file import UnreadableFileError, read_small_file

if TYPE_CHECKING:
    from minikafka.storage.log import Log

logger = get_logger()

LOG_ENDS_FILE: Final = "log-ends"

_MAGIC: Final = b"ends\x00\x00\x00\x03"
_HEADER: Final = struct.Struct(">8s52sI")
_SLOT: Final = struct.Struct(">16si4xQQQQQ")
_START_POSITION: Final = 24  # in a slot
_END_POSITION: Final = 40  # of the epoch and the end
_LOWER_HALF: Final = 0xFFFFFFFF
_pack_start: Final = struct.Struct(">QQ").pack
_pack_end: Final = struct.Struct(">QQQ").pack
_REMEDY: Final = "none needed: after a kill this node claims no log whose end is not known, and follows others"


class LogKey(NamedTuple):
    """The log of a slot; the same in any directory."""

    topic_id: UUID
    partition: int

    def digest(self) -> int:
        """64 bits."""
        identity = self.topic_id.bytes + self.partition.to_bytes(4, "big", signed=True)
        return int.from_bytes(blake2b(identity, digest_size=8).digest(), "big")


class Noted(NamedTuple):
    """Content of a slot."""

    end_offset: int
    start: int | None
    """Base offset of its first segment; None when unknown."""
    epoch: int = NO_EPOCH
    """Leader epoch of the last batch before the end; -1 when there is none, or it is unknown."""

    @property
    def had_records(self) -> bool:
        """The log had records, though all may have been deleted: made again, it would begin at offset 0."""
        return self.end_offset > 0


def read_log_ends(disk: Disk, directory: str, boot_id: str | None) -> Mapping[LogKey, Noted] | None:
    """The slots of this boot for the logs in ``directory``; None without a readable file."""
    path = f"{directory}/{LOG_ENDS_FILE}"
    try:
        data = read_small_file(disk, path)
    except FileNotFoundError:
        return None
    except UnreadableFileError as error:
        logger.warning("log ends not read", path=path, why=str(error), remedy=_REMEDY)
        return None
    return parse_log_ends(data, boot_id)


def parse_log_ends(data: bytes, boot_id: str | None) -> Mapping[LogKey, Noted] | None:
    """The slots in the file; None if it is of another boot, or damaged."""
    if boot_id is None or data[: _HEADER.size] != _header(boot_id):
        return None
    ends: dict[LogKey, Noted] = {}
    body = data[_HEADER.size :]
    for at in range(0, len(body) // _SLOT.size * _SLOT.size, _SLOT.size):
        topic_id, partition, start, start_check, checked_epoch, end, check = _SLOT.unpack_from(body, at)
        key = LogKey(UUID(bytes=topic_id), partition)
        digest = key.digest()
        if key.topic_id != ZERO_TOPIC_ID and end ^ check == digest:
            noted = Noted(end, start if start ^ start_check == digest else None, _epoch_of(checked_epoch, end, digest))
            ends[key] = min(noted, ends.get(key, noted), key=lambda one: one.end_offset)
    return ends


class UnknownEnd:
    """No slot: the end of this log is not noted."""

    __slots__ = ()

    def note(self, end_offset: int, epoch: int) -> None:
        """Note the end: records below ``end_offset`` are written, or later ones are about to be cut.

        ``epoch``: leader epoch of the last batch before it, -1 without one. In any thread. OSError: the former value
        stays, so the records do not count, or must not be cut.
        """

    def note_start(self, base_offset: int) -> None:
        """Note the start of the first segment, before earlier ones are removed. Otherwise as :meth:`note`."""

    def free(self, *, is_in_use: bool = False) -> None:
        """The log is removed. ``is_in_use``: a job of it in a thread may still note something."""


NOT_NOTED: Final = UnknownEnd()


class EndSlot(UnknownEnd):
    """The end of one log, in its slot."""

    __slots__ = ("_checked_epoch", "_digest", "_ends", "_epoch", "_file", "_position", "_pwrite", "_slot_position")

    def __init__(self, ends: LogEnds, file: SlotFile, position: int, key: LogKey) -> None:
        self._ends = ends
        self._file = file  # it is closed with its last holder
        self._pwrite = file.pwrite
        self._slot_position = position
        self._position = position + _END_POSITION
        self._digest = key.digest()
        self._epoch, self._checked_epoch = NO_EPOCH, _checked(NO_EPOCH, 0, self._digest)

    def note(self, end_offset: int, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._checked_epoch = epoch, _checked(epoch, 0, self._digest)
        checked_epoch = self._checked_epoch ^ end_offset & _LOWER_HALF
        end = _pack_end(checked_epoch, end_offset, end_offset ^ self._digest)
        try:
            written = self._pwrite(end, self._position)
            if written != len(end):
                write_rest_at(self._pwrite, end, self._position, written)
        except OSError as error:
            self._ends.discard(error)

    def note_start(self, base_offset: int) -> None:
        start, position = _pack_start(base_offset, base_offset ^ self._digest), self._slot_position + _START_POSITION
        try:
            write_rest_at(self._pwrite, start, position, 0)
        except OSError as error:
            self._ends.discard(error)

    def free(self, *, is_in_use: bool = False) -> None:
        self._ends.free(self._slot_position, is_in_use=is_in_use)


class LogEnds:
    """The slots of one log directory.

    ``on_failure``: a slot could not be written, and the file could not be removed.
    """

    def __init__(self, disk: Disk, directory: str, on_failure: Callable[[StorageFailure], None]) -> None:
        self._disk = disk
        self._on_failure = on_failure
        self._path = f"{directory}/{LOG_ENDS_FILE}"
        self._file: SlotFile | None = None
        self._size = _HEADER.size
        self._free: list[int] = []  # positions of slots
        self._is_discarded = False
        self._lost: dict[LogKey, int] = {}  # positions of slots with records whose logs a start did not find

    def begin(self, boot_id: str | None, logs: Iterable[Log], before: Mapping[LogKey, Noted]) -> None:
        """Write a new file, with the logs that a start found. OSError: the old one cannot be replaced, or a shortage.

        ``before``: the slots of the old file.
        """
        noted = [(log, key) for log in logs if (key := _key(log)) is not None]
        there = {key for _log, key in noted}
        lost = {key: one for key, one in before.items() if key not in there and one.had_records}
        slots = [_slot_of(log, key) for log, key in noted]
        slots += [_slot(key, one.start or 0, one.end_offset, one.epoch) for key, one in lost.items()]
        self._lost = {key: _HEADER.size + at * _SLOT.size for at, key in enumerate(lost, len(noted))}
        if boot_id is None:
            self._disk.unlink(self._path)
            return
        content = _header(boot_id) + b"".join(slots)
        try:
            self._disk.write_bytes(self._path + TEMPORARY_SUFFIX, content)
            self._disk.rename(self._path + TEMPORARY_SUFFIX, self._path)
            self._file = self._disk.open_slots(self._path)
        except OSError as error:
            if is_passing(error) or is_full(error):
                raise  # what it tells is worth another start
            self.discard(error)
            return
        self._size = len(content)
        for at, (log, key) in enumerate(noted):
            log.end_slot = EndSlot(self, self._file, _HEADER.size + at * _SLOT.size, key)

    def has_lost(self, key: LogKey) -> bool:
        """The log had records when the last process ended, and was missing at the start of this one."""
        return key in self._lost

    def forget_lost(self, key: LogKey) -> None:
        """The log was found elsewhere, or created again."""
        position = self._lost.pop(key, None)
        if position is not None and self._file is not None:
            self.free(position)

    def add(self, log: Log) -> None:
        """Give a slot to a log that was created, found or identified after the start."""
        log.end_slot.free()
        log.end_slot, key = NOT_NOTED, _key(log)
        if key is not None:
            self.forget_lost(key)
        if key is None or self._file is None or self._is_discarded:
            return
        if self._free:
            position = self._free.pop()
        else:
            position, self._size = self._size, self._size + _SLOT.size
        self._write(position, _slot_of(log, key))
        log.end_slot = EndSlot(self, self._file, position, key)

    def free(self, position: int, *, is_in_use: bool = False) -> None:
        """Free the slot for another log; it stays empty if it is still in use."""
        self._write(position, bytes(_SLOT.size))
        if not is_in_use:
            self._free.append(position)

    def discard(self, error: OSError) -> None:
        """A slot could not be written, so the file is wrong: remove it. In any thread. OSError: that failed, too."""
        self._disk.unlink(self._path)
        if not self._is_discarded:
            self._is_discarded = True
            logger.warning("log ends not noted", path=self._path, why=str(error), remedy=_REMEDY)

    def _write(self, position: int, slot: bytes) -> None:
        assert self._file is not None
        try:
            write_rest_at(self._file.pwrite, slot, position, 0)
        except OSError as error:
            self._maybe_discard(error)

    def _maybe_discard(self, error: OSError) -> None:
        try:
            self.discard(error)
        except OSError as refused:
            self._on_failure(StorageFailure(f"could not remove {self._path}: {refused}; nor write it: {error}"))


def _key(log: Log) -> LogKey | None:
    """None: the log has no topic id, or it has a durable end, which is stronger."""
    if log.topic_id == ZERO_TOPIC_ID or log.durable_end is not None:
        return None
    return LogKey(log.topic_id, log.topic_partition.partition)


def _header(boot_id: str) -> bytes:
    name = boot_id.encode()[:52].ljust(52, b"\0")
    return _HEADER.pack(_MAGIC, name, crc32(_MAGIC + name))


def _slot_of(log: Log, key: LogKey) -> bytes:
    end_offset = log.log_end_offset
    return _slot(key, log.segments[0].base_offset, end_offset, log.epochs.epoch_before(end_offset))


def _slot(key: LogKey, start: int, end_offset: int, epoch: int) -> bytes:
    digest = key.digest()
    checked = (start, start ^ digest, _checked(epoch, end_offset, digest), end_offset, end_offset ^ digest)
    return _SLOT.pack(key.topic_id.bytes, key.partition, *checked)


def _checked(epoch: int, end_offset: int, digest: int) -> int:
    """The epoch in the upper half, and its check in the lower one."""
    return (epoch & _LOWER_HALF) << 32 | (epoch ^ end_offset ^ digest) & _LOWER_HALF


def _epoch_of(checked_epoch: int, end_offset: int, digest: int) -> int:
    """-1 when it is damaged, or unknown."""
    epoch = checked_epoch >> 32
    return epoch if epoch != _LOWER_HALF and _checked(epoch, end_offset, digest) == checked_epoch else NO_EPOCH
