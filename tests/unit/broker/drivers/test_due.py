from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from broker_node import eventually

from minikafka.broker.drivers import due as due_module
from minikafka.broker.drivers.due import AT_ONCE, DueReplicas
from minikafka.model import TopicPartition
from minikafka.net.tasks import TaskOwner


class Teller:
    """Has nothing to make."""

    def __init__(self) -> None:
        self.told: list[TopicPartition] = []

    def tell(self, tp: TopicPartition) -> None:
        self.told.append(tp)

    def prepare(self, tp: TopicPartition) -> None:
        return None


class Here:
    """All are to be told, and none to be opened."""

    def get(self, tp: TopicPartition) -> TopicPartition:
        return tp


class Store:
    """Nothing was here before."""

    def has_former(self, _tp: TopicPartition) -> bool:
        return False


async def test_who_waits_goes_on_only_when_all_are_told() -> None:
    """A change that came between the last replica and its turn was passed over: a topic was claimed as synced whose
    replicas had yet to hear of it."""
    loop, tasks = asyncio.get_running_loop(), TaskOwner("test", lambda _name, _error: None)

    class More(Teller):
        def tell(self, tp: TopicPartition) -> None:
            super().tell(tp)
            if tp == TopicPartition("first", AT_ONCE):
                loop.call_soon(note, "second")

    def note(name: str) -> None:
        due.note([[TopicPartition(name, number) for number in range(2 * AT_ONCE + 1)]])
        due.begin()

    due = DueReplicas(More(), cast(Any, Here()), cast(Any, Store()), tasks, cast(Any, None), lambda _error: None)
    due.note([[TopicPartition("first", number) for number in range(AT_ONCE + 1)]])
    due.begin()
    await due.wait_all_told()
    assert not due.is_behind
    await tasks.close()


async def test_of_a_whole_cluster_no_turn_looks_at_more_than_a_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start noted every partition of the cluster in one turn: 0.2 s for 100,000."""
    monkeypatch.setattr(due_module, "PLACED_AT_ONCE", 10)
    looked_at: list[TopicPartition] = []

    class Here:
        def get(self, tp: TopicPartition) -> None:
            looked_at.append(tp)

    def fail(error: BaseException) -> None:
        raise error

    tasks = TaskOwner("test", lambda _name, _error: None)
    teller = Teller()
    due = DueReplicas(teller, cast(Any, Here()), cast(Any, Store()), tasks, cast(Any, None), fail)
    groups = [[TopicPartition(f"topic-{name}", number) for number in range(7)] for name in range(10)]
    due.note(groups)
    assert len(looked_at) == 10
    due.begin()
    assert due.is_behind
    due.note([[TopicPartition("later", 0)]])
    await eventually(lambda: not due.is_behind, "all to be told")
    expected = [tp for group in groups for tp in group] + [TopicPartition("later", 0)]
    assert looked_at == expected
    assert sorted(teller.told) == sorted(expected)
    await tasks.close()
