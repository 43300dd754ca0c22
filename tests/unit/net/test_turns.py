"""Turns of the loop, and what waits for one."""

from __future__ import annotations

import asyncio

from minikafka.net.turns import Turns


async def run_until_done(tasks: list[asyncio.Task[None]], on_turn: list[int]) -> None:
    while not all(task.done() for task in tasks):
        on_turn[0] += 1
        await asyncio.sleep(0)


async def test_each_portion_has_a_turn_of_its_own() -> None:
    turns, turn = Turns(asyncio.get_running_loop()), [0]
    portions: list[tuple[int, str]] = []

    async def request(name: str) -> None:
        for _ in range(3):
            await turns.wait()
            portions.append((turn[0], name))

    await run_until_done([asyncio.create_task(request(name)) for name in "abc"], turn)
    assert [name for _, name in portions] == list("abcabcabc")
    assert len({at for at, _ in portions}) == len(portions)


async def test_a_request_that_was_cancelled_has_no_turn() -> None:
    turns, turn = Turns(asyncio.get_running_loop()), [0]
    gone = [asyncio.create_task(turns.wait()) for _ in range(100)]
    last = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await run_until_done([last], turn)
    assert turn[0] < 10
