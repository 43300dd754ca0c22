"""`minikafka log verify` on log directories that the storage made."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from command_line import COMMAND

from minikafka.model import TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.log_store import LogStore

T0 = TopicPartition("t", 0)
SEGMENT = "t-0/00000000000000000000.log"


def verify(*words: str | Path) -> Result:
    return CliRunner().invoke(COMMAND, ["log", "verify", *map(str, words)], env={"COLUMNS": "150"})


def open_store(directory: Path) -> LogStore:
    disk, uuid = OsDisk(), UUID(int=9)
    return LogStore.open(
        disk, [str(directory)], node_id=1, cluster_id="c", new_uuid=lambda: uuid, config_for=lambda _: LogConfig()
    )


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory of a node with a log of three records, after a clean stop."""
    directory = tmp_path / "node-1" / "data"
    store = open_store(directory)
    log = store.create(T0, UUID(int=7), LogConfig())
    for offset in range(3):
        log.append_as_follower(memoryview(bytearray(build_batch([Record(0, 5, None, b"v" * 50)], base_offset=offset))))
    store.close({T0: 3}, broker_epoch=1)
    return directory


def test_a_whole_directory(node: Path) -> None:
    for where in (node, node.parent.parent, node / "t-0"):
        result = verify(where, "--records")
        assert (result.exit_code, result.output.splitlines()[-1].partition(": ")[2]) == (0, "no damage")
    assert result.output.startswith("1 partition, 1 segment, 3 batches, ")
    assert verify("--dir", node.parent.parent).output == result.output


def test_damage_is_a_row_and_an_exit_code(node: Path) -> None:
    data = bytearray((node / SEGMENT).read_bytes())
    data[-1] ^= 1
    (node / SEGMENT).write_bytes(data)
    (node / "recovery-point-offset-checkpoint").write_text("nonsense")
    result = verify(node)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].endswith(": 1 damaged, 1 that a start mends")
    (row,) = [line for line in result.output.splitlines() if line.startswith("damage")]
    assert row.split() == ["damage", SEGMENT, "offset", "2,", "byte", "236", "wrong", "checksum"]
    found = json.loads(verify(node, "--json").output)
    assert (found["damaged"], found["mended"], found["batches"], found["running"]) == (1, 1, 3, [])
    assert {each["severity"] for each in found["findings"]} == {"damage", "mended"}
    assert (node / SEGMENT).read_bytes() == data


def test_a_node_that_runs_is_told(node: Path) -> None:
    store = open_store(node)
    try:
        result = verify(node)
        assert result.exit_code == 0
        assert f"a node runs on {node}: ends of logs, and what is newer than its checkpoints" in result.output
    finally:
        store.abandon()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "directory not found"),
        ("file", "not a directory"),
        ("empty", "no log directory, and none in it; name one of log.dirs, or a partition in it"),
    ],
)
def test_what_is_no_log_directory_is_told(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    result = verify(tmp_path / name)
    assert (result.exit_code, result.stderr) == (1, f"minikafka: {tmp_path / name}: {message}\n")
