"""One log directory: its lock, its identity, its checkpoints and the logs in it.

``.lock`` keeps a second process out. ``.kafka_cleanshutdown`` is written last in an orderly stop and removed after the
next load: while it is absent, a start recovers. Checkpoints are rewritten as a whole; a partition that was deleted and
made again never inherits offsets from a file written before.

When any write under the directory fails, the directory is offline: every log in it refuses from then on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os.path import dirname
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
from minikafka.storage.disk import Disk
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

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
MAX_NAME_LENGTH = 255

_PARTITION_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_DELETED_DIRECTORY = re.compile(r".*\.[0-9a-f]{32}-delete")

ConfigFor = Callable[[TopicPartition], LogConfig]


class LogDir:
    """See the module. ``logs`` are the partitions in it; ``failure`` is set once it is offline."""

    def __init__(self, disk: Disk, path: str, on_failure: Callable[[LogDir, StorageFailure], None]) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
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
        disk.mkdir(path)
        try:
            self._lock = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise MetaError(
                f"another process uses the log directory {path}; stop it or give this node its own log.dirs"
            ) from error

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
            with suppress(PermissionError):  # what this process may not even list, it did not make
                self._disk.fsync_dir(above)
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
            elif _DELETED_DIRECTORY.fullmatch(name):
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
    ) -> Log:
        return Log.open(
            self._disk,
            self.directory_of(where),
            where,
            config,
            topic_id=topic_id,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            is_clean=is_clean,
            cache=self._cache,
            hooks=LogHooks(self.fail, self.record_bounds, self._trash.extend),
        )

    # -- logs -------------------------------------------------------------------------------------------------------

    def directory_of(self, where: TopicPartition) -> str:
        """Path of a partition's directory."""
        return f"{self.path}/{where}"

    def create(self, where: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """A new, empty log. Durable, its name included, with its first flush."""
        assert where not in self.logs
        self._forget_checkpoints(where)
        directory = self.directory_of(where)
        try:
            self._disk.mkdir(directory)
            write_topic_id(self._disk, directory, topic_id)
            log = self._open(where, config, topic_id=topic_id, is_clean=True)
        except OSError as error:
            failure = StorageFailure(f"could not create the log of {where} in {self.path}: {error}")
            self.fail(failure)
            raise failure from error
        log.unsynced_paths.append(f"{directory}/{PARTITION_METADATA_FILE}")
        self.logs[where] = log
        return log

    def delete(self, where: TopicPartition, unique: UUID) -> None:
        """Take a log away: renamed now, its files removed with the trash."""
        log = self.logs.pop(where)
        log.go_offline(StorageFailure(f"{where} was deleted"))
        target = f"{self.path}/{deleted_directory_name(where, unique)}"
        try:
            self._disk.rename(log.directory, target)
        except OSError as error:
            self.fail(StorageFailure(f"could not delete the log of {where} in {self.path}: {error}"))
            return
        self._trash.append(target)

    def fail(self, failure: StorageFailure) -> None:
        """Something under the directory could not be written: all of it goes offline."""
        if self.failure is not None:
            return
        self.failure = failure
        for log in self.logs.values():
            log.go_offline(failure)
        self._on_failure(self, failure)

    def take_trash(self) -> list[str]:
        """Paths of files and directories to remove, each handed out once."""
        trash = self._trash.copy()
        self._trash.clear()
        return trash

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
            self._lock.release()

    def _close_logs(self) -> None:
        jobs = [(log, log.prepare_close()) for log in self.logs.values()]
        self._disk.run_all([job.run for _log, job in jobs])
        for log, job in jobs:
            log.complete_close(job)

    def abandon(self) -> None:
        """Stop as a crash would: nothing is written."""
        for log in self.logs.values():
            log.go_offline(StorageFailure(f"{self.path} was abandoned"))
        self._lock.release()

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


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose log a directory of that name holds; None when it is not one."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def deleted_directory_name(where: TopicPartition, unique: UUID) -> str:
    """What a partition's directory is renamed to before it is removed; the topic is cut to fit a file name."""
    suffix = f"-{where.partition}.{unique.hex}{DELETE_SUFFIX}"
    return where.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def remove_trash(disk: Disk, paths: Sequence[str]) -> None:
    """Remove what :meth:`LogDir.take_trash` gave; may run in a thread."""
    for path in paths:
        if disk.is_dir(path):
            disk.remove_tree(path)
        else:
            disk.unlink(path)
