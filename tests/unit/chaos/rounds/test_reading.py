"""Who could not read to the end does not say that it did: nothing is known of records that nobody could ask for."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException

from minikafka.chaos.history import History
from minikafka.chaos.rounds import reading
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC, place

NONE: dict[int, int] = {}
ALL = dict.fromkeys(range(PARTITIONS), 1)


@pytest.mark.parametrize(
    ("answers", "drained"),
    [
        ([NONE], []),  # it was "2,062 of 2,062 acknowledged records are gone" of a cluster that was down
        ([{0: 0}], [0]),
        ([ALL, {2: 1}], [2]),  # it went down while it was read
        ([ALL, ALL], [*range(PARTITIONS)]),  # it hides what it says is there
    ],
)
def test_only_what_was_read_to_the_end_is_drained(
    monkeypatch: pytest.MonkeyPatch, answers: list[dict[int, int]], drained: list[int]
) -> None:
    told: Iterator[dict[int, int]] = iter(answers)
    eof = SimpleNamespace(error=lambda: SimpleNamespace(code=lambda: -191), partition=lambda: 0, offset=lambda: 0)
    consumer = SimpleNamespace(assign=lambda _: None, consume=lambda *_: [eof], close=lambda: None)
    monkeypatch.setattr(reading, "STALL_S", 0.05)
    monkeypatch.setattr(reading, "make_consumer", lambda *_, **__: consumer)
    monkeypatch.setattr(reading, "ends_of", lambda *_: next(told))
    history = History()
    reading.read_all(Reached("127.0.0.1:1"), TOPIC, history, committed=False)
    assert history.events[-1].function == "drained"
    assert history.events[-1].value == [place(TOPIC, n) for n in drained]


def test_who_is_told_no_ends_asks_for_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asked each partition for 10 s more when its time was over: a dead cluster was waited for twice as long."""
    clock = SimpleNamespace(now_s=0.0)

    def dead(_: object, timeout: float) -> tuple[int, int]:
        clock.now_s += timeout
        raise KafkaException

    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: clock.now_s, sleep=lambda _: None))
    consumer = SimpleNamespace(get_watermark_offsets=dead)
    assert reading.ends_of(consumer, TOPIC) == {}  # type: ignore[arg-type]
    assert clock.now_s == reading.STALL_S
