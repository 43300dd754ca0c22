"""Creation of logs in a log directory: a partition's directory, the topic's id, the first segment.

These files may take milliseconds, and one request may create thousands of logs: a :class:`NewLog` makes them in a
thread. While a job of a former log of the same path runs in a thread, no log is created there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from minikafka.model import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.damage import write_refetch_mark
from minikafka.storage.disk import Disk
from minikafka.storage.errors import Corruption, PassingFailure, StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.meta import PARTITION_METADATA_FILE, write_topic_id
from minikafka.storage.segment_cache import SegmentCache

if TYPE_CHECKING:
    from minikafka.storage.log_dir import LogDir


class NewLog:
    """``run`` it in any thread; its directory then completes it."""

    def __init__(self, directory: LogDir, tp: TopicPartition, path: str, make: Callable[[], Log]) -> None:
        self.directory = directory
        self.tp = tp
        self.path = path
        self.log: Log | None = None
        self.error: OSError | None = None
        self._make = make

    def run(self) -> None:
        """Make the files. Never raises."""
        try:
            self.log = self._make()
        except OSError as error:
            self.error = error


class NewLogs:
    """See the module. ``under_way``: number of logs that :meth:`prepare` began and nobody completed yet."""

    def __init__(
        self,
        disk: Disk,
        directory: LogDir,
        cache: SegmentCache,
        prepare_forget: Callable[[TopicPartition], Callable[[], None]],
    ) -> None:
        """``prepare_forget(tp)``: a function for any thread by which the checkpoints forget a former log."""
        self.under_way = 0
        self._disk = disk
        self._directory = directory
        self._cache = cache
        self._prepare_forget = prepare_forget
        self._former: dict[str, Log] = {}  # logs that left, by path, whose jobs may still run in threads

    def prepare(self, tp: TopicPartition, topic_id: UUID, config: LogConfig) -> NewLog:
        """Begin a new log: ``run`` the job in any thread, then always call :meth:`complete` once."""
        job = self._prepare(tp, topic_id, config, self._directory.path_of(tp))
        self.under_way += 1
        return job

    def complete(self, job: NewLog) -> Log:
        """The new log; its first flush makes it durable, name included. StorageFailure when its creation failed."""
        logs = self._directory.logs
        assert job.tp not in logs
        self.under_way -= 1
        log = logs[job.tp] = self._complete(job)
        return log

    def make(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        path: str,
        damage: Corruption | None = None,
    ) -> Log:
        """A new, empty log in a directory of that name. ``damage``: it has to be fetched, and is marked from the start.

        StorageFailure or PassingFailure when its creation failed.
        """
        job = self._prepare(tp, topic_id, config, path, damage)
        job.run()
        return self._complete(job)

    def remake(self, tp: TopicPartition, unique: UUID) -> Log:
        """Create a log again that lost its files. It is damaged until it is fetched. StorageFailure if refused.

        PassingFailure: try again later. A start meanwhile finds the log damaged or missing.
        """
        logs = self._directory.logs
        lost = logs.pop(tp)
        assert lost.corruption is not None
        failure = StorageFailure(f"the files of {tp} are gone")
        lost.go_offline(failure)
        self.note_former(lost)
        try:
            self.check_unused(lost.directory)
            self._directory.throw_away(lost.directory, tp, unique, is_repeatable=True)
            log = self.make(tp, lost.topic_id, lost.config, lost.directory, lost.corruption)
        except (StorageFailure, PassingFailure):
            logs[tp] = lost
            raise
        lost.leave(failure)
        logs[tp] = log
        return log

    def check_unused(self, path: str) -> None:
        """PassingFailure while a job of a former log of this path runs in a thread: it would change another's files."""
        former = self._former.pop(path, None)
        if former is not None and former.writers:
            self._former[path] = former
            raise PassingFailure(f"a job of the former log in {path} is under way; try again")

    def note_former(self, log: Log) -> None:
        """The log left its path."""
        self._former = {path: former for path, former in self._former.items() if former.writers}
        if log.writers:
            self._former[log.directory] = log

    def _prepare(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        path: str,
        damage: Corruption | None = None,
    ) -> NewLog:
        if self._directory.failure is not None:
            raise self._directory.failure
        self.check_unused(path)
        forget = self._prepare_forget(tp)
        make = partial(self._make_files, forget, tp, topic_id, config, path, damage)
        return NewLog(self._directory, tp, path, make)

    def _make_files(
        self,
        forget: Callable[[], None],
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        path: str,
        damage: Corruption | None,
    ) -> Log:
        """In any thread: uses no state of the directory."""
        forget()
        self._disk.mkdir(path)
        if damage is not None:  # first: a log with a topic id and without a mark is whole
            write_refetch_mark(self._disk, path, damage)
        log = self._directory.open_log(tp, config, topic_id=topic_id, directory=path, cache=SegmentCache())
        write_topic_id(self._disk, path, topic_id)  # last: without a segment it lost its files
        log.corruption = damage
        return log

    def _complete(self, job: NewLog) -> Log:
        directory = self._directory
        if job.error is not None:
            raise directory.refused(f"create the log of {job.tp} in {directory.path}", job.error) from job.error
        if directory.failure is not None:
            raise directory.failure
        assert job.log is not None
        job.log.share(self._cache)
        job.log.flusher.take_along(f"{job.path}/{PARTITION_METADATA_FILE}")
        directory.ends.add(job.log)
        return job.log
