"""A log is as it once was, and so is all that would tell: a disk that lost its last seconds, or a backup put back.

A lost tail alone is found by its own node. Here the witnesses go with it: the slot in ``log-ends``, the list of
segments and the rows of the checkpoints are of the same moment as the log, and agree with it. The other replicas know:
what the restored log lacks is below a high watermark that each of them has on its disk. (What they know of later
records a kill of all takes with it; then nobody can tell, see "Open" in docs/internals/simulation.md.)

The metadata log stays as it is: a voter promises each record that it has.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import basename, dirname
from typing import Final

from sim_invariants import METADATA_NAME
from simulator.disk import SimulatedDisk
from simulator.disk.damage import Damage, restore, roll_back

from minikafka.records.batch import iter_batches
from minikafka.storage.checkpoints import CHECKPOINT_FILES, HIGH_WATERMARK_FILE, format_checkpoint, parse_checkpoint
from minikafka.storage.log_ends import LOG_ENDS_FILE
from minikafka.storage.meta import PARTITION_METADATA_FILE, parse_uuid

HEADER_BYTES: Final = 64
SLOT_BYTES: Final = 64
"""``log-ends``: a header, which names the boot, and slots. A slot begins with the topic id and the partition."""
ALL_OF_DIRECTORY: Final = 0.3

Files = Mapping[str, bytes]
"""By path."""


class Restoring:
    """Puts back what one disk held once: ``older``. ``others`` are the disks of the other machines."""

    def __init__(
        self, disk: SimulatedDisk, older: Files, others: Iterable[SimulatedDisk], log_dirs: Sequence[str]
    ) -> None:
        self._disk = disk
        self._older = older
        self._now = disk.files()
        self._others = [other.files() for other in others]
        self._log_dirs = log_dirs

    def some(self, rng: random.Random) -> list[Damage]:
        """Put back one log, or all of a log directory, with what tells of them; nothing, if nothing was lost by it."""
        missed = [path for path in _logs(self._older) if self._is_missed(path)]
        if not missed:
            return []
        chosen = rng.choice(missed)
        all_of_it = rng.random() < ALL_OF_DIRECTORY
        return [
            self._restore(one) for one in missed if one == chosen or (all_of_it and dirname(one) == dirname(chosen))
        ]

    def _is_missed(self, path: str) -> bool:
        """The log had more since, it is the same log, and each other replica knows more to be committed."""
        now, older = _files_in(self._now, path), _files_in(self._older, path)
        end = _end(older)
        if _end(now) <= end or now.get(PARTITION_METADATA_FILE) != older.get(PARTITION_METADATA_FILE):
            return False
        known = [mark for other in self._others if (mark := self._known(other, path)) is not None]
        return bool(known) and min(known) > end

    def _known(self, other: Files, path: str) -> int | None:
        """The high watermark in a checkpoint of that disk; None: it has no such log."""
        name = basename(path)
        for directory in self._log_dirs:
            if _files_in(other, f"{directory}/{name}"):
                rows = _rows(other.get(f"{directory}/{HIGH_WATERMARK_FILE}"))
                return next((int(offset) for topic, number, offset in rows if f"{topic}-{number}" == name), 0)
        return None

    def _restore(self, path: str) -> Damage:
        directory, older = dirname(path), _files_in(self._older, path)
        done = restore(self._disk, path, older)
        for name in CHECKPOINT_FILES:
            self._restore_row(f"{directory}/{name}", basename(path))
        key = _key(older[PARTITION_METADATA_FILE], basename(path))
        self._restore_slot(f"{directory}/{LOG_ENDS_FILE}", key)
        return done

    def _restore_row(self, path: str, log: str) -> None:
        if self._disk.find(path) is not None:
            rows = [row for row in _rows(bytes(self._disk.inode(path).content)) if "-".join(row[:2]) != log]
            rows += [row for row in _rows(self._older.get(path)) if "-".join(row[:2]) == log]
            roll_back(self._disk, path, format_checkpoint(sorted(rows)))

    def _restore_slot(self, path: str, key: bytes) -> None:
        if self._disk.find(path) is not None:
            now, older = bytes(self._disk.inode(path).content), self._older.get(path, b"")
            of_this_boot = older if older[:HEADER_BYTES] == now[:HEADER_BYTES] else b""
            was = next((slot for slot in _slots(of_this_boot) if slot.startswith(key)), bytes(SLOT_BYTES))
            slots = [was if slot.startswith(key) else slot for slot in _slots(now)]
            roll_back(self._disk, path, b"".join((now[:HEADER_BYTES], *slots)))


def _logs(files: Files) -> list[str]:
    """The directories of partitions, the quorum's apart."""
    found = {dirname(path) for path in files if path.endswith(".log")}
    return sorted(path for path in found if "." not in basename(path) and basename(path) != METADATA_NAME)


def _files_in(files: Files, directory: str) -> dict[str, bytes]:
    return {basename(path): content for path, content in files.items() if dirname(path) == directory}


def _end(files: Files) -> int:
    """The end of a log, by its last segment."""
    last = max((name for name in files if name.endswith(".log")), default=None)
    if last is None:
        return -1
    headers = [header for _, header in iter_batches(memoryview(files[last]))]
    return headers[-1].next_offset if headers else int(last.removesuffix(".log"))


def _rows(content: bytes | None) -> list[list[str]]:
    return [] if content is None else parse_checkpoint(content)


def _slots(content: bytes) -> Iterator[bytes]:
    return (content[at : at + SLOT_BYTES] for at in range(HEADER_BYTES, len(content), SLOT_BYTES))


def _key(partition_metadata: bytes, log: str) -> bytes:
    rows = dict(line.split(": ", 1) for line in partition_metadata.decode().splitlines())
    return parse_uuid(rows["topic_id"]).bytes + int(log.rpartition("-")[2]).to_bytes(4, "big")
