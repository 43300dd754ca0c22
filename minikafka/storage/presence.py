"""Are the files of the logs still there? A process that has them open does not notice when somebody takes them away."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.storage.disk import Disk
from minikafka.storage.log import Log
from minikafka.storage.segment import LOG_SUFFIX, Segment, file_name


class PresenceLook:
    """``run`` it in any thread, then :meth:`complete` it on the loop. It costs a listing of each directory."""

    def __init__(self, disk: Disk, logs: Iterable[Log]) -> None:
        self._disk = disk
        self._logs = [(log, log.directory, list(log.segments)) for log in logs if _is_at_rest(log)]
        self._suspects: list[tuple[Log, Segment]] = []

    def run(self) -> None:
        """Nothing is raised: a directory that cannot be listed is somebody else's find."""
        for log, directory, segments in self._logs:
            try:
                names = set(self._disk.listdir(directory))
            except FileNotFoundError:
                names = set()
            except OSError:
                continue
            gone = (segment for segment in segments if file_name(segment.base_offset) + LOG_SUFFIX not in names)
            if (segment := next(gone, None)) is not None:
                self._suspects.append((log, segment))

    def complete(self) -> None:
        """Logs that still have the segment, and still not its file, have lost it."""
        for log, segment in self._suspects:
            path = segment.path(LOG_SUFFIX)
            if _is_at_rest(log) and segment in log.segments and not self._disk.exists(path):
                log.lose_files(f"{path} is missing")


def _is_at_rest(log: Log) -> bool:
    return log.can_be_remade and not (log.is_offline or log.is_cutting or log.is_cleaning or log.has_lost_files)
