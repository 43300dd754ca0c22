from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broker_client import NOW_MS
from broker_node import HastyDisk

from minikafka.broker.drivers.metadata_batches import batch_spans
from minikafka.broker.drivers.metadata_log import DamagedMetadataLogError, MetadataLog
from minikafka.broker.drivers.metadata_recovery import QUORUM_STATE, REPAIR_MARK, MetadataRecovery
from minikafka.broker.drivers.metadata_snapshots import decode_snapshot
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC, OffsetAndEpoch, TopicPartition
from minikafka.raft import BatchSpan, ElectionState, EpochEntry, LogSummary
from minikafka.raft import effects as do
from minikafka.records.batch import iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.config import NEVER, UNLIMITED, LogConfig
from minikafka.storage.durable_end import DURABLE_END_FILE
from minikafka.storage.errors import StorageFailure
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

CONFIG = LogConfig(
    retention_ms=UNLIMITED, retention_bytes=UNLIMITED, segment_ms=NEVER, segment_bytes=2000, notes_durable_end=True
)


class Files:
    """The directory of a metadata log, opened again and again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = HastyDisk()
        self.log: Log | None = None

    def open(self, *, recovery_point: int = 0, log_start_offset: int = 0, is_clean: bool = False) -> MetadataLog:
        self.log = Log.open(
            self.disk,
            str(self.directory),
            TopicPartition(CLUSTER_METADATA_TOPIC, 0),
            CONFIG,
            last_stop=LastStop(recovery_point=recovery_point, log_start_offset=log_start_offset, is_clean=is_clean),
        )
        return MetadataLog(str(self.directory), self.log, self.disk, self._in_thread, self._in_thread, lambda: NOW_MS)

    def recovered(self, **how: int) -> tuple[MetadataLog, LogSummary, ElectionState, bool]:
        metadata_log = self.open(**how)
        return metadata_log, *metadata_log.recover()

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}

    def segment(self) -> Path:
        return max(self.directory.glob("*.log"))

    def _in_thread(self, act: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(None, act)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "log").mkdir()
    return Files(tmp_path / "log")


def recovery_of(files: Files) -> MetadataRecovery:
    metadata_log = files.open()
    return MetadataRecovery(str(files.directory), metadata_log._log, files.disk, metadata_log._snapshots)


def append(metadata_log: MetadataLog, *values: bytes, epoch: int = 1) -> None:
    metadata_log.append(do.Append(metadata_log._log.log_end_offset, epoch, values))


def everything(metadata_log: MetadataLog) -> list[tuple[int, int, bytes]]:
    log = metadata_log._log
    return records(metadata_log, log.log_start_offset, log.log_end_offset)


def records(metadata_log: MetadataLog, start: int, end: int) -> list[tuple[int, int, bytes]]:
    return [
        (batch.next_offset - len(values) + at, batch.leader_epoch, value)
        for batch in metadata_log.batches(start, end)
        for values in [list(batch.values)]
        for at, value in enumerate(values)
    ]


async def filled(files: Files, *, snapshot_at: int | None = None) -> MetadataLog:
    """A leader's log: a control record at 0, five records in two epochs, a vote, perhaps a snapshot."""
    metadata_log, *_ = files.recovered()
    await metadata_log.persist_election(ElectionState(2, 1, 1))
    metadata_log.append(do.AppendLeaderChange(0, 1, 1, (1, 2, 3), (1, 2)))
    append(metadata_log, b"a", b"b", b"c")
    append(metadata_log, b"d", b"e", epoch=2)
    await metadata_log.flush()
    if snapshot_at is not None:
        snapshot_id = OffsetAndEpoch(snapshot_at, metadata_log.epoch_before(snapshot_at))
        await metadata_log.write_snapshot(snapshot_id, [b"state"])
    return metadata_log


# -- the log ----------------------------------------------------------------------------------------------------------


async def test_an_empty_directory_is_a_beginning(files: Files) -> None:
    _, summary, election, must_repair = files.recovered()
    assert (summary.log_end_offset, election, must_repair) == (0, ElectionState(), False)
    assert await files.open().latest_snapshot() is None


async def test_what_was_appended_is_read_back(files: Files) -> None:
    metadata_log = await filled(files)
    expected = [(1, 1, b"a"), (2, 1, b"b"), (3, 1, b"c"), (4, 2, b"d"), (5, 2, b"e")]
    assert everything(metadata_log) == expected, "the control record is not a record of metadata"
    assert records(metadata_log, 1, 5) == expected[:3], "no part of a batch is applied"
    assert records(metadata_log, 6, 6) == []
    assert [metadata_log.epoch_before(offset) for offset in (1, 4, 5)] == [1, 1, 2]
    again, summary, election, must_repair = files.recovered()
    assert everything(again) == expected
    assert summary.epochs == [EpochEntry(1, 0), EpochEntry(2, 4)]
    assert (summary.log_end_offset, election, must_repair) == (6, ElectionState(2, 1, 1), False)


async def test_parts_of_the_log_are_whole_batches(files: Files) -> None:
    metadata_log = await filled(files)
    data = metadata_log.read(0, 1)
    assert batch_spans(data) == [BatchSpan(0, 0, 1)], "at least one"
    assert [span.base_offset for span in batch_spans(metadata_log.read(1, 1 << 20))] == [1, 4]
    assert metadata_log.read(6, 1 << 20) == b""
    follower = Files(files.directory.parent / "follower")
    follower.directory.mkdir()
    copy, *_ = follower.recovered()
    whole = metadata_log.read(0, 1 << 20)
    copy.append(do.AppendFetched(0, whole, OffsetAndEpoch(6, 2)))
    assert everything(copy) == everything(metadata_log)
    assert copy.read(0, 1 << 20) == whole


async def test_an_offset_inside_a_batch_is_a_mistake_of_who_asks(files: Files) -> None:
    metadata_log = await filled(files)
    for offset in (2, 3, 5):
        with pytest.raises(KafkaError, match=f"offset {offset} of the metadata log is inside") as refused:
            metadata_log.read(offset, 1 << 20)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert metadata_log._log.corruption is None


async def test_nobody_asks_from_inside_a_batch_that_does_not_begin_where_it_says(files: Files) -> None:
    """The batch at 4, of two records, says 3, which its checksum does not cover: 4 seems to be inside of it."""
    metadata_log = await filled(files)
    position = next(at for at, header in iter_batches(metadata_log.read(0, 1 << 20)) if header.base_offset == 4)
    with files.segment().open("r+b") as file:
        file.seek(position)
        file.write((3).to_bytes(8, "big"))
    tail = metadata_log._log.segments.active.tail
    assert tail is not None
    tail.newest = None  # as after a further write: the last one is not read from the file
    with pytest.raises(DamagedMetadataLogError):
        metadata_log.read(4, 1 << 20)


def test_damage_in_fetched_batches_is_found() -> None:
    with pytest.raises(ValueError, match="wrong checksum"):
        batch_spans(_damaged(_some_batches()))
    with pytest.raises(ValueError, match="no record batch at byte 0"):
        batch_spans(_damaged(_some_batches(), at=16))
    with pytest.raises(ValueError, match="5 bytes behind the last whole batch"):
        batch_spans(_some_batches() + b"extra")
    with pytest.raises(ValueError, match="behind the last whole batch"):
        batch_spans(_some_batches()[:-1])
    assert batch_spans(b"") == []


def _some_batches() -> bytes:
    return bytes(build_batch([Record(0, NOW_MS, None, b"value")]))


def _damaged(data: bytes, at: int = -1) -> bytes:
    spoiled = bytearray(data)
    spoiled[at] ^= 1
    return bytes(spoiled)


async def test_an_append_must_continue_the_log(files: Files) -> None:
    metadata_log = await filled(files)
    with pytest.raises(AssertionError, match="9 != 6"):
        metadata_log.append(do.Append(9, 2, (b"x",)))


async def test_truncating_is_durable(files: Files) -> None:
    metadata_log = await filled(files)
    await metadata_log.truncate_to(4)
    again, summary, *_ = files.recovered()
    assert summary.log_end_offset == 4
    assert everything(again)[-1] == (3, 1, b"c")
    append(again, b"other", epoch=3)
    assert everything(again)[-1] == (4, 3, b"other")


# -- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("P2")
async def test_a_torn_tail_is_cut_off(files: Files) -> None:
    await filled(files)
    whole = files.segment().read_bytes()
    files.segment().write_bytes(whole + whole[: parse_header(whole).size_in_bytes - 3])
    metadata_log, summary, election, must_repair = files.recovered(recovery_point=6)
    assert (summary.log_end_offset, election.epoch, must_repair) == (6, 2, False)
    assert len(everything(metadata_log)) == 5


@pytest.mark.spec("P5")
@pytest.mark.spec("P1")
async def test_a_voter_whose_directory_is_empty_is_new_until_it_is_whole(files: Files) -> None:
    """Decision 0013. The mark outlives restarts, whatever the log holds by then."""
    metadata_log, _, _, must_repair = files.recovered()
    assert (metadata_log.is_new, must_repair) == (True, False)
    append(metadata_log, b"fetched")
    await metadata_log.flush()
    await metadata_log.persist_election(ElectionState(1, 1, 1))
    metadata_log, _, _, must_repair = files.recovered()
    assert (metadata_log.is_new, must_repair) == (True, False)
    await metadata_log.remove_repair_mark()
    metadata_log, *_ = files.recovered()
    assert not metadata_log.is_new


async def test_the_only_voter_is_not_new_to_anybody(files: Files) -> None:
    metadata_log = files.open()
    metadata_log.recover(is_alone=True)
    assert not metadata_log.is_new


async def test_damage_elsewhere_keeps_the_node_from_voting_until_it_is_repaired(files: Files) -> None:
    await filled(files)
    files.segment().write_bytes(_flipped(files.segment().read_bytes(), 75))
    _, summary, _, must_repair = files.recovered(recovery_point=6)
    assert must_repair
    assert summary.log_end_offset < 6
    assert REPAIR_MARK in files.names
    metadata_log, _, _, must_repair = files.recovered(recovery_point=0)
    assert must_repair, "a restart does not forget it"
    await metadata_log.remove_repair_mark()
    assert REPAIR_MARK not in files.names
    await metadata_log.remove_repair_mark()
    _, _, _, must_repair = files.recovered()
    assert not must_repair


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


async def test_a_lost_vote_keeps_the_node_from_voting(files: Files) -> None:
    await filled(files)
    (files.directory / QUORUM_STATE).unlink()
    _, summary, election, must_repair = files.recovered()
    assert (summary.log_end_offset, election, must_repair) == (6, ElectionState(), True)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"leaderEpoch": -3}', b"\xff\xfe"])
async def test_a_vote_that_cannot_be_read_is_lost(files: Files, content: bytes) -> None:
    await filled(files)
    (files.directory / QUORUM_STATE).write_bytes(content)
    _, _, election, must_repair = files.recovered()
    assert (election, must_repair) == (ElectionState(), True)


async def test_a_vote_older_than_the_log_is_lost(files: Files) -> None:
    metadata_log = await filled(files)
    await metadata_log.persist_election(ElectionState(1, 1, 1))  # as from a backup
    _, summary, _, must_repair = files.recovered()
    assert (summary.last_epoch, must_repair) == (2, True)


async def test_votes_replace_each_other(files: Files) -> None:
    metadata_log, *_ = files.recovered()
    for state in (ElectionState(1, None, None), ElectionState(5, 2, None), ElectionState(5, 2, 2)):
        await metadata_log.persist_election(state)
        assert files.open().recover()[1] == state


# -- snapshots --------------------------------------------------------------------------------------------------------


async def test_a_snapshot_is_written_and_read_in_parts(files: Files) -> None:
    metadata_log = await filled(files)
    values = [b"value %d" % number for number in range(2500)]
    snapshot = await metadata_log.write_snapshot(OffsetAndEpoch(4, 1), values)
    assert snapshot.size_bytes == (files.directory / "00000000000000000004-0000000001.checkpoint").stat().st_size
    parts, position = [], 0
    while part := await metadata_log.read_snapshot(snapshot.snapshot_id, position, 10_000):
        parts.append(part)
        position += len(part)
    assert decode_snapshot(b"".join(parts), snapshot.snapshot_id) == values
    assert await files.open().latest_snapshot() == (OffsetAndEpoch(4, 1), values)
    await metadata_log.write_snapshot(OffsetAndEpoch(5, 2), [b"newer"])
    assert await files.open().latest_snapshot() == (OffsetAndEpoch(5, 2), [b"newer"])


async def test_a_received_snapshot_replaces_the_log(files: Files) -> None:
    source = await filled(files, snapshot_at=6)
    data = await source.read_snapshot(OffsetAndEpoch(6, 2), 0, 1 << 20)
    target = Files(files.directory.parent / "target")
    target.directory.mkdir()
    metadata_log, *_ = target.recovered()
    await metadata_log.persist_election(ElectionState(2))
    append(metadata_log, b"divergent")
    wrong = do.WriteSnapshot(OffsetAndEpoch(6, 2), 0, b"a first attempt that was given up")
    metadata_log.write_snapshot_part(wrong)
    for position in range(0, len(data), 30):
        metadata_log.write_snapshot_part(
            do.WriteSnapshot(OffsetAndEpoch(6, 2), position, data[position : position + 30])
        )
    assert await metadata_log.install_snapshot(OffsetAndEpoch(6, 2)) == [b"state"]
    assert everything(metadata_log) == []
    again, summary, _, must_repair = target.recovered(log_start_offset=6)
    assert (summary.log_start, summary.log_end_offset, must_repair) == (OffsetAndEpoch(6, 2), 6, False)
    assert await again.latest_snapshot() == (OffsetAndEpoch(6, 2), [b"state"])
    append(again, b"next", epoch=2)
    assert everything(again) == [(6, 2, b"next")]


async def test_a_damaged_snapshot_is_not_installed(files: Files) -> None:
    metadata_log = await filled(files)
    metadata_log.write_snapshot_part(do.WriteSnapshot(OffsetAndEpoch(9, 2), 0, _damaged(_some_batches())))
    with pytest.raises(StorageFailure, match=r"came from the quorum's leader is damaged: .* checksum"):
        await metadata_log.install_snapshot(OffsetAndEpoch(9, 2))
    assert len(everything(metadata_log)) == 5
    assert await files.open().latest_snapshot() is None


@pytest.mark.spec("P5", "P6")
@pytest.mark.parametrize("byte", [7, 11, 15, 16, 20, -1], ids=["offset", "length", "epoch", "magic", "crc", "value"])
async def test_what_the_process_wrote_itself_is_not_believed(files: Files, byte: int) -> None:
    """Finding 4, for the quorum: followers refused what its leader sent, for ever, and it never looked."""
    metadata_log = await filled(files)
    data = bytearray(files.segment().read_bytes())
    at = next(at for at, header in iter_batches(data) if header.base_offset == 1)
    size = parse_header(data, at).size_in_bytes
    data[at + (byte if byte >= 0 else size - 1)] ^= 1
    files.segment().write_bytes(data)
    assert batch_spans(metadata_log.read(0, 1)) == [BatchSpan(0, 0, 1)]
    with pytest.raises(DamagedMetadataLogError, match="__cluster_metadata-0 cannot be read at offset 1"):
        metadata_log.read(1, 1 << 20)
    with pytest.raises(DamagedMetadataLogError):
        everything(metadata_log)
    _, summary, _, must_repair = files.recovered(recovery_point=6)
    assert must_repair
    assert summary.log_end_offset == 0, "it is fetched again from the segment on"


@pytest.mark.spec("P6")
async def test_records_beyond_the_end_of_the_log_are_damage_and_not_asked_for_again_and_again(files: Files) -> None:
    metadata_log = await filled(files)
    with pytest.raises(DamagedMetadataLogError, match="it ends at 6, and 7 is committed"):
        records(metadata_log, 0, 7)


@pytest.mark.spec("P5", "P6")
@pytest.mark.parametrize("behind", [0, 30], ids=["between two batches", "in a batch"])
async def test_a_file_that_was_cut_under_the_process_is_damaged(files: Files, behind: int) -> None:
    """Simulation, seed 30038: where it ended was nothing to read, and whoever applied the log asked for ever."""
    metadata_log = await filled(files)
    data = files.segment().read_bytes()
    at = next(at for at, header in iter_batches(data) if header.base_offset == 1)
    files.segment().write_bytes(data[: at + behind])
    assert batch_spans(metadata_log.read(0, 1)) == [BatchSpan(0, 0, 1)]
    with pytest.raises(DamagedMetadataLogError, match="cannot be read at offset 1: the file was cut"):
        metadata_log.read(1, 1)
    with pytest.raises(DamagedMetadataLogError):
        everything(metadata_log)


@pytest.mark.spec("P5", "P6")
async def test_a_damaged_snapshot_is_not_sent(files: Files) -> None:
    metadata_log = await filled(files, snapshot_at=5)
    path = files.directory / "00000000000000000005-0000000002.checkpoint"
    path.write_bytes(_damaged(path.read_bytes()))
    with pytest.raises(DamagedMetadataLogError, match=r"snapshot 5-2 in .* cannot be read"):
        await metadata_log.read_snapshot(OffsetAndEpoch(5, 2), 0, 1000)


@pytest.mark.parametrize("name", [QUORUM_STATE, "00000000000000000005-0000000002.checkpoint"])
async def test_small_files_that_cannot_be_read_count_as_damaged(
    files: Files, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await filled(files, snapshot_at=5)
    read_bytes = HastyDisk.read_bytes

    def refuse(disk: HastyDisk, path: str) -> bytes:
        if path.endswith(name):
            raise OSError(errno.EIO, "bad sector")
        return read_bytes(disk, path)

    monkeypatch.setattr(HastyDisk, "read_bytes", refuse)
    _, summary, _, must_repair = files.recovered(recovery_point=6)
    assert summary.log_end_offset == 6
    assert must_repair == (name == QUORUM_STATE)


async def test_parts_must_follow_one_another(files: Files) -> None:
    metadata_log, *_ = files.recovered()
    with pytest.raises(AssertionError):
        metadata_log.write_snapshot_part(do.WriteSnapshot(OffsetAndEpoch(6, 2), 10, b"x"))


async def test_what_a_snapshot_covers_may_go(files: Files) -> None:
    metadata_log = await filled(files, snapshot_at=1)
    for number in range(8):
        append(metadata_log, b"%d" % number + b"x" * 800, epoch=2)
    end = metadata_log._log.log_end_offset
    await metadata_log.write_snapshot(OffsetAndEpoch(end - 1, 2), [b"state"])
    segments = len(list(files.directory.glob("*.log")))
    await metadata_log.advance_log_start(end - 1)
    assert metadata_log._log.log_start_offset == end - 1
    assert len(list(files.directory.glob("*.log"))) < segments
    assert [name for name in files.names if name.endswith(".checkpoint")] == [
        f"{end - 1:020d}-0000000002.checkpoint"
    ], "older snapshots too"
    _, summary, *_ = files.recovered(log_start_offset=end - 1)
    assert summary.log_start == OffsetAndEpoch(end - 1, 2)


async def test_what_snapshots_cover_goes_though_it_never_filled_a_segment(files: Files) -> None:
    """The first segment stayed until it had a GiB, and each start read all of it."""
    metadata_log = await filled(files)
    log = metadata_log._log
    for number in range(5):
        append(metadata_log, b"%d" % number, epoch=2)
        await metadata_log.flush()
        await metadata_log.write_snapshot(OffsetAndEpoch(log.log_end_offset, 2), [b"state"])
        await metadata_log.advance_log_start(log.log_end_offset)
    assert [segment.base_offset for segment in log.segments] == [log.log_end_offset]
    _, summary, *_ = files.recovered(log_start_offset=log.log_end_offset, recovery_point=log.log_end_offset)
    assert summary.log_end_offset == log.log_end_offset


@pytest.mark.parametrize(("offset", "epoch"), [(9, 4), (4, 3)], ids=["beyond the end", "another history"])
async def test_a_log_that_a_snapshot_overtook_begins_behind_it(files: Files, offset: int, epoch: int) -> None:
    metadata_log = await filled(files)
    await metadata_log.persist_election(ElectionState(4))
    await metadata_log.write_snapshot(OffsetAndEpoch(offset, epoch), [b"state"])
    again, summary, _, must_repair = files.recovered()
    assert (summary.log_start, summary.log_end_offset) == (OffsetAndEpoch(offset, epoch), offset)
    assert not must_repair
    assert everything(again) == []


async def test_a_log_that_holds_the_snapshots_end_is_kept(files: Files) -> None:
    await filled(files, snapshot_at=4)
    metadata_log, summary, _, must_repair = files.recovered()
    assert (summary.log_end_offset, must_repair) == (6, False)
    assert len(everything(metadata_log)) == 5


# -- what contradicts itself ------------------------------------------------------------------------------------------


async def test_a_log_whose_snapshot_is_lost_is_fetched_again_in_full(files: Files) -> None:
    metadata_log = await filled(files, snapshot_at=4)
    await metadata_log.advance_log_start(4)
    for snapshot in files.directory.glob("*.checkpoint"):
        snapshot.unlink()
    again, summary, election, must_repair = files.recovered(log_start_offset=4)
    assert must_repair
    assert (summary.log_start.offset, summary.log_end_offset, election.epoch) == (0, 0, 2)
    assert everything(again) == []
    assert REPAIR_MARK in files.names


async def test_a_damaged_snapshot_is_put_aside(files: Files) -> None:
    await filled(files, snapshot_at=4)
    path = next(files.directory.glob("*.checkpoint"))
    path.write_bytes(_damaged(path.read_bytes()))
    again, summary, _, must_repair = files.recovered()
    assert await again.latest_snapshot() is None
    assert (summary.log_end_offset, must_repair) == (6, False), "the log still has everything"
    assert path.with_suffix(".checkpoint.damaged").exists()
    await again.write_snapshot(OffsetAndEpoch(4, 1), [b"state"])
    await again.advance_log_start(4)
    path = next(files.directory.glob("*.checkpoint"))
    path.write_bytes(path.read_bytes()[:-5])
    _, summary, _, must_repair = files.recovered(log_start_offset=4)
    assert (summary.log_end_offset, must_repair) == (0, True), "without it the log begins nowhere"


@pytest.mark.spec("P5")
async def test_an_only_voter_with_a_damaged_log_is_refused_until_somebody_decides(files: Files) -> None:
    """Row 26 of issue 11: nobody can repair it, and it would wait for ever."""
    metadata_log = await filled(files)
    end = metadata_log._log.log_end_offset
    data = bytearray(files.segment().read_bytes())
    data[-1] ^= 1
    files.segment().write_bytes(data)
    for _start in range(2):
        with pytest.raises(StorageFailure, match=r"only voter is damaged.*remove.*needs-refetch") as refused:
            files.open(recovery_point=end).recover(is_alone=True)
        assert str(files.directory) in refused.value.message
    (files.directory / "needs-refetch").unlink()
    summary, _election, must_repair = files.open().recover(is_alone=True)
    assert (summary.log_end_offset, must_repair) == (end - 2, False), "the last batch holds two records"


async def test_an_only_voter_that_forgot_its_vote_goes_on(files: Files) -> None:
    """Nobody else was promised anything."""
    metadata_log = await filled(files)
    epoch = metadata_log._log.latest_epoch
    (files.directory / QUORUM_STATE).write_bytes(b"{")
    _summary, election, must_repair = files.open().recover(is_alone=True)
    assert (election, must_repair) == (ElectionState(epoch), False)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"leaderEpoch": 1e999}', "[1, 2]", "{"])
async def test_a_quorum_state_that_nobody_can_read_is_a_lost_one(files: Files, content: str) -> None:
    metadata_log, *_ = files.recovered()
    await metadata_log.persist_election(ElectionState(3, None, None))
    append(metadata_log, b"a")
    await metadata_log.flush()
    assert files.recovered()[2] == ElectionState(3, None, None)
    (files.directory / QUORUM_STATE).write_text(content)
    is_mended = files.recovered()[3]
    (files.directory / QUORUM_STATE).unlink()
    assert is_mended == files.recovered()[3], "it goes the way of a missing one"
    assert REPAIR_MARK in files.names


async def test_a_quorum_state_that_became_a_directory_is_written_anew(files: Files) -> None:
    metadata_log, *_ = files.recovered()
    (files.directory / QUORUM_STATE).mkdir()
    await metadata_log.persist_election(ElectionState(3, None, None))
    assert files.recovered()[2] == ElectionState(3, None, None)


# -- what nobody can tell any more ------------------------------------------------------------------------------------


@pytest.mark.spec("P5")
@pytest.mark.parametrize("content", [None, b"", b"\1" * 16], ids=["missing", "empty", "damaged"])
async def test_a_durable_end_that_is_lost_is_damage_of_the_log(files: Files, content: bytes | None) -> None:
    """With it the end of the log was cut, between two batches: a committed topic was gone, and nobody said so."""
    await filled(files)
    path = files.directory / DURABLE_END_FILE
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    data = files.segment().read_bytes()
    *_, (last, _header) = iter_batches(data)
    files.segment().write_bytes(data[:last])
    for _start in range(2):
        metadata_log, summary, _, must_repair = files.recovered()
        assert (summary.log_end_offset, must_repair) == (4, True)
    await metadata_log.remove_repair_mark()
    assert files.recovered()[3] is False


@pytest.mark.parametrize("has_registered", [False, True])
async def test_an_empty_log_of_a_former_member_without_a_durable_end_is_damaged(
    files: Files, *, has_registered: bool
) -> None:
    metadata_log = files.open()
    *_, must_repair = metadata_log.recover(has_registered=has_registered)
    assert (must_repair, metadata_log.is_new) == (has_registered, not has_registered)


async def test_a_vote_without_a_durable_end_is_of_a_log_that_is_gone(files: Files) -> None:
    metadata_log, *_ = files.recovered()
    await metadata_log.persist_election(ElectionState(2, 1, 1))
    (files.directory / DURABLE_END_FILE).unlink()
    assert files.recovered()[3] is True


async def test_the_only_voter_without_a_durable_end_is_refused_until_somebody_decides(files: Files) -> None:
    await filled(files)
    (files.directory / DURABLE_END_FILE).unlink()
    for _start in range(2):
        with pytest.raises(StorageFailure, match=r"nothing tells how far it was synced \(durable-end\).*remove"):
            files.open().recover(is_alone=True)
    (files.directory / REPAIR_MARK).unlink()
    summary, _election, must_repair = files.open().recover(is_alone=True)
    assert (summary.log_end_offset, must_repair) == (6, False)


@pytest.mark.spec("P5")
async def test_no_digit_of_a_vote_may_change(files: Files) -> None:
    await filled(files)
    path = files.directory / QUORUM_STATE
    content = path.read_bytes()
    for at in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            assert recovery_of(files)._read_election() is None


async def test_a_vote_without_a_checksum_is_read_if_it_may_be_one(files: Files) -> None:
    """As Kafka writes it, which reads the first line only."""
    await filled(files)
    path = files.directory / QUORUM_STATE
    line, _, _ = path.read_bytes().partition(b"\n")
    path.write_bytes(line)
    assert files.recovered()[2:] == (ElectionState(2, 1, 1), False)
    path.write_bytes(line.replace(b'"leaderEpoch": 2', b'"leaderEpoch": 1000000000002'))
    assert files.recovered()[2:] == (ElectionState(), True)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("byte", [7, 15], ids=["offset", "epoch"])
@pytest.mark.parametrize("is_clean", [False, True])
async def test_offsets_and_epochs_of_the_log_are_verified_at_each_start(
    files: Files, byte: int, *, is_clean: bool
) -> None:
    """A single bit of the last epoch made the log the most complete of all: it was elected, and others cut theirs."""
    metadata_log = await filled(files)
    await metadata_log.persist_election(ElectionState(9, None, None))
    if is_clean:
        metadata_log._log.close()
    data = bytearray(files.segment().read_bytes())
    *_, (last, _header) = iter_batches(data)
    data[last + byte] ^= 1
    files.segment().write_bytes(data)
    _, summary, _, must_repair = files.recovered(recovery_point=6, is_clean=is_clean)
    assert (summary.log_end_offset, must_repair) == (4, True)


@pytest.mark.spec("P5", "P6")
@pytest.mark.parametrize("is_clean", [False, True], ids=["killed", "stopped"])
async def test_no_bit_of_any_file_changes_what_a_voter_claims(files: Files, *, is_clean: bool) -> None:
    """One bit of each byte there is: what may vote has the same log and vote, and reads the same or refuses.

    Half of the bytes after a kill, the others after a stop; ``make sim VOTER=1`` damages each on a whole node.
    """
    metadata_log = await filled(files, snapshot_at=4)
    await metadata_log.persist_election(ElectionState(9, 3, None))
    if is_clean:
        metadata_log._log.close()
    whole = {path: path.read_bytes() for path in files.directory.iterdir()}
    how = {"recovery_point": 6, "is_clean": is_clean}
    promised = _promises(*files.recovered(**how))
    found = set()
    for changed, content in whole.items():
        for at in range(is_clean, len(content), 2):
            for path in files.directory.iterdir():
                path.unlink()
            for path, data in whole.items():
                path.write_bytes(data)
            changed.write_bytes(_with_bit(content, at, at % 8))
            metadata_log, summary, election, must_repair = files.recovered(**how)
            if must_repair:
                found.add(changed.suffix or changed.name)
            else:
                assert _promises(metadata_log, summary, election, False) == promised, f"{changed.name} at byte {at}"
    assert found == {".log", QUORUM_STATE, DURABLE_END_FILE}, "a snapshot that goes leaves the log, which is whole"


def _promises(
    metadata_log: MetadataLog, summary: LogSummary, election: ElectionState, must_repair: bool
) -> tuple[object, ...]:
    assert not must_repair
    return summary.end, summary.epochs, election, everything(metadata_log)


def _with_bit(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
