"""Stores a consumer's offsets with its group: on request, every few seconds, and at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.client.backoff import retrying
from minikafka.client.consuming.coordinator import Coordinator
from minikafka.client.consuming.handover import Offsets
from minikafka.client.consuming.holdings import Holdings
from minikafka.client.consuming.membership import Generation, Membership
from minikafka.client.errors import CommitFailedError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition

LAST_COMMIT_TIMEOUT_S: Final = 2.0
REPEAT_INTERVAL_S: Final = 30.0
"""After so long, and at the end, unchanged offsets are committed, too: the offsets of a group without members expire
some time after their commit, and another member may have stored others in between."""


class Commits:
    """Commits of one consumer; ``holdings`` has the processed positions for automatic commits.

    A commit belongs to the group generation of the call, which must be that of the returned records: in a later
    generation other members may have read those records. Partitions assigned by hand are committed without a
    generation, which a group without members allows.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        membership: Membership,
        rng: random.Random,
        holdings: Holdings,
        *,
        timeout_s: float,
    ) -> None:
        self._coordinator = coordinator
        self._membership = membership
        self._rng = rng
        self._holdings = holdings
        self._timeout_s = timeout_s
        self._stored: dict[TopicPartition, OffsetAndEpoch] = {}
        self.is_subscribed = False

    async def commit(self, given: Offsets | None) -> None:
        """Store these offsets, or the position after all returned records. Raises KafkaError.

        CommitFailedError: the assignment of this consumer has changed since the last returned records. Not raised if no
        record was returned since the last commit.
        """
        is_outside = self.is_subscribed and self._membership.generation is None
        if is_outside and given is None and self._holdings.is_known and not self._holdings.is_uncommitted:
            return
        generation = self._generation()
        offsets = self._holdings.consumed() if given is None else given
        if offsets:
            await self._retrying(lambda: self._store(offsets, generation))
        if generation == self._membership.generation:
            self._holdings.is_uncommitted = False

    def progress(self) -> tuple[Offsets, Generation | None]:
        """The position after all returned records, and the generation in which they were. Raises CommitFailedError."""
        generation = self._generation()
        return self._holdings.consumed(), generation

    def _generation(self) -> Generation | None:
        """In which the returned records were, as far as this consumer knows; None without a subscription."""
        generation = self._membership.generation if self.is_subscribed else None
        if self.is_subscribed and generation is None:
            why = "this consumer has no assignment in its group now"
            raise CommitFailedError(ErrorCode.REBALANCE_IN_PROGRESS, self._coordinator.group_id, why)
        if not self._holdings.is_known:
            why = "the group rebalanced since the last poll of this consumer"
            raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, self._coordinator.group_id, why)
        return generation

    async def commit_for_ever(self, interval_s: float) -> None:
        """Store processed positions every ``interval_s``."""
        now_s = asyncio.get_running_loop().time
        repeat_s = now_s() + REPEAT_INTERVAL_S
        while True:
            await asyncio.sleep(interval_s)
            if now_s() >= repeat_s:
                self._stored.clear()
                repeat_s = now_s() + REPEAT_INTERVAL_S
            await self._commit_processed()

    async def commit_last(self) -> None:
        """Store processed positions, if that is possible quickly."""
        self._stored.clear()
        try:
            async with asyncio.timeout(LAST_COMMIT_TIMEOUT_S):
                await self._commit_processed()
        except TimeoutError:
            return

    async def _commit_processed(self) -> None:
        """Failures are ignored: the next commit covers them, and after a rebalance others read from the last one."""
        generation = self._membership.generation
        if self.is_subscribed and generation is None:
            return
        try:
            await self._retrying(lambda: self._store(self._changed(), generation))
        except KafkaError:
            return

    def _changed(self) -> Offsets:
        """Offsets to store. Computed for each attempt: a topic may have been created again meanwhile."""
        return {tp: offset for tp, offset in self._holdings.processed().items() if self._stored.get(tp) != offset}

    async def _store(self, offsets: Offsets, generation: Generation | None) -> None:
        if not offsets:
            return
        if generation is None:
            await self._coordinator.commit(offsets)
        else:
            await self._membership.commit(offsets, generation)
        self._stored.update(offsets)

    async def _retrying(self, attempt: Callable[[], Awaitable[None]]) -> None:
        await retrying(attempt, timeout_s=self._timeout_s, rng=self._rng, doing="committing offsets")


def with_epoch(offset: OffsetAndEpoch | int, doing: str) -> OffsetAndEpoch:
    """The argument as an OffsetAndEpoch. Raises TypeError, and ValueError for a negative offset."""
    if not isinstance(offset, int | OffsetAndEpoch):
        raise TypeError(f"cannot {doing} {offset!r}: an offset must be a whole number or an OffsetAndEpoch")
    found = OffsetAndEpoch(offset, NO_EPOCH) if isinstance(offset, int) else offset
    if found.offset < 0:
        raise ValueError(f"cannot {doing} {found.offset}: offsets begin at 0")
    return found
