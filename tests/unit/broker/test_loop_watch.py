from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_node import eventually
from captured_logs import capture_logs

from minikafka.broker.loop_watch import REPORTS_VARIABLE, LoopWatch, watch_of
from minikafka.config import BrokerConfig


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


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({"node.id": "7", "log.dirs": "/data", **settings})


async def test_settings_and_the_environment_ask_for_a_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPORTS_VARIABLE, raising=False)
    asked = config(**{"loop.turn.warn.ms": "50"})
    assert watch_of(config()) is None
    assert (watch := watch_of(asked)) is not None
    assert watch._limit_s == 0.05
    monkeypatch.setenv(REPORTS_VARIABLE, f"40:{tmp_path}/a:file")
    for one, limit_s in ((config(), 0.04), (asked, 0.04), (config(**{"loop.turn.warn.ms": "30"}), 0.03)):
        assert (watch := watch_of(one)) is not None
        assert watch._limit_s == limit_s


async def test_what_is_logged_is_reported(
    said: list[dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPORTS_VARIABLE, f"40:{tmp_path}/a:file")
    watch = watch_of(config())
    assert watch is not None
    watch.start()
    await asyncio.sleep(0)
    keep_busy(0.3)
    (line,) = await eventually(lambda: said, "the line")
    watch.stop()
    reported = json.loads((tmp_path / "a:file").read_text())
    assert reported == {"node": 7, "directory": "/data", "cpu_ms": line["cpu_ms"], "where": line["where"]}
