from __future__ import annotations

import asyncio
import time

from broker_node import eventually

from minikafka.broker.metrics import loop_lag as loop_lag_module
from minikafka.broker.metrics.loop_lag import LoopLag


async def test_a_busy_loop_is_seen(monkeypatch: object) -> None:
    lag = LoopLag()
    lag.start()
    await asyncio.sleep(0)
    time.sleep(loop_lag_module.BEAT_S + 0.15)  # noqa: ASYNC251  # nobody is served meanwhile
    await eventually(lambda: lag.histogram.count, "a beat")
    lag.stop()
    assert lag.histogram.total >= 0.1
    beats = lag.histogram.count
    await asyncio.sleep(2 * loop_lag_module.BEAT_S)
    assert lag.histogram.count == beats
