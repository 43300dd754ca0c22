"""Who looks at a node, how often, and who is told. No time passes but what pauses take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from broker_node import eventually, in_time, turns

from minikafka.broker import liveness as liveness_module
from minikafka.broker.liveness import PAUSES_S, Liveness
from minikafka.model import Endpoint
from minikafka.net.tasks import TaskOwner


class Ports:
    """The ports of other nodes: node n listens at port n. ``answers`` are given one a look, the last for ever."""

    def __init__(self) -> None:
        self.answers = [False]
        self.looks = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.gone: list[int] = []
        self.failures: list[BaseException] = []
        self.tasks = TaskOwner("test", lambda _name, error: self.failures.append(error))
        self.liveness = Liveness(
            lambda node_id: None if node_id > 9 else Endpoint("h", node_id), self.tasks, self._look
        )
        self.liveness.subscribe(self.gone.append)

    async def _look(self, endpoint: Endpoint) -> bool:
        self.looks += 1
        await self.gate.wait()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
async def ports(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ports]:
    monkeypatch.setattr(liveness_module, "PAUSES_S", (0.0,) * len(PAUSES_S))
    made = Ports()
    yield made
    made.gate.set()
    await made.tasks.close()
    assert not made.failures


async def at_rest(ports: Ports) -> None:
    await eventually(lambda: not len(ports.tasks), "all looks to end")


async def test_who_is_doubted_is_looked_at_for_a_while(ports: Ports) -> None:
    ports.liveness.doubt(3)
    await at_rest(ports)
    assert ports.looks == 1 + len(PAUSES_S)
    assert ports.gone == []


async def test_a_process_that_holds_its_port_a_moment_is_found_gone(ports: Ports) -> None:
    ports.answers = [False, False, True]
    ports.liveness.doubt(3)
    await at_rest(ports)
    assert (ports.looks, ports.gone) == (3, [3])


async def test_those_who_doubt_the_same_node_share_its_looks(ports: Ports) -> None:
    ports.answers = [True]
    ports.gate.clear()
    for _ in range(5):
        ports.liveness.doubt(3)
    await turns()
    ports.gate.set()
    await at_rest(ports)
    assert (ports.looks, ports.gone) == (1, [3])


async def test_a_doubt_that_comes_later_is_looked_at_at_once(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness_module, "PAUSES_S", (600.0,))
    ports.answers = [False, True]
    ports.liveness.doubt(3)
    await eventually(lambda: ports.looks == 1, "the first look")
    await turns()
    ports.liveness.doubt(3)
    await at_rest(ports)
    assert ports.gone == [3]


async def test_a_look_begins_after_it_was_asked_for(ports: Ports) -> None:
    """Who asks while one is under way is not content with it: it may have begun before the node died."""
    ports.answers = [False, True]
    ports.gate.clear()
    first = asyncio.get_running_loop().create_task(ports.liveness.look(3))
    await turns()
    others = [asyncio.get_running_loop().create_task(ports.liveness.look(3)) for _ in range(5)]
    await turns()
    ports.gate.set()
    assert [await in_time(each) for each in (first, *others)] == [False, *[True] * 5]
    assert ports.looks == 2


async def test_a_look_that_one_gave_up_goes_on_for_the_others(ports: Ports) -> None:
    ports.answers = [True]
    ports.gate.clear()
    impatient, patient = (asyncio.get_running_loop().create_task(ports.liveness.look(3)) for _ in range(2))
    await turns()
    impatient.cancel()
    await turns()
    ports.gate.set()
    assert await in_time(patient)


async def test_a_node_whose_endpoint_nobody_knows_is_not_gone(ports: Ports) -> None:
    assert not await in_time(ports.liveness.look(10))
    assert ports.looks == 0


async def test_a_node_that_stops_looks_no_more(ports: Ports) -> None:
    await ports.tasks.close()
    ports.liveness.doubt(3)
    assert not await in_time(ports.liveness.look(3))
    assert ports.looks == 0
