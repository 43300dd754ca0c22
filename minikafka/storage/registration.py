"""What a node may claim of its former registration when it registers anew (KIP-966).

A broker writes the ``registration`` file, durably, between registering and doing anything as that registration. When it
starts anew it reads it to say which registration it continues. What a process wrote survives when that process is
killed, but not when its machine loses power; the machine's boot id tells one from the other.

The newest registration that is found says how far the directories went; the controller knows whether the node has lived
under a later one. A directory that names an older registration than others do was put back from a copy, or was not
reached when the last registration was written down. One that names none, or is not named by the others, failed: what it
shows may not be on its disk. No log in such a directory is claimed.

Beside that the node names the replicas whose logs are there and undamaged. Of any other replica nothing is claimed: its
log may be missing, damaged, or not be told to be its own. So one bad file costs one replica its place, and a directory
that failed or is gone costs those in it theirs, not the node all.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os.path import abspath
from typing import Final
from uuid import UUID

from minikafka.event_log import get_logger
from minikafka.model import METADATA_PARTITION, NO_EPOCH, ZERO_TOPIC_ID
from minikafka.storage.damage import remove_torn_mark
from minikafka.storage.disk import Disk, NamesFile
from minikafka.storage.errors import StorageFailure, is_full, is_passing
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration_file import (
    REGISTRATION_FILE,
    Registration,
    format_registration,
    read_registration,
)
from minikafka.storage.small_file import SmallFile

log = get_logger()

ANYTHING_LOST: Final = -2
"""Instead of an epoch: not even what was synced is sure to be there (-1: only that is)."""


class RecordJob:
    """Tells the disk what changed of the registration. ``run`` it in any thread, then complete it on the loop.

    If the directory of the metadata log refuses, the node stops, and the directories behind it keep what they have.
    """

    def __init__(self, parts: Iterable[tuple[LogDir, Callable[[], None]]]) -> None:
        self._parts = deque(parts)  # that are not done
        self._failed: list[tuple[LogDir, OSError]] = []
        self._shortage: OSError | None = None

    @property
    def must_repeat(self) -> bool:
        """True when it ran into a limit of the process or the machine: run it again, some time later."""
        return bool(self._parts)

    def left(self) -> list[LogDir]:
        """Directories in which it is to be repeated."""
        return [directory for directory, _act in self._parts]

    def run(self) -> None:
        """Durable on return, but in directories that refused. Nothing is raised."""
        while self._parts:
            directory, act = self._parts[0]
            try:
                act()
            except OSError as error:
                if is_passing(error):
                    self._shortage = error
                    return
                self._failed.append((directory, error))
                if METADATA_PARTITION in directory.logs:
                    self._parts.clear()
                    return
            self._parts.popleft()

    def refused(self) -> list[tuple[LogDir, OSError]]:
        """Directories in which it is not durable."""
        short = self._shortage
        assert short is not None or not self._parts, "it has run"
        return [*self._failed, *((directory, short) for directory, _act in self._parts if short is not None)]


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
        self._version = 0  # of that
        self._files = {one: SmallFile(disk, f"{one.path}/{REGISTRATION_FILE}") for one in store.directories}
        self._names = _names_of(store.online)
        self._paths_before: Mapping[str, UUID] = {}
        self._behind: list[LogDir] = []  # of an older registration than others, or of none
        self.recorded_broker_epoch = NO_EPOCH
        self.synced_topics: frozenset[UUID] = frozenset()
        self.previous_broker_epoch = self._read()

    def _read(self) -> int:
        found = {_id_of(one): read_registration(self._disk, one.path) for one in self._store.online}
        read = [one for one in found.values() if one is not None]
        newest = max(read, default=None, key=lambda one: one.broker_epoch)
        if newest is None:
            return ANYTHING_LOST
        of_newest = [one for one in read if one.broker_epoch == newest.broker_epoch]
        self.recorded_broker_epoch = newest.broker_epoch
        self._paths_before = {abspath(path): directory_id for path, directory_id in newest.paths.items()}
        for path in self._store.left_out:
            log.warning("log directory left out", path=path, effect="its replicas are made anew, and fetched")
        self._behind = [one for one in self._store.online if _is_behind(_id_of(one), found[_id_of(one)], of_newest)]
        for directory in self._behind:
            if found[_id_of(directory)] not in (None, *of_newest):
                path, effect = directory.path, "nothing is claimed"
                log.warning("log directory is of an older registration", path=path, effect=effect)
        self.synced_topics = frozenset.intersection(*(frozenset(one.synced) for one in of_newest))
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
        return [log_ for log_ in self._store if log_.topic_partition != METADATA_PARTITION]

    def prepare_write(self, broker_epoch: int) -> RecordJob:
        """The controller has registered this process: what to ``run`` in a thread before it acts as registered.

        The directory of the metadata log comes first. So it names an older registration than another one only if it is
        an older copy (``broker/drivers/metadata_copies.py``).
        """
        online = self.online_directories()
        parts = self._record(Registration(broker_epoch, self._boot_id, online, self._sorted_topics(), self._paths()))
        for directory in self._store.online:
            for log_ in directory.logs.values():
                if log_.was_torn:
                    parts.append((directory, partial(remove_torn_mark, self._disk, log_.directory)))
        return RecordJob(parts)

    def complete_write(self, job: RecordJob, broker_epoch: int) -> None:
        """It has run. A directory that refused goes offline."""
        self.previous_broker_epoch = self.recorded_broker_epoch = broker_epoch
        self._behind = []
        for log_ in self._replicas():
            log_.was_torn = False
        self.complete(job)

    def write(self, broker_epoch: int) -> None:
        """The same, here and now."""
        job = self.prepare_write(broker_epoch)
        job.run()
        self.complete_write(job, broker_epoch)

    def prepare_claim(self, synced_topics: frozenset[UUID]) -> RecordJob:
        """From now on these are the topics of which nothing can be lost with power. ``run`` it, then complete it.

        Of a topic that is new here every record in the logs must be synced; one that is left out may hold such that
        are not once it has run.
        """
        assert self._written is not None, "roles are taken up by those who registered"
        if synced_topics == self.synced_topics:
            return RecordJob(())
        self.synced_topics = synced_topics
        return RecordJob(self._record(self._written._replace(synced=self._sorted_topics())))

    def claim(self, synced_topics: frozenset[UUID]) -> RecordJob:
        """The same, here and now. Where the returned job must be repeated, nothing at all is claimed until it is.

        A process that is killed meanwhile is followed by one that claims nothing.
        """
        job = self.prepare_claim(synced_topics)
        job.run()
        if not job.must_repeat:
            self.complete(job)
        for directory in job.left():
            try:
                self._files[directory].withdraw(self._version, self._names[directory])
            except OSError as error:
                directory.fail(StorageFailure(f"could not remove {REGISTRATION_FILE} in {directory.path}: {error}"))
        return job

    def complete(self, job: RecordJob) -> None:
        """It has run, to the end or as far as it got before the node stops. A directory that refused goes offline."""
        for directory, error in job.refused():
            why = f"could not write {REGISTRATION_FILE} in {directory.path}: {error}"
            directory.fail(StorageFailure(why, is_full=is_full(error)))

    def _paths(self) -> dict[str, UUID]:
        """Of all directories, also of one that failed; what was not read stays known by what was recorded before."""
        directories = self._store.directories
        paths = {abspath(one.path): one.meta.directory_id for one in directories if one.meta is not None}
        here = set(paths.values())
        for path in (abspath(one.path) for one in directories):
            before = self._paths_before.get(path)
            if before is not None and before not in here:
                paths.setdefault(path, before)
        return paths

    def _sorted_topics(self) -> tuple[UUID, ...]:
        return tuple(sorted(self.synced_topics))

    def _record(self, registration: Registration) -> list[tuple[LogDir, Callable[[], None]]]:
        self._written = registration
        self._version += 1
        content = format_registration(registration)
        online = sorted(self._store.online, key=lambda one: METADATA_PARTITION not in one.logs)
        return [(one, partial(self._files[one].store, self._version, content)) for one in online]

    def prepare_forget(self, directory: LogDir) -> RecordJob:
        """The directory failed: what its kernel still shows may not be on its disk, whatever a later start finds.

        ``run`` it in a thread, then :meth:`complete_forget`.
        """
        return RecordJob([(directory, self._files[directory].remove)])

    def complete_forget(self, job: RecordJob) -> RecordJob:
        """It has run. What to run, and complete, then: the others do not name a directory that keeps its file."""
        refused = job.refused()
        for directory, error in refused:
            log.error(
                "registration not removed",
                path=f"{directory.path}/{REGISTRATION_FILE}",
                why=str(error),
                remedy="remove the file before this node is started again: records in this directory may be lost",
            )
        if not refused or self._written is None:
            return RecordJob(())
        failed = {_id_of(directory) for directory, _error in refused}
        left = tuple(one for one in self._written.directories if one not in failed)
        return RecordJob(self._record(self._written._replace(directories=left)))

    def forget(self, directory: LogDir) -> None:
        """The same, here and now."""
        for_it = self.prepare_forget(directory)
        for_it.run()
        for_others = self.complete_forget(for_it)
        for_others.run()
        self.complete(for_others)

    def online_directories(self) -> tuple[UUID, ...]:
        """Ids of the directories that work (KIP-858)."""
        return tuple(map(_id_of, self._store.online))

    def failed_directories(self) -> tuple[UUID, ...]:
        """Ids of those that failed since the start, while the node goes on with others.

        With the last one, or that of the metadata log, it ends: others see a process that is gone, and a start tells
        what is left.
        """
        directories = self._store.directories
        if not self._store.online or any(
            METADATA_PARTITION in one.logs for one in directories if one.failure is not None
        ):
            return ()
        return tuple(one.meta.directory_id for one in directories if one.meta is not None and one.failure is not None)


def _names_of(directories: Iterable[LogDir]) -> dict[LogDir, NamesFile]:
    """Held open: a claim must go also where nothing can be opened. A directory that refuses goes offline."""
    names = {}
    for directory in directories:
        with suppress(StorageFailure):  # it is offline, and says why
            names[directory] = directory.open_names()
    return names


def _is_behind(directory: UUID, found: Registration | None, newest: Sequence[Registration]) -> bool:
    """Its logs may not be what this node had when it was last registered. ``found``: what the directory names."""
    return found not in newest or any(directory not in one.directories for one in newest)


def _id_of(directory: LogDir) -> UUID:
    assert directory.meta is not None, f"{directory.path} is not this node's yet"
    return directory.meta.directory_id
