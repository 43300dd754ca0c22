"""The end of a move (row A5): the copy takes the log's place in one moment in memory, and in steps on the disks.

1. *Here*: the old directory is renamed as deleted, and the copy is the log. It is appended to and read from now on.
2. In a thread: that name is made durable, which decides the move; then the checkpoints of the new directory.
3. *On the loop*: the copy's directory is renamed as the log's.
4. In a thread: that name is made durable. Then the old files go.

Until then the log is *arriving*: the caller neither syncs nor cuts it, and nobody deletes its segments or cleans it.

A start after a kill finds the old name and completes the move, with what the checkpoints of the former directory tell.
After a power cut before the end of step 2 it may find the old log, which has all that was ever durable: nothing was
synced since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from minikafka.storage.errors import StorageFailure
from minikafka.storage.moving import ReplicaMove

if TYPE_CHECKING:
    from minikafka.storage.disk import NamesFile
    from minikafka.storage.log_dir import LogDir


class Arrival:
    """One. ``log`` is the log from now on."""

    def __init__(self, move: ReplicaMove, source: LogDir, target: LogDir, unique: UUID, high_watermark: int) -> None:
        """Step 1. ``unique``: the id in the name of the copy.

        StorageFailure: a directory failed. PassingFailure: nothing is decided yet; try again.
        """
        assert move.is_sealed, "the copy is not whole"
        self.log = move.future
        self._source = source
        self._target = target
        self._tp = move.current.topic_partition
        self._error: OSError | None = None
        target.new_logs.check_unused(target.path_of(self._tp))
        self._left, self._entered = source.open_names(), target.open_names()  # no later step may fail for lack of one
        self._trash = source.retire(self._tp, unique)
        move.take_over()
        target.take_in(self._tp)
        target.checkpoints.note(self._tp, self.log, high_watermark)
        self._checkpoints = target.prepare_checkpoints()

    def make_departure_durable(self) -> None:
        """Step 2, in any thread. Nothing is raised."""
        self._sync(self._left)
        if self._error is None and self._checkpoints is not None:
            self._checkpoints.run()

    def enter(self) -> bool:
        """Step 3. False: the log was deleted, or its directory failed meanwhile, and there is nothing more to do.

        StorageFailure: the directory that it left failed, and the log is offline: which of the two a start finds is
        not known.
        """
        source, target, log = self._source, self._target, self.log
        try:
            self._check(source, f"move {self._tp} out of {source.path}")
        except StorageFailure as failure:
            log.go_offline(failure)
            raise
        if self._checkpoints is not None:
            target.complete_checkpoints(self._checkpoints)
        source.checkpoints.leave(self._tp)
        try:
            if log.is_offline:
                return False
            target.put_in_place(log)
        finally:
            if log.is_offline and target.failure is None:  # else the old name still tells a start of the move
                source.discard_later(self._trash)
        return True

    def make_entry_durable(self) -> None:
        """Step 4, in any thread. Nothing is raised."""
        self._sync(self._entered)

    def complete(self) -> None:
        """The log has arrived. StorageFailure: its directory failed."""
        target, log = self._target, self.log
        self._check(target, f"move {self._tp} into {target.path}")
        log.is_arriving = False
        self._source.discard_later(self._trash, log.config.file_delete_delay_ms)

    def _sync(self, names: NamesFile) -> None:
        try:
            names.fsync()
        except OSError as error:
            self._error = error

    def _check(self, directory: LogDir, what: str) -> None:
        """The directory fails if its sync has."""
        if self._error is not None:
            with directory.final(what):
                raise self._error
