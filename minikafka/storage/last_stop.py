"""End of the last process with a log directory and with each log, and its records elsewhere: evidence for a start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from minikafka.model import TopicPartition
from minikafka.storage.log_ends import LogKey, Noted


class LastProcess(NamedTuple):
    """The end of the last process with a log directory. By default nothing is known of it."""

    marked_epoch: int | None = None
    """Broker epoch in the mark of a clean stop; None without the mark."""
    was_killed: bool = False
    """See :class:`LastStop`."""
    noted: Mapping[LogKey, Noted] | None = None
    """End and start of each log when it ended; None when unknown."""

    @property
    def was_clean(self) -> bool:
        """It stopped cleanly."""
        return self.marked_epoch is not None

    def noted_of(self, tp: TopicPartition, topic_id: UUID) -> Noted | None:
        """End and start of one log; None when unknown."""
        return None if self.noted is None else self.noted.get(LogKey(topic_id, tp.partition))


class LastStop(NamedTuple):
    """The end of the last process, and the log's checkpoints. Impossible offsets are harmless."""

    log_start_offset: int | None = 0
    """None when it was recorded but is unreadable: deleted records may come back."""
    recovery_point: int = 0
    high_watermark: int = 0
    noted: Noted | None = None
    """End and start of the log when the last process ended; None when unknown."""
    is_clean: bool = False
    """It stopped cleanly: no need to verify."""
    was_killed: bool = False
    """It was killed, and the machine has run on since. Neither of the two: the machine may have lost power."""

    @property
    def noted_end(self) -> int | None:
        """The noted end of the log, see :mod:`.log_ends`."""
        return None if self.noted is None else self.noted.end_offset

    @property
    def keeps_writes(self) -> bool:
        """All writes are present, unless they were damaged."""
        return self.is_clean or self.was_killed
