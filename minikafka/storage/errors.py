"""Errors of storage: a failed disk, a shortage, damaged bytes, or a caller that broke the log's contract."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from minikafka.errors import ErrorCode, KafkaError

PASSING_ERRORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""They say nothing about the file."""
MISSING_ERRORS: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""They say nothing about the disk."""


def is_passing(error: OSError) -> bool:
    """The process or the machine is short of something: the error is no sign of damage."""
    return error.errno in PASSING_ERRORS


def is_full(error: OSError) -> bool:
    """The disk, or the quota on it, is used up: the files are whole."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_missing(error: OSError) -> bool:
    """The file, or a directory above it, does not exist."""
    return error.errno in MISSING_ERRORS


DISK_REMEDY: Final = "mend the disk or make room on it, then restart this node"


class StorageFailure(KafkaError):  # noqa: N818
    """A write, fsync or rename failed: nothing staged became visible and the log stays offline until a restart.

    ``remedy``: what to do; empty if the message says it. ``is_full``: a write was refused for want of room, so all that
    was written before is there. A sync that fails never says so (:class:`~minikafka.storage.disk.Disk`).
    """

    def __init__(self, message: str, remedy: str = DISK_REMEDY, *, is_full: bool = False) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.remedy = remedy
        self.is_full = is_full


class PassingFailure(KafkaError):  # noqa: N818
    """The process or the machine is short of something: nothing went offline; try again later."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


@contextmanager
def collected(shortages: list[PassingFailure]) -> Iterator[None]:
    """Suppress a shortage, and add it to the list."""
    try:
        yield
    except PassingFailure as shortage:
        shortages.append(shortage)


def failure_of(what: str, error: OSError) -> StorageFailure | PassingFailure:
    """The error for a failed ``what``: a failure of the disk, or a shortage."""
    if is_passing(error):
        return PassingFailure(f"could not {what}: {error}; try again")
    return StorageFailure(f"could not {what}: {error}", is_full=is_full(error))


class IllegalLogState(Exception):  # noqa: N818
    """An append does not begin at the log end (row R11): the replica's state machine and its log disagree."""


class StartsInsideBatch(IllegalLogState):
    """An empty log begins inside the first batch of its leader, which begins at ``base_offset``: begin there (R13)."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(f"the first batch begins at {base_offset}")
        self.base_offset = base_offset


class EndsMayBeGone(IllegalLogState):
    """Transactions from ``offset`` on were open when this replica began to follow. Since then its leader has cleaned
    what comes next, and maybe their records and their ends, too: fetch again from there (row T28)."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the leader has cleaned records that follow a transaction from {offset} on")
        self.offset = offset


class EpochsFall(IllegalLogState):
    """A batch of ``epoch`` came after records of a later leader epoch: in one of the two logs an epoch is wrong."""

    def __init__(self, why: str, epoch: int) -> None:
        super().__init__(why)
        self.epoch = epoch


class BadBatchError(Exception):
    """No valid batch begins at ``position`` of a segment file."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"{why} at byte {position}")
        self.position = position
        self.why = why


class Corruption(NamedTuple):
    """Damage that is not a torn tail: the replica lost records it once had and must be fetched again."""

    path: str
    position: int
    offset: int  # the log is intact below it
    why: str
    kept_aside: str | None  # path of a copy of the damaged bytes

    def __str__(self) -> str:
        aside = f"; the damaged file is kept as {self.kept_aside}" if self.kept_aside else ""
        return f"{self.path} is damaged at byte {self.position} (offset {self.offset}): {self.why}{aside}"
