"""Shared by the controller's tests. Makes the modules beside them (controller_*.py) importable by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from controller_cluster import Cluster

from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.records import Record


@pytest.fixture
def new_cluster() -> Callable[..., Cluster]:
    """Makes a cluster with the given settings, dots written as underscores."""
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Three live brokers, no topics."""
    cluster = Cluster()
    cluster.join(1, 2, 3)
    return cluster


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records the controller wrote each time."""
    found, write = list[int](), ControllerState.write

    def counted(state: ControllerState, *records: Record) -> None:
        found.extend([len(records)] if records else ())
        write(state, *records)

    monkeypatch.setattr(ControllerState, "write", counted)
    return found
