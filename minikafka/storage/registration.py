"""The ``registration`` file of a log directory: under which registration what is in it was written (KIP-966).

A broker writes it, durably, between registering and doing anything as that registration. When it starts anew it reads
it to say which registration it continues. What a process wrote survives when that process is killed, but not when its
machine loses power; the machine's boot id tells one from the other. And a disk that was taken away, or failed, takes
what was synced with it; so each file names all the directories there were.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.model import CLUSTER_METADATA_TOPIC, NO_EPOCH
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.meta import format_uuid, parse_uuid

REGISTRATION_FILE: Final = "registration"
REGISTRATION_VERSION: Final = 0
ANYTHING_LOST: Final = -2
"""Instead of an epoch: not even what was synced is sure to be there (-1: only that is)."""


class Registration(NamedTuple):
    """Who wrote last, and in which directories; ``boot_id`` is None where the machine does not tell.

    Of the topics ``synced`` the logs hold nothing that counts before it is synced: a power cut takes nothing of them.
    """

    broker_epoch: int
    boot_id: str | None
    directories: tuple[UUID, ...]
    synced: tuple[UUID, ...] = ()


def read_registration(disk: Disk, directory: str) -> Registration | None:
    """What is recorded in ``directory``; None when nothing is, or nothing that can be understood."""
    try:
        text = disk.read_bytes(f"{directory}/{REGISTRATION_FILE}").decode()
        rows = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
        if int(rows["version"]) != REGISTRATION_VERSION:
            return None
        directories, synced = _uuids(rows["directories"]), _uuids(rows.get("synced.topics", ""))
        return Registration(int(rows["broker.epoch"]), rows["boot.id"] or None, directories, synced)
    except (FileNotFoundError, KeyError, ValueError):
        return None


def _uuids(text: str) -> tuple[UUID, ...]:
    return tuple(parse_uuid(one) for one in text.split(",") if one)


def write_registration(disk: Disk, directory: str, registration: Registration) -> None:
    """Record it durably; OSError when the disk refuses."""
    text = (
        "#\n"
        f"boot.id={registration.boot_id or ''}\n"
        f"broker.epoch={registration.broker_epoch}\n"
        f"directories={','.join(map(format_uuid, registration.directories))}\n"
        f"synced.topics={','.join(map(format_uuid, registration.synced))}\n"
        f"version={REGISTRATION_VERSION}\n"
    )
    disk.write_atomic(f"{directory}/{REGISTRATION_FILE}", text.encode())


class Registrations:
    """What the log directories of a node know of its registrations.

    ``previous_broker_epoch`` is the one whose records are all there: it goes to the controller, and into the mark of an
    orderly stop, also of one before the process registered. It is -1 when what was not synced may be lost,
    ANYTHING_LOST when more may be, or when nothing is known.

    ``synced_topics`` are those of which a power cut takes nothing; at first, what the former process claimed.
    """

    def __init__(self, disk: Disk, store: LogStore, boot_id: str | None) -> None:
        self._disk = disk
        self._store = store
        self._boot_id = boot_id
        self._written: Registration | None = None  # by this process
        self.synced_topics: frozenset[UUID] = frozenset()
        self.previous_broker_epoch = self._read()

    def _read(self) -> int:
        found = {_id_of(one): read_registration(self._disk, one.path) for one in self._store.online}
        newest = max((one for one in found.values() if one is not None), default=None, key=lambda one: one.broker_epoch)
        if newest is None or any(found.get(directory) is None for directory in newest.directories):
            return ANYTHING_LOST
        replicas = (log for log in self._store if log.topic_partition.topic != CLUSTER_METADATA_TOPIC)
        if any(log.corruption is not None for log in replicas):
            return ANYTHING_LOST
        self.synced_topics = frozenset(newest.synced)
        is_same_boot = newest.boot_id is not None and newest.boot_id == self._boot_id
        # A process that stopped orderly before it registered tells nothing of what a power cut took before it began.
        was_clean = self._store.was_clean and self._store.clean_shutdown_broker_epoch == newest.broker_epoch
        return newest.broker_epoch if is_same_boot or was_clean else NO_EPOCH

    def write(self, broker_epoch: int) -> None:
        """The controller has registered this process. Durable on return; a directory that refuses goes offline."""
        self._record(Registration(broker_epoch, self._boot_id, self.online_directories(), self._sorted_topics()))
        self.previous_broker_epoch = broker_epoch

    def claim(self, synced_topics: frozenset[UUID]) -> None:
        """From now on these are the topics of which nothing can be lost with power. Durable on return, as above.

        Of a topic that is new here every record in the logs must be synced; one that is left out may hold such that
        are not from here on.
        """
        assert self._written is not None, "roles are taken up by those who registered"
        if synced_topics != self.synced_topics:
            self.synced_topics = synced_topics
            # The directories stay, also one that failed meanwhile: it must be missed at the next start.
            self._record(self._written._replace(synced=self._sorted_topics()))

    def _sorted_topics(self) -> tuple[UUID, ...]:
        return tuple(sorted(self.synced_topics))

    def _record(self, registration: Registration) -> None:
        self._written = registration
        for directory in self._store.online:
            try:
                write_registration(self._disk, directory.path, registration)
            except OSError as error:
                directory.fail(StorageFailure(f"could not write {REGISTRATION_FILE} in {directory.path}: {error}"))

    def forget(self, directory: LogDir) -> None:
        """The directory failed: what its kernel still shows may not be on its disk, whatever a later start finds."""
        with suppress(OSError):
            self._disk.unlink(f"{directory.path}/{REGISTRATION_FILE}")
            self._disk.fsync_dir(directory.path)

    def online_directories(self) -> tuple[UUID, ...]:
        """Ids of the directories that work (KIP-858)."""
        return tuple(map(_id_of, self._store.online))

    def failed_directories(self) -> tuple[UUID, ...]:
        """Ids of those that failed since the start."""
        directories = self._store.directories
        return tuple(one.meta.directory_id for one in directories if one.meta is not None and one.failure is not None)


def _id_of(directory: LogDir) -> UUID:
    assert directory.meta is not None, f"{directory.path} is not this node's yet"
    return directory.meta.directory_id
