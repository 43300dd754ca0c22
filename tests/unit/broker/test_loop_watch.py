from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from broker_node import eventually
from captured_logs import capture_logs

from minikafka.broker.loop_watch import LoopWatch


@pytest.fixture
def said() -> Iterator[list[dict[str, object]]]:
    with capture_logs() as lines:
        yield lines  # type: ignore[misc]


def keep_busy(cpu_s: float) -> None:
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass


async def test_a_turn_that_takes_long_is_told_with_its_place(said: list[dict[str, object]]) -> None:
    watch = LoopWatch(40)
    watch.start()
    await asyncio.sleep(0)
    keep_busy(0.3)
    (line,) = await eventually(lambda: said, "the line")
    watch.stop()
    assert line["event"] == "slow turn of the loop"
    assert isinstance(line["cpu_ms"], int)
    assert line["cpu_ms"] >= 299
    assert "keep_busy" in str(line["where"])
    assert watch.longest_s >= 0.299


async def test_a_turn_that_stands_still_is_not_blamed(said: list[dict[str, object]]) -> None:
    """It costs no CPU time: the machine is busy with something else, or a disk is slow, which other tests see."""
    watch = LoopWatch(200)
    watch.start()
    await asyncio.sleep(0.02)
    time.sleep(0.3)  # noqa: ASYNC251
    await eventually(lambda: watch._beats >= 3, "the next turns")
    watch.stop()
    assert said == []
