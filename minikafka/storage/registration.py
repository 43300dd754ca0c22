"""What a node may claim of its former registration when it registers anew (KIP-966).

A broker writes the ``registration`` file, durably, between registering and doing anything as that registration. When it
starts anew it reads it to say which registration it continues. What a process wrote survives when that process is
killed, but not when its machine loses power; the machine's boot id tells one from the other. And a disk that was taken
away, or failed, takes what was synced with it; so each file names all the directories there were.

The newest registration that is found says how far the directories went; the controller knows whether the node has lived
under a later one. One that names an older registration than others do was put back from a copy, or was not reached when
the last registration was written down: no log in it is claimed.

Beside that it names the replicas whose logs are there and undamaged. Of any other replica nothing is claimed: its log
may be missing, damaged, or not be told to be its own. So one bad file costs one replica its place, not the node all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import structlog

from minikafka.model import CLUSTER_METADATA_TOPIC, NO_EPOCH, ZERO_TOPIC_ID
from minikafka.storage.damage import remove_torn_mark
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration_file import (
    REGISTRATION_FILE,
    Registration,
    read_registration,
    write_registration,
)

log = structlog.get_logger(__name__)

ANYTHING_LOST: Final = -2
"""Instead of an epoch: not even what was synced is sure to be there (-1: only that is)."""
NOT_FORGOTTEN: Final = UUID(int=1)
"""No directory's id, so that a start misses it: a directory failed and kept its registration."""


class Registrations:
    """What the log directories of a node know of its registrations.

    ``previous_broker_epoch`` is the one whose records are all there: it goes to the controller, and into the mark of an
    orderly stop, also of one before the process registered. It is -1 when what was not synced may be lost,
    ANYTHING_LOST when more may be, or when nothing is known. ``recorded_broker_epoch`` is the one that the files name,
    whatever was lost of it; -1 when none does.

    ``synced_topics`` are those of which a power cut takes nothing; at first, what the former process claimed.
    """

    def __init__(self, disk: Disk, store: LogStore, boot_id: str | None) -> None:
        self._disk = disk
        self._store = store
        self._boot_id = boot_id
        self._written: Registration | None = None  # by this process
        self._paths_before: Mapping[str, UUID] = {}
        self._behind: list[LogDir] = []  # of an older registration than others
        self.recorded_broker_epoch = NO_EPOCH
        self.synced_topics: frozenset[UUID] = frozenset()
        self.previous_broker_epoch = self._read()

    def _read(self) -> int:
        found = {_id_of(one): read_registration(self._disk, one.path) for one in self._store.online}
        newest = max((one for one in found.values() if one is not None), default=None, key=lambda one: one.broker_epoch)
        if newest is None:
            return ANYTHING_LOST
        self.recorded_broker_epoch = newest.broker_epoch
        self._paths_before = newest.paths
        self._behind = [one for one in self._store.online if _is_behind(found[_id_of(one)], newest)]
        for directory in self._behind:
            log.warning("log directory is of an older registration", path=directory.path, effect="nothing is claimed")
        of_newest = (one for one in found.values() if one is not None and one.broker_epoch == newest.broker_epoch)
        if any(found.get(directory) is None for one in of_newest for directory in one.directories):
            return ANYTHING_LOST
        self.synced_topics = frozenset(newest.synced)
        # A process that stopped orderly before it registered tells nothing of what a power cut took before it began.
        was_clean = self._store.was_clean and self._store.clean_shutdown_broker_epoch == newest.broker_epoch
        if newest.is_of_boot(self._boot_id) or was_clean:
            return newest.broker_epoch
        if any(log.corruption is not None for log in self._replicas()):
            return ANYTHING_LOST  # a disk that lost synced bytes with power may have lost others that nothing tells of
        return NO_EPOCH

    def whole_replicas(self) -> Mapping[UUID, tuple[int, ...]]:
        """Partitions by topic id: the logs that are here, undamaged, and known to be theirs. Not one of two."""
        whole: dict[UUID, list[int]] = {}
        copies = Counter((log_.topic_id, log_.topic_partition) for log_ in self._replicas())
        for log_ in self._replicas():
            if (
                log_.corruption is None
                and log_.failure is None
                and not log_.was_torn
                and log_.topic_id != ZERO_TOPIC_ID
                and not any(directory.logs.get(log_.topic_partition) is log_ for directory in self._behind)
                and copies[log_.topic_id, log_.topic_partition] == 1
            ):
                whole.setdefault(log_.topic_id, []).append(log_.topic_partition.partition)
        return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in sorted(whole.items())}

    def _replicas(self) -> list[Log]:
        return [log_ for log_ in self._store if log_.topic_partition.topic != CLUSTER_METADATA_TOPIC]

    def write(self, broker_epoch: int) -> None:
        """The controller has registered this process. Durable on return; a directory that refuses goes offline."""
        online = self.online_directories()
        self._record(Registration(broker_epoch, self._boot_id, online, self._sorted_topics(), self._paths(online)))
        self.previous_broker_epoch = self.recorded_broker_epoch = broker_epoch
        self._behind = []
        for log_ in self._replicas():
            if log_.was_torn:
                log_.was_torn = False
                remove_torn_mark(self._disk, log_.directory)

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

    def _paths(self, online: tuple[UUID, ...]) -> dict[str, UUID]:
        """Of all directories. One that is offline stays known by what was recorded before."""
        paths = {one.path: _id_of(one) for one in self._store.online}
        for one in self._store.directories:
            before = self._paths_before.get(one.path)
            if before is not None and before not in online:
                paths.setdefault(one.path, before)
        return paths

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
        """The directory failed: what its kernel still shows may not be on its disk, whatever a later start finds.

        A directory that does not let its file go is remembered in the others.
        """
        path = f"{directory.path}/{REGISTRATION_FILE}"
        try:
            self._disk.unlink(path)
            self._disk.fsync_dir(directory.path)
        except OSError as error:
            log.error(
                "registration not removed",
                path=path,
                why=str(error),
                remedy="remove the file before this node is started again: records in this directory may be lost",
            )
            if self._written is not None:
                self._record(self._written._replace(directories=(*self._written.directories, NOT_FORGOTTEN)))

    def online_directories(self) -> tuple[UUID, ...]:
        """Ids of the directories that work (KIP-858)."""
        return tuple(map(_id_of, self._store.online))

    def failed_directories(self) -> tuple[UUID, ...]:
        """Ids of those that failed since the start."""
        directories = self._store.directories
        return tuple(one.meta.directory_id for one in directories if one.meta is not None and one.failure is not None)


def _is_behind(found: Registration | None, newest: Registration) -> bool:
    return found is not None and found.broker_epoch < newest.broker_epoch


def _id_of(directory: LogDir) -> UUID:
    assert directory.meta is not None, f"{directory.path} is not this node's yet"
    return directory.meta.directory_id
