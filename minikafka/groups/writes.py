"""What a shard has written to the log and is not committed yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from minikafka.errors import ErrorCode
from minikafka.groups.group import Group
from minikafka.groups.records import GroupRecord, OffsetCommitRecord
from minikafka.model import NO_PRODUCER_ID, TopicPartition

RECORD_BYTES: Final = 600
"""What a record of a write takes beside its key and value."""

Done = Callable[[ErrorCode], None]
"""Called once per write: with NONE after its records were replayed, else with what went wrong."""


@dataclass(slots=True)
class PendingWrite:
    """Records on their way to the log. `done` is None once it has run because the write took too long."""

    group: Group
    records: tuple[GroupRecord, ...]
    done: Done | None
    producer_id: int = NO_PRODUCER_ID
    undo: Callable[[], None] | None = None
    """Called before ``done`` when the records are not in the log and never will be."""
    followers: list[Done] = field(default_factory=list)
    """Of those who wrote nothing, and wait for this."""
    size: int = 0
    """What it takes, in bytes."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those whose offset it changes."""
        return [record.partition for record in self.records if isinstance(record, OffsetCommitRecord)]

    def finish(self, error: ErrorCode) -> None:
        """Tell all who wait; nobody does any more then."""
        waiting, self.done, self.followers = [self.done, *self.followers], None, []
        for done in waiting:
            if done is not None:
                done(error)


@dataclass(slots=True)
class OpenTransaction:
    """Of a producer, in this shard."""

    groups: dict[str, None] = field(default_factory=dict)  # that have pending offsets in it
    records: int = 0  # on their way to the log, or there, also of groups that were deleted since
