"""Planted bugs for crash states: each leaves out, or puts in the wrong order, one step that makes something durable."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from crash_scenarios import explore_any, explore_transactions
from planted.registry import Suite
from simulator.disk import MountedDisk

from minikafka.broker.drivers import metadata_recovery, metadata_snapshots
from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.broker.drivers.metadata_recovery import MetadataRecovery
from minikafka.broker.drivers.metadata_snapshots import decode_snapshot
from minikafka.model import NO_OFFSET
from minikafka.records.batch import iter_batches
from minikafka.records.control import control_type
from minikafka.storage import log_dir, recovery, segment, snapshots, verifying
from minikafka.storage.appending import Appender
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.directory_checkpoints import DirectoryCheckpoints
from minikafka.storage.durable_end import DurableEnd
from minikafka.storage.epochs import LeaderEpochCache
from minikafka.storage.evidence import Evidence
from minikafka.storage.flush import Flusher, FlushJob
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_ends import EndSlot, LogEnds, LogKey
from minikafka.storage.log_store import LogStore
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.producer_state import ProducerEntry, ProducerState
from minikafka.storage.recovery import _Loader
from minikafka.storage.registration import Registrations
from minikafka.storage.scan import check_place
from minikafka.storage.segment import Segment
from minikafka.storage.segment_list import Removal, Rows, SegmentList
from minikafka.storage.segment_names import MAX_OFFSET
from minikafka.storage.segments import Segments
from minikafka.storage.tail import Tail

SUITE = Suite("crash states", "files after a crash at any operation", explore_any, 1_500, (Exception,))


# Syncs


@SUITE.replaces(MountedDisk, "fsync_dir")
def directories_are_never_synced(disk: MountedDisk, path: str) -> None:
    """Files are synced, their names are not."""


@SUITE.replaces(MountedDisk, "write_atomic")
def renamed_before_it_is_synced(disk: MountedDisk, path: str, data: Any) -> None:
    """A checkpoint takes its place before its content is durable."""
    disk.write_bytes(path + ".tmp", data)
    disk.rename(path + ".tmp", path)
    disk.fsync_dir(path.rpartition("/")[0])


@SUITE.replaces(FlushJob, "run")
def the_recovery_point_moves_before_the_data_is_synced(job: FlushJob) -> None:
    """What was not synced is taken for durable, and recovery does not look at it."""
    job.is_done = True


@SUITE.replaces(Segment, "truncate")
def a_truncation_is_not_synced(segment: Segment, position: int, end_offset: int) -> int:
    """Records are appended where a power cut may bring back the old ones."""
    assert segment._file is not None
    segment._file.truncate(position)
    segment.size = position
    segment.verified = segment.verified.before(position)
    segment.index.truncate(position, end_offset)
    segment.known_aborted.truncate(end_offset)
    resumed = segment.index.resume(segment._file, position)
    reached = segment.base_offset if resumed is None else resumed
    segment.next_offset = reached
    segment.tail = Tail(reached)
    return reached


_prepare_flush = Flusher.prepare_flush


@SUITE.replaces(Flusher, "prepare_flush")
def the_name_of_a_segment_counts_as_synced_when_a_flush_begins(flusher: Flusher) -> FlushJob:
    """A flush that began later, and ends sooner, vouches for a segment whose name is not durable."""
    job = _prepare_flush(flusher)
    flusher._synced_names_version = job.names_version
    return job


@SUITE.replaces(DirectoryCheckpoints, "prepare_cut")
def a_cut_does_not_lower_the_recorded_high_watermark(
    checkpoints: DirectoryCheckpoints, tp: Any, floor: int
) -> Callable[[], None]:
    """After a kill, the log ends below what its checkpoint calls committed: it looks as if records were lost."""
    for file in checkpoints._files[:-1]:
        file.lower(tp, floor)
    return checkpoints._store


@SUITE.replaces(LogDir, "_settle")
def what_a_killed_process_left_is_not_synced(directory: LogDir) -> None:
    """A start builds on what it sees, which a power cut may still take back."""


@SUITE.replaces(Log, "lower_recorded")
def the_bounds_do_not_fall_before_a_cut(log: Log, *_bounds: int) -> Callable[[], None]:
    """After a crash, what was cut off still passes for durable."""
    return lambda: None


# Recovery


@SUITE.replaces(_Loader, "_recover")
def recovery_trusts_the_files(loader: _Loader) -> None:
    """After a crash the log is taken as it is, as after an orderly stop."""
    loader._load_epochs()
    loader._activate_believed()


@SUITE.replaces(log_dir, "remove_clean_shutdown")
def the_mark_of_an_orderly_stop_stays(disk: Any, directory: str) -> None:
    """A crash after a later start is taken for an orderly stop."""


@SUITE.replaces(DirectoryCheckpoints, "prepare_forget")
def a_topic_inherits_the_checkpoints_of_its_name(checkpoints: DirectoryCheckpoints, tp: Any) -> Callable[[], None]:
    """A topic that is made again begins with the offsets of the deleted one."""
    return lambda: None


@SUITE.replaces(LeaderEpochCache, "prepare_store")
def epochs_are_not_stored(epochs: LeaderEpochCache, disk: Any, directory: str) -> Callable[[], None]:
    """Leader epochs below the recovery point are forgotten by a restart."""
    return lambda: None


@SUITE.replaces(snapshots, "decode_snapshot")
def a_torn_producer_snapshot_is_believed(data: bytes) -> ProducerState:
    """Of a snapshot whose checksum is wrong, what can be read is taken."""
    state = ProducerState()
    body = data[snapshots._PREFIX.size :]
    for fields in snapshots._ENTRY.iter_unpack(body[: len(body) // snapshots._ENTRY.size * snapshots._ENTRY.size]):
        state.add(snapshots._entry(*fields))
    return state


_rows = snapshots._rows


@SUITE.replaces(snapshots, "_rows")
def a_snapshot_keeps_the_last_batch_only(entry: ProducerEntry) -> list[bytes]:
    """After a restart, an earlier batch that is sent again is taken for a gap, although it is in the log."""
    return _rows(entry)[-1:]


_check_gap = _Loader._check_gap


@SUITE.replaces(_Loader, "_check_gap")
def any_gap_of_a_compacted_log_is_the_cleaners(loader: _Loader, at: int) -> Any:
    """The lost end of a segment is not noticed where segments may have gaps."""
    if not loader.config.is_compacted:
        return _check_gap(loader, at)
    if at + 1 < len(loader.segments):
        loader.segments[at].next_offset = loader.segments[at + 1].base_offset
        loader.segments[at].seal()
    return None


_publish = CompactionJob.publish


@SUITE.replaces(CompactionJob, "publish")
def old_segments_go_before_the_new_ones_have_their_names(job: CompactionJob) -> None:
    """A crash in the middle of a swap leaves neither."""
    job.store_bounds()


@SUITE.replaces(CompactionJob, "publish")
def recovery_looks_at_what_was_compacted(job: CompactionJob) -> None:
    """The recovery point on disk is below the new segments, whose gaps recovery takes for losses."""
    job.store_bounds = lambda: None
    _publish(job)


# The list of segments


@SUITE.replaces(SegmentList, "take_off")
def segments_go_while_they_are_listed(segment_list: SegmentList, bases: Any, shrinking: Any = ()) -> Removal:
    """What retention, a cut or the cleaner took looks lost after a crash."""
    return Removal(frozenset(), frozenset(), lambda: None)


_take_off = SegmentList.take_off


@SUITE.replaces(SegmentList, "take_off")
def a_first_segment_goes_before_there_is_a_list(segment_list: SegmentList, bases: Any, shrinking: Any = ()) -> Removal:
    """What retention took of a log that had one segment looks lost after a crash: its epochs begin lower."""
    if segment_list._noted is not None:
        return _take_off(segment_list, bases, shrinking)
    removal = Removal(frozenset(bases), frozenset(shrinking), lambda: None)
    segment_list._removals.append(removal)
    segment_list._looked_at = -1
    return removal


@SUITE.replaces(SegmentList, "take_off")
def segments_shrink_while_their_size_is_listed(segment_list: SegmentList, bases: Any, shrinking: Any = ()) -> Removal:
    """What a cut or the cleaner left of a segment looks damaged after a crash."""
    return _take_off(segment_list, bases)


_rows_of_list = SegmentList._rows


@SUITE.replaces(SegmentList, "_rows")
def a_flush_lists_again_what_is_to_go(segment_list: SegmentList, segments: Segments, *, is_last: bool = False) -> Rows:
    """What retention or the cleaner takes looks lost after a crash, when a flush came between."""
    removals, segment_list._removals = segment_list._removals, []
    rows = _rows_of_list(segment_list, segments, is_last=is_last)
    segment_list._removals = removals
    return rows


_run_flush = FlushJob.run


@SUITE.replaces(FlushJob, "run")
def segments_are_listed_before_their_names_are_durable(job: FlushJob) -> None:
    """A power cut takes a segment that was promised to nobody, and it looks lost."""
    job.listing.store()
    _run_flush(job)


@SUITE.replaces(recovery, "check_unlisted")
def a_log_without_a_list_may_begin_anywhere(*_arguments: Any) -> None:
    """A first segment that is lost right after the first roll is not missed: the log seems to begin later."""


@SUITE.replaces(_Loader, "_may_begin_by")
def an_empty_file_is_a_log_that_begins_there(loader: _Loader) -> int:
    """A foreign file in the place of all others is the log, which seems to have expired up to there."""
    return MAX_OFFSET


# Registrations


@SUITE.plants()
def any_orderly_stop_vouches_for_the_records(patch: Any) -> None:
    """A broker that lost records and then stopped orderly continues its registration, and stays in sync."""
    patch.setattr(LogStore, "clean_shutdown_broker_epoch", AnyEpoch())


@SUITE.replaces(Registrations, "write")
def a_registration_is_not_durable(registrations: Registrations, broker_epoch: int) -> None:
    """A process serves before its registration is recorded, and is not continued when it is killed."""


class AnyEpoch:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


# Moves between directories


@SUITE.replaces(ReplicaMove, "prepare_seal")
def a_copy_takes_the_place_of_the_log_before_it_is_durable(move: ReplicaMove) -> FlushJob:
    """The log is retired when its copy is complete, not when the copy is synced."""
    move._copy_epochs()
    job = move.future.prepare_flush()
    job.files, job.small_files, job.sealed, job.paths, job.directories = (), (), (), (), ()
    return job


# The ends of logs


@SUITE.replaces(EndSlot, "note")
def the_end_of_a_log_is_not_noted(_slot: EndSlot, _end_offset: int, _epoch: int) -> None:
    """A log that lost its last records after a kill passes for whole."""


@SUITE.replaces(Log, "lower_recorded")
def the_noted_end_does_not_fall_before_a_cut(log: Log, floor: int, _end_floor: int, _start: int) -> Callable[[], None]:
    """A log that is whole is missed what was cut off on purpose."""
    return log._hooks.lower_recorded(floor)


_commit = Appender.commit


@SUITE.replaces(Appender, "commit")
def the_end_of_a_log_is_noted_before_it_is_there(appender: Appender) -> None:
    """A log that is whole is missed what a kill kept from being written."""
    log, end_offset = appender._log, appender._next_offset
    log.end_slot.note(end_offset, log.epochs.epoch_before(end_offset))
    _commit(appender)


@SUITE.replaces(recovery, "check_start")
def a_log_may_begin_behind_its_noted_beginning(*_arguments: Any) -> None:
    """The list lags behind, and the first segment is lost: the log seems to begin later."""


@SUITE.replaces(EndSlot, "note_start")
def the_noted_beginning_stays_where_files_go(slot: EndSlot, base_offset: int) -> None:
    """A log that is whole is missed what retention took, or what it dropped to begin where its leader does."""


@SUITE.replaces(LogEnds, "has_lost")
def a_log_is_missing_only_where_a_checkpoint_has_it(ends: LogEnds, key: LogKey) -> bool:
    """A replica whose directory is lost before the first checkpoint is made anew as if it had never been there."""
    return False


# Offsets, which no checksum covers


@SUITE.replaces(_Loader, "_known_end")
def the_last_batch_may_lie_behind_the_end_of_the_log(loader: _Loader, at: int) -> int | None:
    """The offset of the last batch went up: a hole that looks like the cleaner's."""
    return loader.segments[at + 1].base_offset if at + 1 < len(loader.segments) else None


@SUITE.replaces(recovery, "in_place")
def an_offset_is_believed_until_the_next_one_is_lower(batches: Any, base_offset: int, known_end: Any) -> Any:
    """Of two batches that cannot both be right the second is blamed, and what the first one says stays."""
    for position, header, _batch in batches:
        check_place(position, header, base_offset, known_end if base_offset < (known_end or 0) else MAX_OFFSET)
        yield position, header
        base_offset = header.next_offset


@SUITE.replaces(verifying, "check_behind")
def a_batch_is_read_without_a_look_at_the_next(_file: Any, _position: int, _size: int, _expected: int) -> None:
    """A batch whose offset went up is served in the place of the one behind it."""


@SUITE.replaces(Evidence, "_check_noted_epoch")
def an_epoch_is_believed_until_the_next_one_is_lower(_evidence: Evidence, _header: Any, _position: int) -> None:
    """The wrong epoch of a last batch passes for one that the next leader has there, too."""


@SUITE.replaces(LeaderEpochCache, "epoch_before")
def an_epoch_is_noted_before_its_first_batch(epochs: LeaderEpochCache, _end_offset: int) -> int:
    """A leader that is killed before its first append finds its log damaged."""
    return epochs.latest_epoch


# The quorum's files


@SUITE.replaces(MetadataLog, "persist_election", listed="vote not persisted")
async def a_vote_is_written_but_not_synced(files: MetadataLog, state: Any) -> None:
    """A node that lost power votes twice in an epoch."""
    data = repr(state.to_quorum_state()).replace("'", '"').encode()
    files._disk.write_bytes(files._path("quorum-state"), data)


@SUITE.replaces(MetadataLog, "install_snapshot")
async def the_log_goes_before_the_snapshot_is_durable(files: MetadataLog, snapshot_id: Any) -> list[bytes]:
    """A crash between the two leaves neither the records nor the snapshot."""
    data = bytes(files._part)
    files._log.truncate_fully_and_start_at(snapshot_id.offset)
    await files.flush()
    files._snapshots.store(snapshot_id, data)
    return decode_snapshot(data, snapshot_id)


@SUITE.replaces(Evidence, "must_reach")
def any_damage_to_the_quorums_log_is_a_torn_tail(_evidence: Evidence) -> int:
    """What was synced, and acknowledged, is cut as if it had not been: the node votes without it."""
    return 0


@SUITE.replaces(DurableEnd, "note")
def the_durable_end_is_noted_before_it_is_synced(durable_end: DurableEnd, offset: int) -> None:
    """A power cut takes the note back, and what went bad below it is cut as if it had never been promised."""
    if durable_end._offset is None or offset > durable_end._offset:
        durable_end._disk.write_bytes(durable_end._path, struct.pack(">qq", offset, ~offset))
        durable_end._offset = offset


@SUITE.replaces(DurableEnd, "lower")
def the_durable_end_does_not_fall_with_the_log(durable_end: DurableEnd, offset: int) -> None:
    """Records that take the place of those that were cut pass for durable before they are."""


@SUITE.replaces(MetadataLog, "flush")
async def records_count_as_synced_when_they_are_written(files: MetadataLog) -> None:
    """A node claims records of the quorum that a power cut takes from it."""


@SUITE.replaces(Evidence, "_check_place")
def a_batch_is_where_and_of_when_it_says(*_arguments: Any) -> None:
    """One bit of a batch's offset makes a gap, one of its epoch makes the log the most complete of all."""


@SUITE.plants()
def a_snapshot_may_end_anywhere(patch: Any) -> None:
    """A snapshot that was emptied, or cut between two batches, passes for a whole one: topics are gone."""

    def check(data: bytes, _snapshot_id: Any) -> list[Any]:
        return [(at, header) for at, header in iter_batches(data) if not header.is_control]

    patch.setattr(metadata_snapshots, "check_snapshot", check)


@SUITE.plants()
def a_snapshot_is_what_its_name_says(patch: Any) -> None:
    """An older snapshot under the name of a later one takes the place of the log."""
    patch.setattr(metadata_snapshots, "_check_control", lambda record, *_: control_type(record))


@SUITE.replaces(MetadataRecovery, "_has_lost_durable_end")
def a_durable_end_that_is_gone_was_never_noted(_files: Any, _durable_end: Any, *, has_registered: bool) -> bool:
    """With it goes the end of the log, between two batches, and the node votes without it."""
    return False


@SUITE.plants()
def a_vote_is_believed_as_it_is_read(patch: Any) -> None:
    """Another digit is another epoch: the node votes again where it has voted, or waits for one that never comes."""
    patch.setattr(metadata_recovery, "without_checksum", lambda data: data.splitlines()[0])


# Transactions

TRANSACTIONS = Suite(
    "crashed transactions", "open and aborted transactions after a crash", explore_transactions, 300, (Exception,)
)


@TRANSACTIONS.plants()
def an_index_of_aborted_transactions_is_written_in_place(patch: Any) -> None:
    """A power cut leaves it without its last entries, or empty, and nothing tells."""
    patch.setattr(segment, "replace_file", lambda disk, path, data: disk.write_bytes(path, data))


@TRANSACTIONS.plants()
def recovery_believes_an_index_of_aborted_transactions(patch: Any) -> None:
    """It is older than the last batches, or than the last cut."""
    headers = _Loader._unreadable_headers

    def broken(loader: Any) -> Any:
        loader.unindexed = []
        return headers(loader)

    patch.setattr(_Loader, "_unreadable_headers", broken)


@TRANSACTIONS.plants()
def a_start_recovers_no_open_transaction(patch: Any) -> None:
    """The last stable offset passes it."""
    load = snapshots.SnapshotFiles.load

    def broken(*arguments: Any, **options: Any) -> Any:
        state = load(*arguments, **options)
        for entry in state.entries:
            entry.current_txn_first_offset = NO_OFFSET
        state._ongoing.clear()
        return state

    patch.setattr(snapshots.SnapshotFiles, "load", broken)
