"""Partitions change hands between two calls of the user, and what is committed is what the user is done with."""

from __future__ import annotations

import asyncio

from minikafka.client.consuming.handover import Handover, Offsets
from minikafka.client.consuming.positions import Position
from minikafka.model import OffsetAndEpoch, TopicPartition

WHERE = TopicPartition("t", 0)


class User:
    """Somebody who reads one partition."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.position = Position(WHERE)
        self.position.seek(0)
        self.position.on_fetched(OffsetAndEpoch(100, 0))
        self.given_up = 0
        self.handover = Handover(lambda: self.now_ms, 1000, self._give_up)

    def _give_up(self) -> Offsets:
        self.given_up += 1
        return {WHERE: self.position.processed}

    def read(self, count: int) -> None:
        self.handover.enter()
        self.position.advance(OffsetAndEpoch(self.position.consumed.offset + count, 0))
        self.handover.hold(self.position)
        self.handover.leave()


async def test_records_are_processed_when_the_user_comes_back() -> None:
    user = User()
    user.read(5)
    assert user.position.processed.offset == 0
    user.read(2)
    assert user.position.processed.offset == 5
    user.handover.settle()
    assert user.position.processed.offset == 7


async def test_nothing_held_is_handed_back_at_once() -> None:
    user = User()
    assert user.handover.hand_back().result() == {WHERE: (0, -1)}


async def test_what_is_held_is_waited_for() -> None:
    user = User()
    user.read(5)
    wanted = user.handover.hand_back()
    assert user.handover.hand_back() is wanted
    assert not wanted.done()
    user.handover.enter()
    assert wanted.result() == {WHERE: (5, 0)}
    assert user.given_up == 1
    user.handover.leave()


async def test_a_user_who_waits_for_records_holds_nothing() -> None:
    user = User()
    user.read(5)
    user.handover.enter()
    assert user.handover.hand_back().result() == {WHERE: (5, 0)}


async def test_lost_partitions_are_not_handed_back() -> None:
    user = User()
    user.read(5)
    wanted = user.handover.hand_back()
    user.handover.cancel()
    assert wanted.cancelled()
    user.handover.enter()
    assert user.given_up == 0
    assert user.position.processed.offset == 0


async def test_a_user_who_stays_away_is_overdue() -> None:
    user = User()
    assert not user.handover.is_overdue(), "the time begins with the first question"
    user.now_ms = 1001
    assert user.handover.is_overdue()
    user.handover.enter()
    user.now_ms = 5000
    assert not user.handover.is_overdue(), "it waits for records"
    user.handover.leave()
    user.now_ms = 6000
    assert not user.handover.is_overdue()
    user.now_ms = 6001
    assert user.handover.is_overdue()


async def test_waiting_for_the_user() -> None:
    user = User()
    waiting = asyncio.ensure_future(user.handover.wait_for_user())
    await asyncio.sleep(0)
    assert not waiting.done()
    user.handover.enter()
    await waiting
    await user.handover.wait_for_user()
