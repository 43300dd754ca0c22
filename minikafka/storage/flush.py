"""The part of a flush that may run in a thread, away from the event loop.

``Log.prepare_flush`` decides on the loop what to sync, :meth:`FlushJob.run` syncs it anywhere, and
``Log.complete_flush`` moves the recovery point on the loop, or takes the log offline: a failed fsync is never tried
again, for the kernel may have dropped the pages and would say "ok" the next time.
"""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.storage.disk import Disk, File


class FlushJob:
    """Files to sync so that everything below ``up_to_offset`` is durable. Jobs of one log may overlap."""

    __slots__ = ("_directory", "_disk", "_files", "_paths", "error", "generation", "is_done", "up_to_offset")

    def __init__(
        self,
        disk: Disk,
        *,
        up_to_offset: int,
        generation: int,
        files: Sequence[File],
        paths: Sequence[str],
        directory: str | None,
    ) -> None:
        self.up_to_offset = up_to_offset
        self.generation = generation
        self.is_done = False
        self.error: OSError | None = None
        self._disk = disk
        self._files = files
        self._paths = paths
        self._directory = directory

    def run(self) -> None:
        """Sync. Errors are kept for ``complete_flush``; nothing is raised."""
        try:
            for file in self._files:
                file.fsync()
            for path in self._paths:
                self._disk.fsync_path(path)
            if self._directory is not None:
                self._disk.fsync_dir(self._directory)
        except OSError as error:
            self.error = error
        self.is_done = True
