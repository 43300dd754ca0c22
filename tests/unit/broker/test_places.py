from __future__ import annotations

import asyncio

import pytest

from minikafka.broker.places import Memory, Places


class Requests:
    """Requests of connections, each at work until it is finished."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._ends: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []

    def start(self, name: str) -> asyncio.Task[None]:
        """The first letter is the connection's."""
        self._ends[name] = asyncio.Event()
        return asyncio.create_task(self._run(name))

    async def _run(self, name: str) -> None:
        async with self._places.one(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def finish(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await rest()


async def rest() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_connection_has_fewer_places_than_there_are() -> None:
    requests = Requests(Places(at_once=3, of_one=2))
    tasks = [requests.start(name) for name in ("a1", "a2", "a3", "b1")]
    await rest()
    assert requests.begun == ["a1", "a2", "b1"]
    await requests.finish("a1", "a2", "a3", "b1")
    await asyncio.gather(*tasks)


async def test_connections_take_turns_for_the_places_of_all() -> None:
    requests = Requests(Places(at_once=1, of_one=10))
    names = ["a1", "a2", "a3", "a4", "b1", "c1"]
    tasks = [requests.start(name) for name in names]
    await rest()
    for _ in names:
        await requests.finish(requests.begun[-1])
    await asyncio.gather(*tasks)
    assert requests.begun == ["a1", "a2", "b1", "c1", "a3", "a4"]


async def test_a_few_connections_do_not_have_all_places() -> None:
    """Sixteen of them, whose look-ups by time took minutes, kept all consumers from learning where a log ends."""
    requests = Requests(Places(at_once=6, of_one=4))
    tasks = [requests.start(name) for name in ("a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4")]
    await rest()
    assert requests.begun == ["a1", "a2", "a3", "b1"], "half of them are for who has none"
    tasks.append(requests.start("c1"))
    await rest()
    assert requests.begun[-1] == "c1"
    await requests.finish("b1")
    assert requests.begun[-1] == "b2", "it has none now"
    await requests.finish("c1", "a1", "a2")
    assert requests.begun[-1] == "a4"
    await requests.finish("a3", "a4", "b2")
    assert requests.begun[-2:] == ["b3", "b4"]
    await requests.finish("b3", "b4")
    await asyncio.gather(*tasks)


async def test_who_is_cancelled_leaves_its_place_to_others() -> None:
    places = Places(at_once=1, of_one=10)
    requests = Requests(places)
    first, waits, gets_it, last = (requests.start(name) for name in ("a1", "b1", "c1", "d1"))
    await rest()
    waits.cancel()
    await rest()
    requests._ends["a1"].set()
    await first
    gets_it.cancel()  # it has just been given its place
    await rest()
    assert requests.begun[-1] == "d1"
    await requests.finish("d1")
    await last
    assert (places._left, places._lines, places._waiting) == (1, {}, {})


async def test_who_is_cancelled_while_a_place_becomes_free_is_passed_over() -> None:
    places = Places(at_once=1, of_one=10)
    requests = Requests(places)
    first, second = requests.start("a1"), requests.start("b1")
    await rest()
    requests._ends["a1"].set()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (places._left, places._lines, places._waiting) == (1, {}, {})


async def test_a_place_that_was_just_given_is_given_on() -> None:
    places = Places(at_once=1, of_one=10)
    requests = Requests(places)
    first, second = requests.start("a1"), requests.start("b1")
    await rest()
    turn = next(iter(places._waiting.values()))[0]
    turn.add_done_callback(lambda _turn: second.cancel())
    await requests.finish("a1")
    await asyncio.gather(first, second, return_exceptions=True)
    assert second.cancelled()
    assert places._left == 1


# -- memory -----------------------------------------------------------------------------------------------------------


async def test_memory_is_handed_out_in_order_and_one_always_gets_some() -> None:
    memory, begun, gates = Memory(10), list[int](), [asyncio.Event() for _ in range(4)]

    async def take(number: int, size: int) -> None:
        async with memory.share(size):
            begun.append(number)
            await gates[number].wait()

    tasks = [asyncio.create_task(take(number, size)) for number, size in enumerate((6, 5, 4, 99))]
    await rest()
    assert begun == [0], "the third would fit, and comes after the second"
    gates[0].set()
    await rest()
    assert begun == [0, 1, 2]
    gates[1].set()
    await rest()
    assert begun == [0, 1, 2]
    gates[2].set()
    await rest()
    assert begun == [0, 1, 2, 3]
    gates[3].set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("is_first_done", [False, True])
async def test_who_is_cancelled_keeps_no_memory(is_first_done: bool) -> None:
    memory, gate, begun = Memory(1), asyncio.Event(), list[str]()

    async def take(name: str) -> None:
        async with memory.share(1):
            begun.append(name)
            await gate.wait()

    first, second, third = [asyncio.create_task(take(name)) for name in ("first", "second", "third")]
    await rest()
    if is_first_done:
        gate.set()  # in this very turn the second gets its share
        await asyncio.sleep(0)
    second.cancel()
    await rest()
    gate.set()
    await asyncio.gather(first, third)
    assert second.cancelled()
    assert begun == ["first", "third"]


async def test_a_share_moves_to_a_memory_that_has_as_much_now() -> None:
    first, second, begun = Memory(2), Memory(2), list[str]()
    async with first.share(2) as moved:
        assert moved.move_to(second)
        assert moved.move_to(second), "it is there"
        async with first.share(1) as stays:
            begun.append("the first is free")
            assert not stays.move_to(second)
    assert begun
    async with first.share(2), second.share(2):
        begun.append("all is given back")
    assert len(begun) == 2
