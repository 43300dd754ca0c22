"""The future logs of a log directory: copies of logs in another directory, which they will replace (row A5).

The directory of a copy is ``topic-partition.<32 hex digits>-future``. The move is decided when the old directory is
durably renamed to ``topic-partition.<the same digits>-delete``: a start that finds both completes the move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from minikafka.model import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.directory_names import future_directory_name
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.meta import PARTITION_METADATA_FILE, read_topic_id

if TYPE_CHECKING:
    from minikafka.storage.directory_checkpoints import DirectoryCheckpoints
    from minikafka.storage.log_dir import LogDir


class FutureLog(NamedTuple):
    """A copy under way, and the id in its directory's name."""

    log: Log
    unique: UUID


class FutureLogs(dict[TopicPartition, FutureLog]):
    """Copies under way. ``found``: those that a load found, for the store to decide about."""

    def __init__(self, disk: Disk, directory: LogDir) -> None:
        super().__init__()
        self.found: list[tuple[TopicPartition, UUID]] = []
        self._disk = disk
        self._directory = directory

    def create(self, tp: TopicPartition, topic_id: UUID, config: LogConfig, unique: UUID) -> Log:
        """Begin an empty copy of a log of another directory."""
        assert tp not in self._directory.logs
        assert tp not in self
        log = self._directory.new_logs.make(tp, topic_id, config, self._path(tp, unique))
        self[tp] = FutureLog(log, unique)
        return log

    def discard(self, tp: TopicPartition, unique: UUID) -> None:
        """Give a copy up. ``unique`` must be a new id: with the copy's own id the move would count as decided."""
        log = self.pop(tp).log
        log.leave(StorageFailure(f"the move of {tp} was given up"))
        self._directory.throw_away(log.directory, tp, unique)

    def resume(
        self, tp: TopicPartition, unique: UUID, config: LogConfig, *, former: DirectoryCheckpoints | None = None
    ) -> Log:
        """Resume a copy of an earlier process, from its undamaged part.

        ``former``: what is known of the log that gave its place up; the copy becomes the log, and anything bad in it is
        damage.
        """
        path, directory = self._path(tp, unique), self._directory
        topic_id = self.topic_id_of(tp, unique)
        with directory.final(f"open the future log of {tp} in {directory.path}", is_repeatable=True):
            if former is not None:
                log = directory.open_complete_copy(tp, topic_id, config, path, former)
            else:
                log = directory.open_log(tp, config, topic_id=topic_id, directory=path)
        log.flusher.take_along(f"{path}/{PARTITION_METADATA_FILE}")
        directory.ends.add(log)
        log.begin_following()
        self[tp] = FutureLog(log, unique)
        return log

    def drop(self, tp: TopicPartition, found: UUID, unique: UUID) -> None:
        """Drop a copy of an earlier process."""
        self._directory.throw_away(self._path(tp, found), tp, unique)

    def topic_id_of(self, tp: TopicPartition, unique: UUID) -> UUID:
        """Topic id of a copy of an earlier process."""
        return read_topic_id(self._disk, self._path(tp, unique))

    def _path(self, tp: TopicPartition, unique: UUID) -> str:
        return f"{self._directory.path}/{future_directory_name(tp, unique)}"
