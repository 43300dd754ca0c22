"""Makes the helpers beside these tests (storage_*.py) importable by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.model import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def disk() -> OsDisk:
    return OsDisk()


@pytest.fixture
def directory(tmp_path: Path) -> str:
    path = tmp_path / "orders-0"
    path.mkdir()
    return str(path)


@pytest.fixture
def open_log(disk: OsDisk, directory: str) -> Callable[..., Log]:
    """Opens the log in ``directory``; settings of the log by name, the rest goes to ``Log.open``."""

    def open_(
        *,
        clean: bool = True,
        was_killed: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        **settings: object,
    ) -> Log:
        return Log.open(
            disk,
            directory,
            TopicPartition("orders", 0),
            LogConfig(**settings),  # type: ignore[arg-type]
            last_stop=LastStop(
                is_clean=clean, was_killed=was_killed, recovery_point=recovery_point, log_start_offset=log_start_offset
            ),
        )

    return open_
