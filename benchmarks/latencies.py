"""What another client notices meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

PAUSE_S: Final = 0.01
_PATIENCE_S: Final = 30.0


@contextmanager
def latencies_ms(connecting: Mapping[str, Any], topic: str) -> Iterator[list[float]]:
    """Of one record after another, in a thread; the producer is connected before."""
    from confluent_kafka import Producer

    producer = Producer({**connecting, "client.id": "other", "linger.ms": 0, "log_level": 0})
    producer.produce(topic, b"x")
    assert producer.flush(_PATIENCE_S) == 0
    took: list[float] = []
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(PAUSE_S):
            began = time.perf_counter()
            producer.produce(topic, b"x")
            producer.flush(_PATIENCE_S)
            took.append((time.perf_counter() - began) * 1000)

    writer = threading.Thread(target=write, name="other")
    writer.start()
    try:
        yield took
    finally:
        ended.set()
        writer.join()
