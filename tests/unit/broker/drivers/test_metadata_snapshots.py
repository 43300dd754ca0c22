"""A snapshot's file: what is one, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from broker_client import NOW_MS

from minikafka.broker.drivers.metadata_snapshots import (
    RECORDS_PER_BATCH,
    DamagedSnapshotError,
    MetadataSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from minikafka.model import OffsetAndEpoch
from minikafka.records.batch import iter_batches
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.disk import DiskSpace, OsDisk

ID = OffsetAndEpoch(7, 2)
VALUES = [b"value %d" % number for number in range(RECORDS_PER_BATCH + 1)]


@pytest.fixture
def snapshots(tmp_path: Path) -> MetadataSnapshots:
    return MetadataSnapshots(OsDisk(), str(tmp_path))


@pytest.mark.parametrize("values", [[], [b"one"], VALUES], ids=["empty", "one", "two batches"])
def test_a_snapshot_is_read_as_it_was_written(values: list[bytes]) -> None:
    assert decode_snapshot(encode_snapshot(ID, values, NOW_MS), ID) == values


class AlmostFull(OsDisk):
    """Of its room a snapshot takes one byte too many."""

    def space(self, path: str) -> DiskSpace:
        return super().space(path)._replace(usable=len(encode_snapshot(ID, VALUES, NOW_MS)) - 1)


def test_a_snapshot_that_does_not_fit_takes_no_room(tmp_path: Path) -> None:
    """What was written of it stayed, and the next records were refused."""
    with pytest.raises(OSError, match="No space left"):
        MetadataSnapshots(AlmostFull(), str(tmp_path)).store(ID, encode_snapshot(ID, VALUES, NOW_MS))
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("P5")
def test_a_snapshot_that_was_cut_is_none() -> None:
    """Between two batches, too, and to nothing: topics were gone, and their logs became strays."""
    data = encode_snapshot(ID, VALUES, NOW_MS)
    starts = [position for position, _header in iter_batches(data)]
    assert len(starts) == 4, "header, two batches of records, footer"
    for size in {*starts, *range(0, len(data), 997), len(data) - 1}:
        with pytest.raises(DamagedSnapshotError):
            decode_snapshot(data[:size], ID)


@pytest.mark.spec("P5")
def test_no_bit_of_a_snapshot_may_change() -> None:
    """Also those that no checksum covers: the offset and the epoch of a batch."""
    data = bytearray(encode_snapshot(ID, [b"value", b"another"], NOW_MS))
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            with pytest.raises(DamagedSnapshotError):
                decode_snapshot(bytes(data), ID)
            data[at] ^= 1 << bit


@pytest.mark.parametrize("name", [OffsetAndEpoch(10**15, 2), OffsetAndEpoch(6, 2), OffsetAndEpoch(7, 3)])
def test_a_snapshot_under_the_name_of_another_is_none(name: OffsetAndEpoch) -> None:
    with pytest.raises(DamagedSnapshotError, match=r"its name says|of epoch"):
        decode_snapshot(encode_snapshot(ID, VALUES, NOW_MS), name)


def _without_header(data: bytes) -> bytes:
    _, (second, _) = list(iter_batches(data))[:2]
    return data[second:]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_without_header, "the batch at offset 0 is of offset 1"),
        (lambda data: data + b"more", "4 bytes behind the last whole batch"),
        (lambda data: data + data, "the batch at offset 5 is of offset 0"),
        (lambda _: bytes(build_batch([Record(0, NOW_MS, None, b"v")], leader_epoch=2)), "begin with a header"),
        (lambda _: b"", "does not end with a footer"),
    ],
)
def test_what_is_wrong_is_said(change: Callable[[bytes], bytes], why: str) -> None:
    with pytest.raises(DamagedSnapshotError, match=why):
        decode_snapshot(change(encode_snapshot(ID, [b"a", b"b", b"c"], NOW_MS)), ID)


def test_those_that_are_damaged_are_put_aside_not_only_the_newest(snapshots: MetadataSnapshots, tmp_path: Path) -> None:
    for offset in (3, 5, 7):
        snapshots.store(OffsetAndEpoch(offset, 2), encode_snapshot(OffsetAndEpoch(offset, 2), [b"state"], NOW_MS))
    snapshots.store(OffsetAndEpoch(10**15, 2), encode_snapshot(ID, [b"state"], NOW_MS))
    (tmp_path / f"{5:020d}-{2:010d}.checkpoint").write_bytes(b"")
    snapshots.put_damaged_aside()
    assert [one.snapshot_id.offset for one in snapshots.found()] == [3, 7]
    assert sorted(path.name for path in tmp_path.glob("*.damaged")) == [
        f"{offset:020d}-{2:010d}.checkpoint.damaged" for offset in (5, 10**15)
    ]


def test_a_snapshot_of_a_former_version_is_read() -> None:
    """It had no header, no footer and no epoch. Damage is found as far as checksums and offsets tell."""
    data = bytearray()
    for start in range(0, len(VALUES), RECORDS_PER_BATCH):
        records = [Record(0, NOW_MS, None, value) for value in VALUES[start : start + RECORDS_PER_BATCH]]
        data += build_batch(records, base_offset=start)
    assert decode_snapshot(bytes(data), ID) == VALUES
    data[-1] ^= 1
    with pytest.raises(DamagedSnapshotError, match="checksum"):
        decode_snapshot(bytes(data), ID)
