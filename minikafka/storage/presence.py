"""Checks that the files of the logs are still there, in full length: open files do not show a removal."""

from __future__ import annotations

from minikafka.storage.disk import Disk
from minikafka.storage.errors import is_missing
from minikafka.storage.log import Log
from minikafka.storage.segment import Segment
from minikafka.storage.segment_names import LOG_SUFFIX


class PresenceLook:
    """``run`` it in any thread, then :meth:`complete` it on the loop. It compares the size of each ``.log`` file."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._logs: list[tuple[Log, list[tuple[Segment, int]]]] = []
        self._suspects: list[tuple[Log, Segment]] = []

    def add(self, log: Log) -> None:
        """Look at this one, too, unless its files change now or its directory is offline."""
        if _is_at_rest(log):
            self._logs.append((log, [(segment, segment.size) for segment in log.segments]))

    def run(self) -> None:
        """Never raises: another operation will report a failing disk."""
        for log, segments in self._logs:
            missing = (segment for segment, size in segments if self._lacks(segment, size))
            if (segment := next(missing, None)) is not None:
                self._suspects.append((log, segment))

    def complete(self) -> None:
        """Report logs that still have the segment, but not its whole file."""
        for log, segment in self._suspects:
            if _is_at_rest(log) and segment in log.segments and self._lacks(segment, segment.size):
                log.lose_files(f"{segment.path(LOG_SUFFIX)} is missing, or shorter than {segment.size} bytes")

    def _lacks(self, segment: Segment, size: int) -> bool:
        try:
            return self._disk.size(segment.path(LOG_SUFFIX)) < size
        except OSError as error:
            return is_missing(error)


def _is_at_rest(log: Log) -> bool:
    return log.can_be_remade and not (log.is_offline or log.is_cutting or log.is_cleaning or log.has_lost_files)
