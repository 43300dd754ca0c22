"""Turns of the loop, and what waits for one."""

from __future__ import annotations

import asyncio

from minikafka.net.turns import TURN_COST, Turns


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


async def test_one_that_stands_in_line_again_and_again_has_one_place_in_a_turn() -> None:
    """Each of its turns asked the loop for two more: they doubled until one took half a second."""
    turns, turn = Turns(asyncio.get_running_loop()), [0]
    given: list[int] = []

    def go_on() -> None:
        turns.left -= TURN_COST
        given.append(turn[0])
        if len(given) < 100:
            turns.stand_in_line(go_on)

    turns.stand_in_line(go_on)
    for _ in range(300):
        turn[0] += 1
        await asyncio.sleep(0)
    assert len(given) == len(set(given)) == 100


async def test_a_bug_in_what_one_asks_stops_no_other_in_the_line() -> None:
    """They stood there until somebody came whose requests took half a turn."""
    loop, reported = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    turns, gone_on = Turns(loop), []

    def fail() -> None:
        raise RuntimeError("planted")

    turns.stand_in_line(fail)
    turns.stand_in_line(lambda: gone_on.append(True))
    for _ in range(10):
        await asyncio.sleep(0)
    assert gone_on == [True]
    assert [str(error) for error in reported] == ["planted"]


async def test_a_connection_does_not_wait_for_all_portions_of_others() -> None:
    """A hundred portions of 5 ms were before an honest producer."""
    turns, turn = Turns(asyncio.get_running_loop()), [0]
    portions = [asyncio.create_task(turns.wait()) for _ in range(100)]
    await asyncio.sleep(0)
    went_on: list[int] = []
    turns.stand_in_line(lambda: went_on.append(sum(portion.done() for portion in portions)))
    await run_until_done(portions, turn)
    assert len(went_on) == 1
    assert went_on[0] <= 2


async def test_portions_do_not_wait_for_connections_that_are_always_there() -> None:
    turns, turn = Turns(asyncio.get_running_loop()), [0]

    def go_on() -> None:
        turns.left -= TURN_COST
        turns.stand_in_line(go_on)

    for _ in range(10):
        turns.stand_in_line(go_on)
    await run_until_done([asyncio.create_task(turns.wait()) for _ in range(10)], turn)
    assert turn[0] < 50


async def test_connections_share_a_turn_however_long_it_takes() -> None:
    """The loop's clock goes on during a turn: each connection had a whole one."""
    loop = asyncio.get_running_loop()
    turns = Turns(loop)
    for _ in range(3):
        turns.left -= TURN_COST // 3
        turns.on_spent()
        busy_until_s = loop.time() + 0.002
        while loop.time() < busy_until_s:
            pass
    assert turns.left < TURN_COST // 3
    await asyncio.sleep(0)
    assert turns.left == TURN_COST


async def test_the_loop_is_asked_for_a_turn_when_half_of_one_is_spent_and_once() -> None:
    """A small request would have it come round again for that alone."""
    asked: list[object] = []

    class Loop:
        def call_soon(self, callback: object) -> None:
            asked.append(callback)

    turns = Turns(Loop())  # type: ignore[arg-type]
    turns.left -= TURN_COST // 2
    turns.on_spent()
    assert not asked
    for _ in range(2):
        turns.left -= 1
        turns.on_spent()
    assert len(asked) == 1
