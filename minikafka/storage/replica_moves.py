"""Moves of logs between the directories of a node: their begin and end, and their state after a start (row A5).

A partition with a future log is being moved. That is the only state: a start finds the moves of a former process on the
disk. The copying is :mod:`~minikafka.storage.moving`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from minikafka.model import TopicPartition
from minikafka.storage.arriving import Arrival
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import ConfigFor, LogDir
from minikafka.storage.moving import ReplicaMove

if TYPE_CHECKING:
    from minikafka.storage.log_store import LogStore


class ReplicaMoves:
    """See the module."""

    def __init__(self, store: LogStore, new_uuid: Callable[[], UUID]) -> None:
        self._store = store
        self._new_uuid = new_uuid

    def under_way(self) -> list[ReplicaMove]:
        """Per directory in the order of their start."""
        store = self._store
        return [
            ReplicaMove(current, future.log)
            for directory in store.online
            for tp, future in directory.futures.items()
            if (current := store.get(tp)) is not None
        ]

    def target_of(self, tp: TopicPartition) -> LogDir | None:
        """The directory that the partition's log is being moved to."""
        for directory in self._store.directories:
            if tp in directory.futures:
                return directory
        return None

    def begin(self, tp: TopicPartition, target: LogDir) -> ReplicaMove:
        """Begin a future log in ``target``, another directory. StorageFailure when one of the two is offline."""
        current = self._store.get(tp)
        assert current is not None, tp
        assert self._store.log_dir_of(tp) is not target
        if current.failure is not None:
            raise current.failure
        self.end(tp)
        future = target.futures.create(tp, current.topic_id, current.config, self._new_uuid())
        return ReplicaMove(current, future)

    def end(self, tp: TopicPartition) -> None:
        """Cancel a move, if there is one: the future log is removed, the log stays."""
        target = self.target_of(tp)
        if target is not None:
            target.futures.discard(tp, self._new_uuid())

    def arrive(self, move: ReplicaMove, high_watermark: int) -> Arrival:
        """The future log, sealed and caught up, takes the log's place: see :mod:`.arriving` for what follows."""
        tp = move.current.topic_partition
        source, target = self._store.log_dir_of(tp), self.target_of(tp)
        assert source is not None
        assert target is not None
        return Arrival(move, source, target, target.futures[tp].unique, high_watermark)

    def settle(self, config_for: ConfigFor) -> None:
        """Moves of a former process: complete decided ones, resume others if possible, otherwise drop them."""
        store = self._store
        deleted = {unique: directory for directory in store.online for unique in directory.deleted_ids}
        for directory in store.online:
            for tp, unique in directory.futures.found:
                try:
                    self._settle(directory, tp, unique, config_for, deleted.get(unique))
                except StorageFailure:
                    break  # the directory is offline, and says why
            directory.futures.found = []
        if not self._is_any_offline:  # else copies may be there whose logs these were
            for directory in store.online:
                directory.discard_found()

    def _settle(
        self, directory: LogDir, tp: TopicPartition, unique: UUID, config_for: ConfigFor, source: LogDir | None
    ) -> None:
        """``source`` has given the log up: the copy was complete."""
        current = self._store.get(tp)
        if current is None and source is not None:
            log = directory.futures.resume(tp, unique, config_for(tp), former=source.checkpoints)
            high_watermark = min(source.checkpoints.high_watermarks.get(tp, 0), log.log_end_offset)
            directory.adopt(tp, high_watermark)
        elif current is None and self._is_any_offline:
            return  # what it is a copy of may be in a directory that is offline
        elif current is None or not self._is_copy(directory, tp, unique, current):
            directory.futures.drop(tp, unique, self._new_uuid())
        elif directory.futures.resume(tp, unique, config_for(tp)).corruption is not None:
            self.begin(tp, directory)  # from the beginning

    @property
    def _is_any_offline(self) -> bool:
        return len(self._store.online) < len(self._store.directories)

    def _is_copy(self, directory: LogDir, tp: TopicPartition, unique: UUID, current: Log) -> bool:
        is_first = self.target_of(tp) is None and self._store.log_dir_of(tp) is not directory
        return is_first and directory.futures.topic_id_of(tp, unique) == current.topic_id
