from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.model import TopicPartition
from minikafka.storage.checkpoints import OffsetCheckpoint
from minikafka.storage.disk import OsDisk

A, B = TopicPartition("a-topic", 3), TopicPartition("b", 0)


@pytest.mark.spec("R22")
def test_the_file_is_kafkas_and_comes_back(disk: OsDisk, tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    checkpoint.write({B: 0, A: 2**40})
    assert (tmp_path / "offsets").read_text() == "0\n2\na-topic 3 1099511627776\nb 0 0\n"
    assert OffsetCheckpoint(disk, str(tmp_path), "offsets").read() == {A: 2**40, B: 0}


def test_an_unchanged_checkpoint_is_not_written_again(disk: OsDisk, tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    checkpoint.write({A: 1})
    (tmp_path / "offsets").unlink()
    checkpoint.write({A: 1})
    assert not (tmp_path / "offsets").exists()
    checkpoint.write({A: 2})
    assert checkpoint.mentions(A)
    assert not checkpoint.mentions(B)


@pytest.mark.parametrize("text", ["", "0\n", "2\n0\n", "0\n3\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "\xff\n0\n"])
def test_a_damaged_file_counts_as_absent(disk: OsDisk, tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").write_text(text, encoding="latin-1")
    assert OffsetCheckpoint(disk, str(tmp_path), "offsets").read() == {}


def test_an_absent_file_is_empty(disk: OsDisk, tmp_path: Path) -> None:
    assert OffsetCheckpoint(disk, str(tmp_path), "offsets").read() == {}
