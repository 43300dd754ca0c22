"""A group that stands still, or commits nothing, breaks no rule of the ledger: a round asks how far it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from minikafka.chaos.history import History
from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds import behind, copy_load, group_load, loads
from minikafka.chaos.rounds.behind import left_uncommitted
from minikafka.chaos.rounds.copy_load import Copy
from minikafka.chaos.rounds.group_load import GroupLoad
from minikafka.chaos.rounds.loads import Load
from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition

CLUSTER = Reached("127.0.0.1:1")


class _Admin:
    """Each partition ends at 3; the group is where ``committed`` says."""

    committed: ClassVar[dict[TopicPartition, int]] = {}
    error: ClassVar[KafkaError | None] = None

    def __init__(self, *_arguments: Any, **_more: Any) -> None: ...

    async def __aenter__(self) -> _Admin:
        return self

    async def __aexit__(self, *_error: object) -> None: ...

    async def list_offsets(self, asked: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        if self.error is not None:
            raise self.error
        return {tp: SimpleNamespace(offset=3) for tp in asked}

    async def group_offsets(self, _group: str) -> dict[TopicPartition, Any]:
        return {tp: SimpleNamespace(offset=offset) for tp, offset in self.committed.items()}


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> type[_Admin]:
    """Everything is committed, until told otherwise; nobody waits."""
    monkeypatch.setattr(behind, "Admin", _Admin)
    monkeypatch.setattr(_Admin, "committed", {TopicPartition(TOPIC, n): 3 for n in range(PARTITIONS)})
    monkeypatch.setattr(_Admin, "error", None)
    monkeypatch.setattr(copy_load, "DRAIN_S", 0.0)
    monkeypatch.setattr(group_load, "COMMIT_S", 0.0)
    for module in (copy_load, loads):
        monkeypatch.setattr(module, "read_all", lambda *_arguments, **_more: None)
    monkeypatch.setattr(copy_load, "note_stable_ends", lambda *_arguments: None)

    async def note_nothing(_load: Copy) -> None: ...

    monkeypatch.setattr(Copy, "_note_positions", note_nothing)
    return _Admin


def drained(kind: type[Load]) -> dict[str, Finding]:
    load = kind(CLUSTER, History(), 10, 0, MinikafkaClients())
    load.drain()
    return {finding.name: finding for finding in load.findings()}


def name_of(kind: type[Load]) -> str:
    return "everything was copied" if kind is Copy else "the group committed what it was handed"


@pytest.mark.parametrize("kind", [Copy, GroupLoad])
def test_a_round_passes_whose_group_has_committed_all(kind: type[Load]) -> None:
    found = drained(kind)[name_of(kind)]
    assert (found.ok, found.sentence) == (True, "6 partitions")


@pytest.mark.parametrize("kind", [Copy, GroupLoad])
def test_a_round_fails_whose_group_has_not(kind: type[Load], admin: type[_Admin]) -> None:
    """Rounds passed whose applications were handed nothing any more, or whose coordinator refused all commits."""
    admin.committed[TopicPartition(TOPIC, 1)] = 2
    del admin.committed[TopicPartition(TOPIC, 4)]
    found = drained(kind)[name_of(kind)]
    assert (found.ok, found.sentence) == (
        False,
        "load-1 is committed up to 2 of 3; load-4 is committed up to 0 of 3",
    )


async def test_a_cluster_that_does_not_answer_is_no_error_of_the_round(admin: type[_Admin]) -> None:
    admin.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator")
    assert await left_uncommitted(CLUSTER, TOPIC, "g", 0.0) == ["no coordinator"]
