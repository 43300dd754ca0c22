from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.model import TopicPartition
from minikafka.storage.checkpoints import OffsetCheckpoint, format_rows
from minikafka.storage.disk import OsDisk

A, B = TopicPartition("a-topic", 3), TopicPartition("b", 0)
BEYOND = (f"0\n1\na 0 {2**63}\n", "0\n1\na 0 -1\n", f"0\n1\na {2**31} 0\n")  # what Kafka keeps in 64 and 32 bits


@pytest.mark.spec("R22")
def test_the_file_is_kafkas_but_for_its_checksum_and_comes_back(disk: OsDisk, tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    checkpoint.write({B: 0, A: 2**40})
    assert (tmp_path / "offsets").read_text() == ("0\n2\na-topic 3 1099511627776\nb 0 0\ncrc32c 4980bef4\n")
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


@pytest.mark.parametrize(
    "text", ["", "0\n", "2\n0\n", "0\n3\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "\xff\n0\n", *BEYOND]
)
def test_a_damaged_file_counts_as_absent(disk: OsDisk, tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").write_text(text, encoding="latin-1")
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    assert checkpoint.read() == {}
    assert checkpoint.is_unreadable


@pytest.mark.parametrize("offsets", [{}, {B: 3250}, {A: 2**63 - 1, B: 0}], ids=["none", "one", "two"])
def test_no_flipped_bit_makes_another_file_of_it(
    disk: OsDisk, tmp_path: Path, offsets: dict[TopicPartition, int]
) -> None:
    OffsetCheckpoint(disk, str(tmp_path), "offsets").write(offsets)
    whole = (tmp_path / "offsets").read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "offsets").write_bytes(damaged)
        checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
        assert checkpoint.read() == {}
        assert checkpoint.is_unreadable, bytes(damaged)


def test_a_file_without_a_checksum_is_of_kafka_or_an_older_version(disk: OsDisk, tmp_path: Path) -> None:
    named = TopicPartition("crc32c", 0)
    rows = [[topic, str(partition), "123456"] for topic, partition in (A, named)]
    (tmp_path / "offsets").write_bytes(format_rows(rows))
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    assert checkpoint.read() == {A: 123456, named: 123456}
    assert not checkpoint.is_unreadable


class SlowFirst(OsDisk):
    """While the first write waits for its sync, another one goes all the way."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None

    def fsync_path(self, path: str) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().fsync_path(path)


def test_a_write_that_was_overtaken_does_not_take_the_place_of_the_newer_one(tmp_path: Path) -> None:
    disk = SlowFirst()
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    checkpoint.note(A, 10)

    def lower() -> None:
        checkpoint.lower(A, 5)
        checkpoint.store()

    disk.meanwhile = lower
    checkpoint.store()
    assert OffsetCheckpoint(disk, str(tmp_path), "offsets").read() == {A: 5}
    assert [path.name for path in tmp_path.iterdir()] == ["offsets"]


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_partition_that_is_forgotten_has_no_row_any_more(disk: OsDisk, tmp_path: Path, is_stored: bool) -> None:
    """The others keep theirs: with 3,000 of them a new row for each took 54 ms of the loop."""
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    checkpoint.write({A: 1, B: 2})
    if not is_stored:
        checkpoint.note(A, 3)
    checkpoint.forget(A)
    checkpoint.store()
    assert not checkpoint.mentions(A)
    assert OffsetCheckpoint(disk, str(tmp_path), "offsets").read() == {B: 2}
    written = (tmp_path / "offsets").stat().st_mtime_ns
    checkpoint.forget(A)
    checkpoint.store()
    assert (tmp_path / "offsets").stat().st_mtime_ns == written, "it was not there, so nothing is written"


def test_an_absent_file_is_empty(disk: OsDisk, tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(disk, str(tmp_path), "offsets")
    assert checkpoint.read() == {}
    assert not checkpoint.is_unreadable
