"""One log directory: its lock, its identity, its checkpoints and the logs in it.

``.lock`` keeps a second process out. ``.kafka_cleanshutdown`` is written last in an orderly stop and removed after the
next load: while it is absent, a start recovers. Checkpoints are rewritten as a whole; a partition that was deleted and
made again never inherits offsets from a file written before.

When any write under the directory fails, the directory is offline: every log in it refuses from then on. One that
cannot even be opened is offline from the start.

A *future* log is the copy of a log of another directory of the node, on its way to take that one's place (row A5). Its
directory is ``topic-partition.<32 hex digits>-future``. It takes the place when the old directory is renamed, durably,
to ``topic-partition.<the same digits>-delete``: whoever finds both completes the move.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import dirname
from typing import NamedTuple
from uuid import UUID

from minikafka.model import NO_EPOCH, TopicPartition
from minikafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    OffsetCheckpoint,
)
from minikafka.storage.config import LogConfig
from minikafka.storage.core import LogHooks
from minikafka.storage.directory_names import (
    deleted_directory_id,
    deleted_directory_name,
    future_directory_name,
    parse_directory_name,
    parse_future_directory_name,
)
from minikafka.storage.disk import Disk, DiskSpace, Lock
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.meta import (
    PARTITION_METADATA_FILE,
    DirectoryMeta,
    MetaError,
    read_meta,
    read_topic_id,
    write_meta,
    write_topic_id,
)
from minikafka.storage.segment import SegmentCache

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP)  # in there this process made nothing
LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"

ConfigFor = Callable[[TopicPartition], LogConfig]


class FutureLog(NamedTuple):
    """A copy that is being made, and the id in its directory's name."""

    log: Log
    unique: UUID


class LogDir:
    """See the module. ``logs`` are the partitions in it; ``failure`` is set once it is offline."""

    def __init__(self, disk: Disk, path: str, on_failure: Callable[[LogDir, StorageFailure], None]) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, FutureLog] = {}
        self.found_futures: list[tuple[TopicPartition, UUID]] = []  # by load, for the store to decide about
        self.deleted_ids: set[UUID] = set()  # of the directories found on their way out
        self.failure: StorageFailure | None = None
        self.was_clean = False
        self.clean_shutdown_broker_epoch = NO_EPOCH
        self.meta: DirectoryMeta | None = None
        self._disk = disk
        self._on_failure = on_failure
        self._cache = SegmentCache()
        self._trash: list[str] = []
        self._recovery_points = OffsetCheckpoint(disk, path, RECOVERY_POINT_FILE)
        self._log_starts = OffsetCheckpoint(disk, path, LOG_START_FILE)
        self._first_dirty = OffsetCheckpoint(disk, path, CLEANER_FILE)
        self._high_watermarks = OffsetCheckpoint(disk, path, HIGH_WATERMARK_FILE)
        self.high_watermarks: dict[TopicPartition, int] = {}  # as last written (row R22)
        self._lock: Lock | None = None
        try:
            disk.mkdir(path)
            self._lock = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise MetaError(
                f"another process uses the log directory {path}; stop it or give this node its own log.dirs"
            ) from error
        except OSError as error:
            self.fail(StorageFailure(f"could not open the log directory {path}: {error}"))

    # -- starting ---------------------------------------------------------------------------------------------------

    def check_identity(self, cluster_id: str | None, node_id: int, new_uuid: Callable[[], UUID]) -> None:
        """Refuse another node's or cluster's directory; take possession of an empty one."""
        meta = read_meta(self._disk, self.path)
        if meta is None:
            if cluster_id is None:
                return
            self._sync_names()
            meta = DirectoryMeta(cluster_id, node_id, new_uuid())
            write_meta(self._disk, self.path, meta)
        if meta.node_id != node_id:
            raise MetaError(f"the log directory {self.path} belongs to node {meta.node_id}, not to node {node_id}")
        if cluster_id is not None and meta.cluster_id != cluster_id:
            raise MetaError(f"the log directory {self.path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
        self.meta = meta

    def _sync_names(self) -> None:
        """Make the new directory's own name durable, and those above it, which may be as new."""
        path, above = self.path, dirname(self.path)
        while above != path:
            try:
                self._disk.fsync_dir(above)
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise
            path, above = above, dirname(above)

    def load(self, config_for: ConfigFor) -> None:
        """Open every log in the directory."""
        self._read_clean_shutdown()
        recovery_points, log_starts = self._recovery_points.read(), self._log_starts.read()
        first_dirty = self._first_dirty.read()
        self.high_watermarks = self._high_watermarks.read()
        for name in self._disk.listdir(self.path):
            where = parse_directory_name(name)
            if where is not None:
                log = self.logs[where] = self._open(
                    where,
                    config_for(where),
                    topic_id=read_topic_id(self._disk, f"{self.path}/{name}"),
                    is_clean=self.was_clean,
                    recovery_point=recovery_points.get(where, 0),
                    log_start_offset=log_starts.get(where, 0),
                )
                log.first_dirty_offset = min(first_dirty.get(where, 0), log.log_end_offset)
                log.unsynced_paths.append(f"{log.directory}/{PARTITION_METADATA_FILE}")
            elif (future := parse_future_directory_name(name)) is not None:
                self.found_futures.append(future)
            elif (deleted := deleted_directory_id(name)) is not None:
                self.deleted_ids.add(deleted)
                self._trash.append(f"{self.path}/{name}")
        if self.was_clean:
            self._forget_clean_shutdown()
        else:
            self._settle()

    def _settle(self) -> None:
        """Make durable what is there: a process that was killed may have left what is seen but not synced.

        A vote that a power cut may still take back, or a truncation, must not be built upon.
        """
        jobs = [log.prepare_flush() for log in self.logs.values()]
        self._disk.run_all([job.run for job in jobs])
        for job in jobs:
            if job.error is not None:
                raise job.error
        self._disk.fsync_dir(self.path)
        # What will be written where records were lost is not committed because those were.
        ends = {where: log.log_end_offset for where, log in self.logs.items()}
        lowered = {where: min(at, ends.get(where, at)) for where, at in self.high_watermarks.items()}
        if lowered != self.high_watermarks:
            self.high_watermarks = lowered
            self._high_watermarks.write(lowered)

    def _open(
        self,
        where: TopicPartition,
        config: LogConfig,
        *,
        topic_id: UUID,
        is_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        directory: str | None = None,
    ) -> Log:
        return Log.open(
            self._disk,
            directory or self.directory_of(where),
            where,
            config,
            topic_id=topic_id,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            is_clean=is_clean,
            cache=self._cache,
            hooks=LogHooks(self.fail, self.record_bounds, self._trash.extend),
        )

    def space(self) -> DiskSpace:
        """Of the file system that it is on; -1 where that does not tell."""
        try:
            return self._disk.space(self.path)
        except OSError:
            return DiskSpace(-1, -1)

    # -- logs -------------------------------------------------------------------------------------------------------

    def directory_of(self, where: TopicPartition) -> str:
        """Path of a partition's directory."""
        return f"{self.path}/{where}"

    def create(self, where: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """A new, empty log. Durable, its name included, with its first flush."""
        assert where not in self.logs
        log = self.logs[where] = self._create(where, topic_id, config, self.directory_of(where))
        return log

    def _create(self, where: TopicPartition, topic_id: UUID, config: LogConfig, directory: str) -> Log:
        if self.failure is not None:
            raise self.failure
        self._forget_checkpoints(where)
        try:
            self._disk.mkdir(directory)
            write_topic_id(self._disk, directory, topic_id)
            log = self._open(where, config, topic_id=topic_id, is_clean=True, directory=directory)
        except OSError as error:
            failure = StorageFailure(f"could not create the log of {where} in {self.path}: {error}")
            self.fail(failure)
            raise failure from error
        log.unsynced_paths.append(f"{directory}/{PARTITION_METADATA_FILE}")
        return log

    def delete(self, where: TopicPartition, unique: UUID) -> None:
        """Take a log away: renamed now, its files removed with the trash."""
        log = self.logs.pop(where)
        log.go_offline(StorageFailure(f"{where} was deleted"))
        self._throw_away(log.directory, where, unique)

    def _throw_away(self, directory: str, where: TopicPartition, unique: UUID) -> None:
        if self.failure is not None:
            return
        target = f"{self.path}/{deleted_directory_name(where, unique)}"
        try:
            self._disk.rename(directory, target)
        except OSError as error:
            self.fail(StorageFailure(f"could not delete {directory}: {error}"))
            return
        self._trash.append(target)

    def fail(self, failure: StorageFailure) -> None:
        """Something under the directory could not be written: all of it goes offline."""
        if self.failure is not None:
            return
        self.failure = failure
        for log in self._all_logs():
            log.go_offline(failure)
        self._on_failure(self, failure)

    def _all_logs(self) -> list[Log]:
        return [*self.logs.values(), *(future.log for future in self.futures.values())]

    def take_trash(self) -> list[str]:
        """Paths of files and directories to remove, each handed out once."""
        trash = self._trash.copy()
        self._trash.clear()
        return trash

    # -- future logs ------------------------------------------------------------------------------------------------

    def create_future(self, where: TopicPartition, topic_id: UUID, config: LogConfig, unique: UUID) -> Log:
        """An empty copy of a log of another directory, to be filled."""
        assert where not in self.logs
        assert where not in self.futures
        log = self._create(where, topic_id, config, self._future_directory(where, unique))
        self.futures[where] = FutureLog(log, unique)
        return log

    def discard_future(self, where: TopicPartition, unique: UUID) -> None:
        """Give a copy up; ``unique`` is new, not the copy's own, which would say that it is complete."""
        log = self.futures.pop(where).log
        log.go_offline(StorageFailure(f"the move of {where} was given up"))
        self._throw_away(log.directory, where, unique)

    def retire(self, where: TopicPartition, unique: UUID) -> str:
        """A log's future is complete: durably rename the log out of the way. What to remove in the end."""
        log = self.logs[where]
        target = f"{self.path}/{deleted_directory_name(where, unique)}"
        with self._final(f"move {where} out of {self.path}"):
            self._disk.rename(log.directory, target)
            self._disk.fsync_dir(self.path)
        del self.logs[where]
        log.is_replaced = True
        log.go_offline(StorageFailure(f"{where} moved to another directory"))
        return target

    def adopt_future(self, where: TopicPartition, high_watermark: int) -> Log:
        """The log that it was to replace is retired: a future becomes the log."""
        log, _unique = self.futures[where]
        with self._final(f"move {where} into {self.path}"):
            self._disk.rename(log.directory, self.directory_of(where))
            self._disk.fsync_dir(self.path)
        del self.futures[where]
        log.relocate(self.directory_of(where))
        self.logs[where] = log
        self.write_checkpoints({where: high_watermark})
        return log

    def discard_later(self, path: str) -> None:
        """Have it removed with the trash."""
        self._trash.append(path)

    def resume_future(self, where: TopicPartition, unique: UUID, config: LogConfig) -> Log:
        """A copy that an earlier process began: it goes on with what is good of it."""
        directory = self._future_directory(where, unique)
        topic_id = self.found_topic_id(where, unique)
        with self._final(f"open the future log of {where} in {self.path}"):
            log = self._open(where, config, topic_id=topic_id, is_clean=False, directory=directory)
        log.unsynced_paths.append(f"{directory}/{PARTITION_METADATA_FILE}")
        self.futures[where] = FutureLog(log, unique)
        return log

    def drop_found_future(self, where: TopicPartition, found: UUID, unique: UUID) -> None:
        """What an earlier process left of a copy is of no use."""
        self._throw_away(self._future_directory(where, found), where, unique)

    def found_topic_id(self, where: TopicPartition, unique: UUID) -> UUID:
        """Of which topic a copy is that an earlier process began."""
        return read_topic_id(self._disk, self._future_directory(where, unique))

    def _future_directory(self, where: TopicPartition, unique: UUID) -> str:
        return f"{self.path}/{future_directory_name(where, unique)}"

    @contextmanager
    def _final(self, what: str) -> Iterator[None]:
        """Around changes of names: the directory is offline when one fails."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            failure = StorageFailure(f"could not {what}: {error}")
            self.fail(failure)
            raise failure from error

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def record_bounds(self) -> None:
        """Record durably below which offsets the logs need no recovery, and where they start."""
        self._recovery_points.write({where: log.recovery_point for where, log in self.logs.items()})
        self._log_starts.write(
            {where: log.log_start_offset for where, log in self.logs.items() if log.log_start_offset > 0}
        )

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Record recovery points, log starts and high watermarks (row R22). Logs without one keep their last."""
        if self.failure is not None:
            return
        self.high_watermarks.update(high_watermarks)
        self.high_watermarks = {
            where: self.high_watermarks[where] for where in self.logs if where in self.high_watermarks
        }
        first_dirty = {where: log.first_dirty_offset for where, log in self.logs.items() if log.first_dirty_offset > 0}
        try:
            self.record_bounds()
            self._first_dirty.write(first_dirty)
            self._high_watermarks.write(self.high_watermarks)
        except OSError as error:
            self.fail(StorageFailure(f"could not write checkpoints in {self.path}: {error}"))

    def _forget_checkpoints(self, where: TopicPartition) -> None:
        self.high_watermarks.pop(where, None)
        stale = (self._recovery_points, self._log_starts, self._first_dirty, self._high_watermarks)
        if any(checkpoint.mentions(where) for checkpoint in stale):
            self.write_checkpoints({})

    # -- stopping ---------------------------------------------------------------------------------------------------

    def close(self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int) -> None:
        """An orderly stop. A directory that is, or now goes, offline is left to be recovered."""
        try:
            if self.failure is None:
                self._close_logs()
                self.write_checkpoints(high_watermarks)
            if self.failure is None:
                self._disk.write_atomic(
                    f"{self.path}/{CLEAN_SHUTDOWN_FILE}",
                    json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode(),
                )
        except (StorageFailure, OSError) as error:
            self.fail(error if isinstance(error, StorageFailure) else StorageFailure(str(error)))
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _close_logs(self) -> None:
        jobs = [(log, log.prepare_close()) for log in self._all_logs()]
        self._disk.run_all([job.run for _log, job in jobs])
        for log, job in jobs:
            log.complete_close(job)

    def abandon(self) -> None:
        """Stop as a crash would: nothing is written."""
        for log in self._all_logs():
            log.go_offline(StorageFailure(f"{self.path} was abandoned"))
        self._unlock()

    def _read_clean_shutdown(self) -> None:
        try:
            data = self._disk.read_bytes(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        except FileNotFoundError:
            return
        self.was_clean = True
        try:
            self.clean_shutdown_broker_epoch = int(json.loads(data)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            return  # an empty marker, as older Kafka writes it, is clean too

    def _forget_clean_shutdown(self) -> None:
        self._disk.unlink(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        self._disk.fsync_dir(self.path)


def remove_trash(disk: Disk, paths: Sequence[str]) -> None:
    """Remove what :meth:`LogDir.take_trash` gave; may run in a thread."""
    for path in paths:
        if disk.is_dir(path):
            disk.remove_tree(path)
        else:
            disk.unlink(path)
