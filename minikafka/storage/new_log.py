"""Creation of an empty log, for a thread: a directory, the topic's id, the first segment.

These files may take milliseconds, and one request may create thousands of logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minikafka.model import TopicPartition
from minikafka.storage.log import Log

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
