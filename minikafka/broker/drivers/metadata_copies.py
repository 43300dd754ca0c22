"""Which metadata log is this node's, if its log directories hold several, or an older copy.

A log directory may have been away: not mounted, left out of ``log.dirs``, or replaced. Meanwhile the quorum's leader
repaired a new metadata log in another directory, and this node acknowledged records and voted with that. Then the first
directory comes back. Or a directory is put back from a backup. With the old log a voter would take back what it has
promised, and an election could lose committed records.

The registrations tell (``storage/registration_file.py``). The directory of the metadata log is the first to name a new
one. So if another directory names a newer one, the log is an older copy: the quorum's leader has to repair it before
the node votes, like a damaged one. The same if two logs are of the newest registration. A log that was made anew and
has no record yet promises nothing, and gives way to any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minikafka.broker.drivers.metadata_recovery import mark_for_repair
from minikafka.event_log import get_logger
from minikafka.model import METADATA_PARTITION, NO_EPOCH
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration_file import Registration
from minikafka.storage.small_file import UnreadableFileError, read_small_file

log = get_logger()

KNOWN_COPY: Final = "older-copy"
"""Names the registration that showed it. So no start brings the mark for repair back that an operator removed."""


class Copy(NamedTuple):
    """A metadata log that was found. ``broker_epoch``: of its directory's registration; None: not known."""

    broker_epoch: int | None
    latest_epoch: int
    log_end_offset: int


class Choice(NamedTuple):
    """Which of the copies to use. ``is_current``: it has all that this node has promised."""

    at: int
    is_current: bool


def choose(copies: Sequence[Copy], newest: int) -> Choice:
    """The copy to use, of one or more. ``newest``: the last registration that any log directory names; -1: none."""
    used = [at for at, copy in enumerate(copies) if copy.log_end_offset > 0] or [*range(len(copies))][:1]
    current = [at for at in used if copies[at].broker_epoch in (None, newest)]
    return Choice(max(current or used, key=lambda at: _order(copies[at])), len(current) == 1)


def _order(copy: Copy) -> tuple[int, int, int]:
    epoch = NO_EPOCH if copy.broker_epoch is None else copy.broker_epoch
    return epoch, copy.latest_epoch, copy.log_end_offset


def find_metadata_log(disk: Disk, store: LogStore) -> Log | None:
    """This node's metadata log, marked for repair if it is an older copy. Others are set aside; None without any."""
    holders = [directory for directory in store.online if METADATA_PARTITION in directory.logs]
    if not holders:
        return None
    logs = [directory.logs[METADATA_PARTITION] for directory in holders]
    copies = [
        Copy(_epoch_of(directory.registration), one.latest_epoch, one.log_end_offset)
        for directory, one in zip(holders, logs, strict=True)
    ]
    newest = max((_epoch_of(directory.registration) or NO_EPOCH for directory in store.online), default=NO_EPOCH)
    choice = choose(copies, newest)
    chosen = logs[choice.at]
    if not choice.is_current:
        _mark_older_copy(disk, chosen.directory, newest)
    for other in logs:
        if other is not chosen:
            why = f"the metadata log in {chosen.directory} is newer"
            log.warning("metadata log set aside", path=other.directory, why=why, now=store.set_aside(other))
    return chosen


def _epoch_of(registration: Registration | None) -> int | None:
    return None if registration is None else registration.broker_epoch


def _mark_older_copy(disk: Disk, directory: str, newest: int) -> None:
    path, known = f"{directory}/{KNOWN_COPY}", f"{newest}\n".encode()
    try:
        is_known = read_small_file(disk, path) == known
    except (FileNotFoundError, UnreadableFileError):
        is_known = False
    if not is_known:
        mark_for_repair(disk, directory, "its log directory is an older copy")
        disk.write_atomic(path, known)
