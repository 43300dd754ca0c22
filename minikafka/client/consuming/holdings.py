"""The assigned partitions of a consumer: positions, buffered answers, and records under work by the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar
from uuid import UUID

from minikafka.client.consuming.buffer import FetchBuffer
from minikafka.client.consuming.handover import Handover, Offsets
from minikafka.client.consuming.positions import Position, PositionState
from minikafka.client.records import ConsumerRecord, FetchedBatches
from minikafka.errors import KafkaError
from minikafka.model import NO_OFFSET, TopicPartition

Taken = TypeVar("Taken")


class Holdings:
    """``on_room`` is called when more can be fetched.

    ``topic_id_of``: present topic id of a name, zero for no topic. Offsets of another topic id are not committed.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        on_room: Callable[[], None],
        topic_id_of: Callable[[str], UUID],
        *,
        reset_policy: int | None,
        max_poll_interval_ms: int,
        is_auto_commit: bool = True,
    ) -> None:
        self._is_auto_commit = is_auto_commit
        self._on_room = on_room
        self._topic_id_of = topic_id_of
        self._reset_policy = reset_policy
        self._handover = Handover(clock_ms, max_poll_interval_ms, self._give_up)
        self._may_have_error = False
        self.is_uncommitted = False
        """Records were handed out since the user last committed."""
        self.is_known = True
        """False after the group took partitions of which something was uncommitted, until the user asks for records."""
        self.positions: dict[TopicPartition, Position] = {}
        self.buffer = FetchBuffer()

    # -- which partitions -------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these from now on; those read before keep their positions."""
        wanted = dict.fromkeys(partitions)
        for tp in [tp for tp in self.positions if tp not in wanted]:
            self.positions.pop(tp).drop()
        self.add(wanted)
        self.moved()

    def add(self, partitions: Iterable[TopicPartition], *, reset_to: int | None = None) -> None:
        """Read these, too; ``reset_to`` (EARLIEST or LATEST) replaces the committed offset and the reset policy."""
        for tp in partitions:
            if tp not in self.positions:
                position = self.positions[tp] = Position(tp, self._reset_policy)
                if reset_to is not None:
                    position.reset(reset_to)
        self._on_room()

    def position(self, tp: TopicPartition) -> Position:
        """The partition's position. Raises ValueError when it is not assigned."""
        try:
            return self.positions[tp]
        except KeyError:
            raise ValueError(f"{tp} is not assigned to this consumer") from None

    def moved(self) -> None:
        """Positions were moved or paused by hand."""
        self.buffer.drop_stale()
        self._on_room()

    # -- reading ----------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The user calls again: all returned records are processed."""
        self._handover.enter()

    def leave(self) -> None:
        """The user's call returns."""
        self._handover.leave()
        self.is_known = True

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to ``limit`` buffered records. Raises the KafkaError of a position."""
        records: list[ConsumerRecord] = []

        def take_some() -> list[ConsumerRecord]:
            room = limit - len(records)
            return self.buffer.take(room) if room > 0 else []

        for taken in self._while_any(take_some):
            self._hold(TopicPartition(taken[0].topic, taken[0].partition))
            records.extend(taken)
        return records

    def take_batches(self) -> list[FetchedBatches]:
        """All buffered answers, one item each. Raises the KafkaError of a position."""
        batches = list(self._while_any(self.buffer.take_batches))
        for taken in batches:
            self._hold(taken.tp)
        return batches

    def _hold(self, tp: TopicPartition) -> None:
        self.is_uncommitted = True
        self._handover.hold(self.positions[tp])

    def look_for_errors(self) -> None:
        """Answers came that may have put errors into positions."""
        self._may_have_error = True

    def _while_any(self, take: Callable[[], Taken | None]) -> Iterator[Taken]:
        """What ``take`` takes out of the buffer, until it takes nothing; an error behind something waits for later."""
        self._raise_error()
        waiting = len(self.buffer)
        is_first = True
        try:
            while taken := take():
                yield taken
                is_first = False
        except KafkaError:
            if is_first:
                raise
        finally:
            if len(self.buffer) < waiting:
                self._on_room()

    def _raise_error(self) -> None:
        if not self._may_have_error:
            return
        for position in self.positions.values():
            error = position.error
            if error is not None:
                if position.state is not PositionState.FAILED:
                    position.error = None  # it is tried again; a failed one is raised until the user moves it
                raise error
        self._may_have_error = False

    # -- offsets ----------------------------------------------------------------------------------------------------

    def processed(self) -> Offsets:
        """Offset after the processed records, per partition, without deleted topics.

        (A new topic of the same name would be read from that offset.)
        """
        return {
            tp: position.processed
            for tp, position in self.positions.items()
            if position.processed.offset != NO_OFFSET and position.topic_id == self._topic_id_of(tp.topic)
        }

    def consumed(self) -> Offsets:
        """Offset after the returned records, per partition."""
        return {tp: p.consumed for tp, p in self.positions.items() if p.consumed.offset != NO_OFFSET}

    def settle(self) -> None:
        """All returned records are processed."""
        self._handover.settle()

    # -- as the owner of a group's partitions -----------------------------------------------------------------------

    def hand_back(self) -> asyncio.Future[Offsets]:
        """Stop reading once all returned records are processed; the result are the offsets to commit."""
        return self._handover.hand_back()

    def lost(self) -> None:
        """Stop reading at once: the partitions may belong to another member."""
        self._handover.cancel()
        self._drop_all()

    def is_overdue(self) -> bool:
        """True when the user was away for longer than ``max_poll_interval_ms``."""
        return self._handover.is_overdue()

    async def wait_for_user(self) -> None:
        """Wait for the user's next call."""
        await self._handover.wait_for_user()

    def _give_up(self) -> Offsets:
        offsets: Offsets = {}
        if self._is_auto_commit:
            offsets, self.is_uncommitted = self.processed(), False
        self._drop_all()
        return offsets

    def _drop_all(self) -> None:
        if self.is_uncommitted:
            self.is_uncommitted, self.is_known = False, False
        for position in self.positions.values():
            position.drop()
        self.positions.clear()
        self.buffer.drop_stale()
