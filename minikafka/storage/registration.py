"""The ``registration`` file of a log directory: under which registration what is in it was written (KIP-966).

A broker writes it, durably, between registering and doing anything as that registration. When it starts anew it reads
it to say which registration it continues. What a process wrote survives when that process is killed, but not when its
machine loses power; the machine's boot id tells one from the other.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from minikafka.model import CLUSTER_METADATA_TOPIC, NO_EPOCH
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log_store import LogStore

REGISTRATION_FILE = "registration"
REGISTRATION_VERSION = 0


class Registration(NamedTuple):
    """Who wrote last; ``boot_id`` is None where the machine does not tell."""

    broker_epoch: int
    boot_id: str | None


def read_registration(disk: Disk, directory: str) -> Registration | None:
    """What is recorded in ``directory``; None when nothing is, or nothing that can be understood."""
    try:
        text = disk.read_bytes(f"{directory}/{REGISTRATION_FILE}").decode()
        rows = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
        if int(rows["version"]) != REGISTRATION_VERSION:
            return None
        return Registration(int(rows["broker.epoch"]), rows["boot.id"] or None)
    except (FileNotFoundError, KeyError, ValueError):
        return None


def write_registration(disk: Disk, directory: str, registration: Registration) -> None:
    """Record it durably; OSError when the disk refuses."""
    text = (
        "#\n"
        f"boot.id={registration.boot_id or ''}\n"
        f"broker.epoch={registration.broker_epoch}\n"
        f"version={REGISTRATION_VERSION}\n"
    )
    disk.write_atomic(f"{directory}/{REGISTRATION_FILE}", text.encode())


class Registrations:
    """What the log directories of a node know of its registrations.

    ``previous_broker_epoch`` is the one whose records are all there: it goes to the controller. -1 when some may be
    lost, or when there was none.
    """

    def __init__(self, disk: Disk, store: LogStore, boot_id: str | None) -> None:
        self._disk = disk
        self._store = store
        self._boot_id = boot_id
        self.previous_broker_epoch = self._read()

    def _read(self) -> int:
        """Of several directories the newest tells. An older one was offline: the cluster counts on nothing in it."""
        replicas = (log for log in self._store if log.topic_partition.topic != CLUSTER_METADATA_TOPIC)
        if any(log.corruption is not None for log in replicas):
            return NO_EPOCH  # damaged bytes are lost records
        if self._store.was_clean and self._store.clean_shutdown_broker_epoch != NO_EPOCH:
            return self._store.clean_shutdown_broker_epoch
        found = [read_registration(self._disk, directory.path) for directory in self._store.online]
        newest = max((one for one in found if one is not None), default=None, key=lambda one: one.broker_epoch)
        if newest is None or newest.boot_id is None or newest.boot_id != self._boot_id:
            return NO_EPOCH
        return newest.broker_epoch

    def write(self, broker_epoch: int) -> None:
        """The controller has registered this process. Durable on return; a directory that refuses goes offline."""
        for directory in self._store.online:
            try:
                write_registration(self._disk, directory.path, Registration(broker_epoch, self._boot_id))
            except OSError as error:
                directory.fail(StorageFailure(f"could not write {REGISTRATION_FILE} in {directory.path}: {error}"))
        self.previous_broker_epoch = broker_epoch

    def online_directories(self) -> tuple[UUID, ...]:
        """Ids of the directories that work (KIP-858)."""
        return tuple(one.meta.directory_id for one in self._store.online if one.meta is not None)

    def failed_directories(self) -> tuple[UUID, ...]:
        """Ids of those that failed since the start."""
        directories = self._store.directories
        return tuple(one.meta.directory_id for one in directories if one.meta is not None and one.failure is not None)
