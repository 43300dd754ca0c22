"""All logs of a node, in one or several log directories (``log.dirs``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import abspath
from typing import NamedTuple
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.directory_checkpoints import CheckpointJob
from minikafka.storage.disk import Disk
from minikafka.storage.errors import PassingFailure, StorageFailure, is_full, is_passing
from minikafka.storage.log import Log
from minikafka.storage.log_dir import ConfigFor, LogDir
from minikafka.storage.log_ends import LogKey
from minikafka.storage.meta import META_REMEDY, DamagedMetaError, DirectoryMeta
from minikafka.storage.new_log import NewLog
from minikafka.storage.presence import PresenceLook
from minikafka.storage.replica_moves import ReplicaMoves
from minikafka.storage.segment_cache import SegmentCache


def _ignore_failure(_directory: LogDir, _failure: StorageFailure) -> None:
    """For callers that check :attr:`LogDir.failure` themselves."""


def _default_config(_where: TopicPartition) -> LogConfig:
    return LogConfig()


class StoreCheckpointJob(NamedTuple):
    """Writes the checkpoint files of all directories that are online."""

    parts: Sequence[tuple[LogDir, CheckpointJob]]

    def run(self) -> None:
        """In any thread; nothing is raised."""
        for _directory, part in self.parts:
            part.run()


class LogStore:
    """Finds, creates and deletes all logs. Not thread-safe, except for the function of :meth:`take_trash`."""

    def __init__(self, disk: Disk, directories: Sequence[LogDir], new_uuid: Callable[[], UUID]) -> None:
        self.directories = directories
        self.left_out: list[str] = []
        """Paths of log directories at the last registration that the settings do not name any more."""
        self.moves = ReplicaMoves(self, new_uuid)
        self._disk = disk
        self._new_uuid = new_uuid

    @classmethod
    def open(
        cls,
        disk: Disk,
        paths: Sequence[str],
        *,
        node_id: int,
        cluster_id: str,
        new_uuid: Callable[[], UUID],
        boot_id: str | None = None,
        config_for: ConfigFor = _default_config,
        on_failure: Callable[[LogDir, StorageFailure], None] = _ignore_failure,
        open_segments: int = 256,
    ) -> LogStore:
        """Lock, check and load every directory; recover it after an unclean stop.

        MetaError when a directory belongs to another process, node or cluster. An unreadable directory is offline from
        the start; StorageFailure when none is left. ``boot_id`` is the machine's (None: unknown): after a kill on the
        same boot all writes are present, so an incomplete end is more often damage than a torn tail.
        ``open_segments``: most closed segments that keep a descriptor, in all directories together.
        """
        directories: list[LogDir] = []
        store, cache = cls(disk, directories, new_uuid), SegmentCache(open_segments)
        try:
            for path in paths:
                directory = LogDir(disk, path, on_failure, cache)
                directories.append(directory)
                with _identifying(directory):
                    directory.check_identity(cluster_id, node_id)
            store._take_possession(cluster_id, node_id)
            for directory in store.online:
                _load(directory, config_for, boot_id)
            store.moves.settle(config_for)
            for log in store:
                store._forget_lost(log)
        except BaseException:
            store.abandon()
            raise
        if not store.online:
            store.abandon()
            raise StorageFailure("; ".join(directory.failure.message for directory in directories if directory.failure))
        return store

    def _take_possession(self, cluster_id: str, node_id: int) -> None:
        vanished = self._vanished_directories()
        configured = {abspath(directory.path) for directory in self.directories}
        self.left_out = sorted(path for path in vanished if path not in configured)
        for directory in self.online:
            if directory.meta is None:
                meta = DirectoryMeta(cluster_id, node_id, self._new_uuid())
                with _identifying(directory):
                    directory.take_possession(meta, vanished.get(abspath(directory.path)))

    def _vanished_directories(self) -> Mapping[str, UUID]:
        """Absolute paths of log directories at the last registration that are at no path now."""
        found = [one.registration for one in self.online if one.registration is not None]
        newest = max(found, default=None, key=lambda one: one.broker_epoch)
        here = {one.meta.directory_id for one in self.directories if one.meta is not None}
        paths = {} if newest is None else newest.paths
        return {abspath(path): directory_id for path, directory_id in paths.items() if directory_id not in here}

    @property
    def online(self) -> list[LogDir]:
        """The directories that are not offline."""
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def was_clean(self) -> bool:
        """True when every directory was stopped cleanly."""
        return all(directory.last_process.was_clean for directory in self.directories)

    @property
    def has_registered(self) -> bool:
        """True when a process that used one of the directories was registered with the controller."""
        return any(directory.registration is not None for directory in self.online)

    @property
    def clean_shutdown_broker_epoch(self) -> int:
        """The broker epoch of the last clean stop, for the registration (KIP-966); -1 after an unclean one."""
        epochs = {directory.last_process.marked_epoch for directory in self.directories}
        epoch = epochs.pop() if len(epochs) == 1 else None
        return NO_EPOCH if epoch is None else epoch

    def __iter__(self) -> Iterator[Log]:
        for directory in self.directories:
            yield from directory.logs.values()

    def __len__(self) -> int:
        return sum(len(directory.logs) for directory in self.directories)

    def get(self, tp: TopicPartition) -> Log | None:
        """The partition's log, if it is here."""
        directory = self.log_dir_of(tp)
        return None if directory is None else directory.logs[tp]

    def log_dir_of(self, tp: TopicPartition) -> LogDir | None:
        """The directory that holds the partition's log."""
        for directory in self.directories:
            if tp in directory.logs:
                return directory
        return None

    def has_former(self, tp: TopicPartition) -> bool:
        """A log of that name was here lately: before a new one is made, its rows are durably removed, which may take
        long.
        """
        return self.get(tp) is None and any(directory.checkpoints.mentions(tp) for directory in self.online)

    def create(self, tp: TopicPartition, topic_id: UUID, config: LogConfig, directory: LogDir | None = None) -> Log:
        """A new log, in the online directory with the fewest logs unless one is named.

        StorageFailure: that directory is offline now; try another. PassingFailure: a shortage; try again later.
        """
        job = self.prepare_create(tp, topic_id, config, directory)
        job.run()
        return self.complete_create(job)

    def prepare_create(
        self, tp: TopicPartition, topic_id: UUID, config: LogConfig, directory: LogDir | None = None
    ) -> NewLog:
        """The same for a thread: ``run`` it, then :meth:`complete_create`. StorageFailure: no directory is online."""
        if self.log_dir_of(tp) is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{tp} already has a log on this node")
        chosen = directory or min(self.online, key=_log_count, default=None)
        if chosen is None:
            raise StorageFailure(f"no log directory is online for {tp}")
        return chosen.new_logs.prepare(tp, topic_id, config)

    def complete_create(self, job: NewLog) -> Log:
        """The new log. Errors as of :meth:`create`."""
        try:
            log = job.directory.new_logs.complete(job)
        except PassingFailure:
            job.directory.throw_away(job.path, job.tp, self._new_uuid())  # the next attempt may be elsewhere
            raise
        self._forget_lost(log)
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Delete the partition's log, and a copy under way; the files go with the trash."""
        directory = self.log_dir_of(tp)
        assert directory is not None, tp
        self.moves.end(tp)
        directory.delete(tp, self._new_uuid())

    def remake(self, tp: TopicPartition) -> Log:
        """Create the partition's log again in its directory: its files are gone. StorageFailure if refused."""
        directory = self.log_dir_of(tp)
        assert directory is not None, tp
        self.moves.end(tp)
        return directory.new_logs.remake(tp, self._new_uuid())

    # -- strays -----------------------------------------------------------------------------------------------------

    def identify(self, tp: TopicPartition, topic_id: UUID) -> None:
        """Give a log without a readable topic id that of metadata. A directory that refuses goes offline."""
        directory = self.log_dir_of(tp)
        assert directory is not None, tp
        directory.identify(tp, topic_id)

    def set_aside(self, log: Log) -> list[str]:
        """Rename the directory of a log as a stray; returns its path. Another log of the partition stays."""
        tp = log.topic_partition
        if self.get(tp) is log:
            self.moves.end(tp)
        return self._set_aside(tp, [one for one in self.online if one.logs.get(tp) is log])

    def set_unusable_aside(self, tp: TopicPartition) -> list[str]:
        """Rename unusable logs of the partition as strays, in all directories; returns the paths."""
        directories = [one for one in self.online if tp in one.unusable]
        for directory in directories:
            del directory.unusable[tp]
        return self._set_aside(tp, directories)

    def _set_aside(self, tp: TopicPartition, directories: Sequence[LogDir]) -> list[str]:
        paths = [directory.set_aside(tp, self._new_uuid()) for directory in directories]
        return [path for path in paths if path is not None]

    def unusable(self) -> dict[TopicPartition, str]:
        """Partitions whose logs cannot be opened, and why."""
        return {tp: why for directory in self.online for tp, why in directory.unusable.items()}

    def missing(self) -> list[TopicPartition]:
        """Partitions of the last checkpoints that are missing now."""
        return sorted({tp for directory in self.online for tp in directory.missing if self.get(tp) is None})

    def is_missing(self, tp: TopicPartition, topic_id: UUID) -> bool:
        """The replica was here, possibly with records, and is missing now."""
        key = LogKey(topic_id, tp.partition)
        return self.get(tp) is None and any(tp in one.missing or one.ends.has_lost(key) for one in self.online)

    def forget_missing(self, tp: TopicPartition) -> None:
        """No log of the partition should be here, in spite of the checkpoints."""
        for directory in self.online:
            directory.missing.discard(tp)

    def _forget_lost(self, log: Log) -> None:
        """The log is here: it is not missing any more, nor lost in any other directory."""
        for directory in self.online:
            directory.missing.discard(log.topic_partition)
            directory.ends.forget_lost(LogKey(log.topic_id, log.topic_partition.partition))

    def strays(self) -> list[str]:
        """Paths of all strays, also those of former processes."""
        return [path for directory in self.online for path in directory.strays]

    def discard_stray(self, path: str) -> None:
        """Have it removed with the trash."""
        for directory in self.online:
            if path in directory.strays:
                directory.strays.remove(path)
                directory.discard_later(path)

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def high_watermark(self, tp: TopicPartition) -> int:
        """The checkpointed high watermark of a log, clamped to the log (row R22); without one its log start."""
        directory = self.log_dir_of(tp)
        assert directory is not None, tp
        log = directory.logs[tp]
        return max(log.log_start_offset, min(directory.checkpoints.high_watermarks.get(tp, 0), log.log_end_offset))

    def note_rows(self, log: Log, high_watermark: int | None) -> None:
        """Note what the next checkpoint says of the log, if it is still here. Without a high watermark it keeps its
        last one."""
        directory = self.log_dir_of(log.topic_partition)
        if directory is not None and directory.logs[log.topic_partition] is log:
            directory.checkpoints.note(log.topic_partition, log, high_watermark)

    def prepare_checkpoints(self) -> StoreCheckpointJob:
        """Write the rows that were noted, in a thread: ``run`` it, then :meth:`complete_checkpoints`."""
        jobs = [(directory, directory.prepare_checkpoints()) for directory in self.directories]
        return StoreCheckpointJob([(directory, job) for directory, job in jobs if job is not None])

    def complete_checkpoints(self, job: StoreCheckpointJob) -> None:
        """Directories whose files could not be written go offline."""
        for directory, part in job.parts:
            directory.complete_checkpoints(part)

    def prepare_look(self) -> PresenceLook:
        """Check for missing files of the logs that are added: ``run`` it in a thread, then ``complete`` it."""
        return PresenceLook(self._disk)

    def take_trash(self, now_ms: int | None = None) -> Callable[[], None] | None:
        """A function that removes deleted files whose delay is over (``file.delete.delay.ms``), for any thread; all of
        them without a time (monotonic). None without such files."""
        paths = [path for directory in self.directories for path in directory.take_trash(now_ms)]
        return (lambda: _remove(self._disk, paths)) if paths else None

    def close(self, high_watermarks: Mapping[TopicPartition, int], *, broker_epoch: int = NO_EPOCH) -> None:
        """A clean stop: everything durable, checkpointed and marked clean."""
        for directory in self.directories:
            directory.close(_only(high_watermarks, directory), broker_epoch)

    def abandon(self) -> None:
        """Stop like a crash: release the locks only."""
        for directory in self.directories:
            directory.abandon()


def _remove(disk: Disk, paths: Sequence[str]) -> None:
    """Remove files and directories that were renamed when they were deleted; may run in a thread.

    OSError after all others are gone: what cannot be removed now goes at the next start.
    """
    refused: OSError | None = None
    for path in paths:
        try:
            if disk.is_dir(path):
                disk.remove_tree(path)
            else:
                disk.unlink(path)
        except OSError as error:
            refused = error
    if refused is not None:
        raise refused


def _log_count(directory: LogDir) -> int:
    """Number of logs for the choice of a directory, including moves to it."""
    return len(directory.logs) + len(directory.futures) + directory.new_logs.under_way


@contextmanager
def _identifying(directory: LogDir) -> Iterator[None]:
    try:
        yield
    except DamagedMetaError as error:
        directory.fail(StorageFailure(str(error), remedy=""))
    except OSError as error:
        _give_up(directory, "identify", error)


def _load(directory: LogDir, config_for: ConfigFor, boot_id: str | None) -> None:
    try:
        directory.load(config_for, boot_id)
    except OSError as error:
        _give_up(directory, "load", error)


def _give_up(directory: LogDir, what: str, error: OSError) -> None:
    """Go on without the directory. OSError after a shortage: all directories may be whole."""
    if is_passing(error):
        raise error
    remedy = "make room on it and restart this node" if is_full(error) else f"mend the disk, or {META_REMEDY}"
    why = f"could not {what} the log directory {directory.path}: {error}; {remedy}"
    directory.fail(StorageFailure(why, remedy="", is_full=is_full(error)))


def _only(high_watermarks: Mapping[TopicPartition, int], directory: LogDir) -> dict[TopicPartition, int]:
    return {tp: offset for tp, offset in high_watermarks.items() if tp in directory.logs}
