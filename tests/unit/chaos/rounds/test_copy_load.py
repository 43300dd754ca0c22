"""Applications that copy must get to the end: those that stand still break no rule of the ledger."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from minikafka.chaos.history import History
from minikafka.chaos.rounds import copy_load
from minikafka.chaos.rounds.copy_load import GROUP, Copy
from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC
from minikafka.model import TopicPartition


class _Admin:
    """Each partition ends at 3; the group is where ``committed`` says."""

    committed: ClassVar[dict[TopicPartition, int]] = {}

    def __init__(self, *_arguments: Any, **_more: Any) -> None: ...

    async def __aenter__(self) -> _Admin:
        return self

    async def __aexit__(self, *_error: object) -> None: ...

    async def list_offsets(self, asked: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {tp: SimpleNamespace(offset=3) for tp in asked}

    async def group_offsets(self, group: str) -> dict[TopicPartition, Any]:
        assert group == GROUP
        return {tp: SimpleNamespace(offset=offset) for tp, offset in self.committed.items()}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Copy:
    monkeypatch.setattr(copy_load, "Admin", _Admin)
    monkeypatch.setattr(copy_load, "DRAIN_S", 0.0)
    monkeypatch.setattr(copy_load, "read_all", lambda *_arguments, **_more: None)
    monkeypatch.setattr(copy_load, "note_stable_ends", lambda *_arguments: None)
    monkeypatch.setattr(_Admin, "committed", {TopicPartition(TOPIC, n): 3 for n in range(PARTITIONS)})
    return Copy(Reached("127.0.0.1:1"), History(), 10, 0, MinikafkaClients())


def test_a_round_passes_when_everything_is_copied(load: Copy) -> None:
    load.drain()
    assert [(each.ok, each.sentence) for each in load.findings()] == [(True, "6 partitions")]


def test_a_round_does_not_pass_whose_applications_stand_still(load: Copy) -> None:
    """A round passed whose applications were handed nothing any more after half of the time."""
    _Admin.committed = {**_Admin.committed, TopicPartition(TOPIC, 1): 2}
    del _Admin.committed[TopicPartition(TOPIC, 4)]
    load.drain()
    [finding] = load.findings()
    assert (finding.ok, finding.sentence) == (False, "load-1 is copied up to 2 of 3; load-4 is copied up to 0 of 3")
