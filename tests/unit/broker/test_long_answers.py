"""Answers of many portions: one at a time, and short ones before them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast, get_type_hints

import pytest

from minikafka.broker.context import RequestContext
from minikafka.broker.dispatch import handler_module
from minikafka.broker.long_answers import ROWS_AT_ONCE, LongAnswers
from minikafka.net.turns import Turns
from minikafka.wire.api import ApiKey


class Line:
    """A connection, of which only the turns are needed."""

    def __init__(self) -> None:
        self.turns = Turns(asyncio.get_running_loop())

    async def wait_for_turn(self) -> None:
        await self.turns.wait()


class Asked:
    """The context of a request."""

    def __init__(self, line: Line) -> None:
        self.connection = line


async def answer(answers: LongAnswers, asked: Asked, portions: int, at: list[str], name: str) -> None:
    async with answers.prepare(cast(RequestContext, asked)) as prepared:
        for _ in range(portions):
            at.append(name)
            await prepared.add(ROWS_AT_ONCE)
        at.append(f"send {name}")


async def test_one_long_answer_at_a_time() -> None:
    """Fifty at once took 9 s of the loop, and more memory than the node may have."""
    answers, line, at = LongAnswers(), Line(), list[str]()
    await asyncio.gather(*(answer(answers, Asked(line), 3, at, name) for name in "abc"))
    for name in "abc":
        at.remove(name)  # the first portion waits for no other answer
    assert at == [*"aa", "send a", *"bb", "send b", *"cc", "send c"]


async def test_a_short_answer_waits_for_nobody() -> None:
    answers, line, at = LongAnswers(), Line(), list[str]()
    long = asyncio.create_task(answer(answers, Asked(line), 1000, at, "long"))
    await asyncio.sleep(0)
    await asyncio.wait_for(answer(answers, Asked(line), 0, at, "short"), 1)
    async with answers.prepare(cast(RequestContext, Asked(line))) as prepared:
        await prepared.add(ROWS_AT_ONCE - 1)
        assert not long.done()
    long.cancel()


async def test_the_first_portions_of_a_turn_are_a_portion_together() -> None:
    """Of 200 pipelined questions about 990 offsets a turn prepared 128 answers, and took a quarter of a second."""
    answers, line, turn = LongAnswers(), Line(), 0
    rows: Counter[int] = Counter()

    async def ask() -> None:
        async with answers.prepare(cast(RequestContext, Asked(line))) as prepared:
            rows[turn] += ROWS_AT_ONCE - 1
            await prepared.add(ROWS_AT_ONCE - 1)

    asking = [asyncio.create_task(ask()) for _ in range(50)]
    while not all(task.done() for task in asking):
        turn += 1
        await asyncio.sleep(0)
    assert rows.total() == 50 * (ROWS_AT_ONCE - 1)
    assert max(rows.values()) <= 2 * ROWS_AT_ONCE


async def test_an_answer_that_is_cancelled_gives_its_place_up() -> None:
    answers, line, at = LongAnswers(), Line(), list[str]()
    first, second = (asyncio.create_task(answer(answers, Asked(line), 9, at, name)) for name in "ab")
    for _ in range(6):
        await asyncio.sleep(0)
    assert 1 < at.count("a") < 9
    first.cancel()
    await second
    assert at[-1] == "send b"


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.LIST_GROUPS,
    ],
)
def test_the_answers_that_have_no_bound(key: ApiKey) -> None:
    """A hundred ListGroups of 20,000 groups took 1 s of one turn."""
    assert LongAnswers in get_type_hints(handler_module(key).handle).values()
