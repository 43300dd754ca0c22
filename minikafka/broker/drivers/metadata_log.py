"""The metadata quorum's files: the log ``__cluster_metadata-0``, its snapshots, and ``quorum-state``.

The log is an ordinary one; the value of each record is an encoded metadata record. Snapshots are in
:mod:`.metadata_snapshots`. Everything the quorum relies on is fsynced before the promise that depends on it leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import structlog

from minikafka.broker.drivers.metadata_snapshots import (
    DamagedSnapshotError,
    MetadataSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from minikafka.broker.threads import RunInThread
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, OffsetAndEpoch
from minikafka.raft import BatchSpan, ElectionState, EpochEntry, LogSummary, Snapshot
from minikafka.raft import effects as do
from minikafka.records.batch import BatchHeader, crc_is_valid, iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.control import build_leader_change
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage.aside import replace_file
from minikafka.storage.checkpoints import with_checksum, without_checksum
from minikafka.storage.damage import REFETCH_FILE
from minikafka.storage.disk import Disk
from minikafka.storage.durable_end import DURABLE_END_FILE, DurableEnd
from minikafka.storage.errors import BadBatchError, Corruption, StorageFailure, is_passing
from minikafka.storage.log import Log
from minikafka.storage.small_file import UnreadableFileError, read_small_file

log = structlog.get_logger(__name__)

QUORUM_STATE: Final = "quorum-state"
REPAIR_MARK: Final = "repair-in-progress"
NEW_MARK: Final = "new-voter"
"""Nothing was here when this node first started: its vote counts only beside those of all others until its log is whole
(decision 0013)."""
APPLIED_BYTES: Final = 1 << 18
"""Read at once for who applies what is committed."""


class DamagedMetadataLogError(StorageFailure):
    """What a running node needs of the metadata log or its snapshots cannot be read, or fails its checksum.

    The node must not go on as a voter, nor serve what it cannot read. When it starts again it cuts its log where the
    damage begins, does not vote, and has the leader of the quorum repair it.
    """


class CommittedBatch(NamedTuple):
    """What is atomic: the records of one command, or none in a control batch."""

    next_offset: int
    leader_epoch: int
    values: Sequence[bytes]

    @classmethod
    def of(cls, data: bytes, position: int, header: BatchHeader) -> CommittedBatch:
        """The batch at ``position``. A record of metadata always has a value."""
        records = () if header.is_control else iter_records(data, position, header)
        values = [record.value for record in records if record.value is not None]
        return cls(header.next_offset, header.leader_epoch, values)


class MetadataLog:
    """Files in ``directory``. What the quorum waits for is done in ``run_in_thread``, in turn; a snapshot, which may
    be large, ``beside`` it."""

    def __init__(
        self,
        directory: str,
        metadata_log: Log,
        disk: Disk,
        run_in_thread: RunInThread,
        beside: RunInThread,
        wall_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._log = metadata_log
        self._snapshots = MetadataSnapshots(disk, directory)
        self._disk = disk
        self._run_in_thread = run_in_thread
        self._run_beside = beside
        self._wall_ms = wall_ms
        self._part: bytearray = bytearray()
        self.is_new = False  # see NEW_MARK; known after recover

    # -- recovery ---------------------------------------------------------------------------------------------------

    def recover(
        self, *, is_alone: bool = False, is_voter: bool = True, has_registered: bool = False
    ) -> tuple[LogSummary, ElectionState, bool]:
        """What the machine starts from, and whether this node must not vote until its log is repaired.

        ``is_alone``: it is the only voter, and nobody can repair its log; StorageFailure, with what to do, when it is
        damaged. ``has_registered``: a node that used the log directories was a member of the cluster.
        """
        election = self._read_election()
        self._snapshots.put_damaged_aside()
        damage = self._log.corruption
        if self._log.durable_end is not None:
            if self._has_lost_durable_end(self._log.durable_end, has_registered=has_registered):
                self._mark_for_repair(f"nothing tells how far it was synced ({DURABLE_END_FILE})")
            self._log.durable_end.begin()
        self._log.flush()  # the name of the directory too: a vote in a directory that is lost was not given
        if is_alone:
            self._check_alone(damage)
        if damage is not None:
            log.error("the metadata log is damaged; it is fetched again from there on", why=str(damage))
            self._log.truncate_to(damage.offset)
            self._mark_for_repair(str(damage))
        summary = self._summary()
        if summary is None:
            if is_alone:
                raise self._beyond_repair("its snapshots and its log contradict each other")
            self._mark_for_repair("its snapshots and its log contradict each other")
            self._log.truncate_fully_and_start_at(0)
            summary = LogSummary()
        if summary.log_end_offset > 0 and (election is None or election.epoch < summary.last_epoch):
            if is_alone:  # nobody else was promised anything
                election = ElectionState(summary.last_epoch)
            else:
                self._mark_for_repair(f"its votes are not known ({QUORUM_STATE})")
        must_repair = self._disk.exists(self._path(REPAIR_MARK))
        if is_voter and not is_alone:
            is_blank = summary.log_end_offset == 0 and election is None and not must_repair
            self.is_new = self._note_new(is_blank=is_blank)
        if must_repair:
            log.error(
                "this node does not vote until the quorum's leader has repaired its metadata log",
                directory=self._directory,
                remedy="if most voters say so, none can be elected: see 'No controller' in docs/operations.md",
            )
        return summary, election or ElectionState(), must_repair

    def _has_lost_durable_end(self, durable_end: DurableEnd, *, has_registered: bool) -> bool:
        """It is noted from a start on that finds nothing, before the first record and the first vote."""
        is_used = self._log.log_end_offset > 0 or self._disk.exists(self._path(QUORUM_STATE))
        return not durable_end.is_known and (is_used or has_registered or bool(self._snapshots.found()))

    def _mark_for_repair(self, why: str) -> None:
        """Durable, before anything that tells of the damage goes."""
        if not self._disk.exists(self._path(REPAIR_MARK)):
            log.error("the metadata log must be repaired", directory=self._directory, why=why)
            self._disk.write_atomic(self._path(REPAIR_MARK), f"{why}\n".encode())

    def _note_new(self, *, is_blank: bool) -> bool:
        if is_blank and not self._disk.exists(self._path(NEW_MARK)):
            self._disk.write_atomic(self._path(NEW_MARK), b"")
        return self._disk.exists(self._path(NEW_MARK))

    def _check_alone(self, damage: Corruption | None) -> None:
        if damage is not None:
            raise self._beyond_repair(str(damage))
        if self._disk.exists(self._path(REPAIR_MARK)):
            try:
                why = read_small_file(self._disk, self._path(REPAIR_MARK)).decode(errors="replace").strip()
            except UnreadableFileError as error:
                why = str(error)
            raise self._beyond_repair(f"{why or 'it was found damaged before'} ({REPAIR_MARK})")

    def _beyond_repair(self, why: str) -> StorageFailure:
        return StorageFailure(
            f"the metadata log of the only voter is damaged, and no other voter can repair it: {why}. Restore "
            f"{self._directory} from a backup. Or remove the files {REFETCH_FILE} and {REPAIR_MARK} in it, and start "
            "the node again: it goes on with what is left, and later changes of topics and settings are lost"
        )

    def _summary(self) -> LogSummary | None:
        """What log and snapshots are together; None when they contradict each other."""
        snapshots = self._snapshots.found()
        if snapshots:
            offset, epoch = snapshots[-1].snapshot_id
            end, start = self._log.log_end_offset, self._log.log_start_offset
            if end < offset or (start < offset and self._log.epoch_for_offset(offset - 1) != epoch):
                self._log.truncate_fully_and_start_at(offset)
        epochs = [EpochEntry(entry.epoch, entry.start_offset) for entry in self._log.epoch_entries]
        try:
            return LogSummary.recovered(self._log.log_end_offset, epochs, self._log.log_start_offset, snapshots)
        except ValueError as error:
            log.error("the metadata log makes no sense; all of it is fetched again", why=str(error))
            return None

    def _read_election(self) -> ElectionState | None:
        """What this node promised; None when that is not known (any more)."""
        path = self._path(QUORUM_STATE)
        try:
            return ElectionState.from_quorum_state(json.loads(without_checksum(read_small_file(self._disk, path))))
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError, RecursionError) as error:
            log.error("quorum-state cannot be read", path=path, why=str(error))
            return None

    # -- the log ----------------------------------------------------------------------------------------------------

    def append(self, effect: do.Append | do.AppendLeaderChange | do.AppendFetched) -> None:
        """Write what the machine decided; not fsynced yet."""
        assert effect.base_offset == self._log.log_end_offset, f"{effect.base_offset} != {self._log.log_end_offset}"
        match effect:
            case do.AppendFetched():
                self._log.append_as_follower(memoryview(bytearray(effect.records)))
            case do.Append():
                now_ms = self._wall_ms()
                records = [Record(index, now_ms, None, value) for index, value in enumerate(effect.values)]
                self._append_as_leader(build_batch(records), effect.epoch)
            case do.AppendLeaderChange():
                batch = build_leader_change(
                    effect.leader,
                    effect.voters,
                    effect.granted_by,
                    timestamp=self._wall_ms(),
                    base_offset=effect.base_offset,
                    leader_epoch=effect.epoch,
                )
                self._append_as_leader(batch, effect.epoch)
        assert self._log.log_end_offset == effect.end.offset

    def _append_as_leader(self, batch: bytearray, epoch: int) -> None:
        view = memoryview(batch)
        self._log.stage(view, parse_header(view), leader_epoch=epoch, wall_ms=self._wall_ms())
        self._log.commit()

    async def flush(self) -> None:
        """Make everything appended so far durable. Raises OSError; it is not tried again."""
        job = self._log.prepare_flush()
        await self._run_in_thread(job.run)
        self._log.complete_flush(job)

    async def truncate_to(self, offset: int) -> None:
        """Drop records at and above ``offset``, durably."""
        job = self._log.prepare_truncation(offset)
        if job is not None:
            await self._run_in_thread(job.run)
            self._log.complete_cut(job)
        await self.flush()

    async def advance_log_start(self, offset: int) -> None:
        """Drop records below ``offset`` and the snapshots below it."""
        self._log.maybe_increment_log_start_offset(offset)
        job = self._log.prepare_deletion(self._log.log_end_offset, self._wall_ms())
        if job is not None:
            await self._run_in_thread(job.run)
            self._log.complete_deletion(job)
        self._snapshots.remove(below=offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from ``offset`` on, where one begins; at least one, but none at the end of the log.

        KafkaError(INVALID_REQUEST) where ``offset`` is inside a batch. DamagedMetadataLogError where the log is
        damaged; other KafkaErrors and OSErrors say nothing about it.
        """
        if offset >= self._log.log_end_offset:
            return b""
        try:
            data = self._bytes_at(offset, max_bytes)
            spans = batch_spans(data)
            is_inside = bool(spans) and self._holds(spans[0], offset)
            if not is_inside:
                self._check(spans, offset)
        except ValueError as error:
            raise self._damaged(offset, str(error)) from error
        if is_inside:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"offset {offset} of the metadata log is inside {spans[0]}")
        return data

    def _bytes_at(self, offset: int, max_bytes: int) -> bytes:
        """From the batch that holds ``offset`` on. ValueError where the file does not give what should be there."""
        try:
            region = self._log.read(offset, max_bytes, max_offset=self._log.log_end_offset, min_one_batch=True)
            try:
                data, size = region.read(), len(region)
            finally:
                region.release()
        except (KafkaError, OSError) as error:
            if not _is_about_files(error):
                raise
            raise ValueError(str(error)) from error
        if len(data) < size:  # also where nothing is left of a batch, or of its beginning
            raise ValueError(f"the file was cut, {size - len(data)} bytes are missing")
        return data

    def _holds(self, span: BatchSpan, offset: int) -> bool:
        """Whether ``offset`` is inside of a batch that begins where it says, rather than where one begins that lies.

        Looked for where it says that it begins, a batch whose base offset went wrong is not found: the one before it
        is there, and ends below ``offset``.
        """
        if not self._log.log_start_offset <= span.base_offset < offset <= span.last_offset:
            return False
        return batch_spans(self._bytes_at(span.base_offset, 1))[:1] == [span]

    def _check(self, spans: Sequence[BatchSpan], offset: int) -> None:
        """ValueError unless these are the batches from ``offset`` on, where one begins, whoever wrote them.

        They are few, and the whole cluster follows them: what this process wrote itself is not believed either.
        """
        for span in spans:
            epoch = self._log.epoch_for_offset(offset)
            if span.base_offset != offset or epoch not in (span.leader_epoch, NO_EPOCH):
                raise ValueError(
                    f"a batch at offset {span.base_offset} of epoch {span.leader_epoch} is where one at {offset} of "
                    f"epoch {epoch} was"
                )
            offset = span.last_offset + 1

    def _damaged(self, offset: int, why: str) -> DamagedMetadataLogError:
        """Mark the log, and say what comes of it."""
        segment = self._log.segments.since(offset)[0]
        self._log.mark_damaged(segment, BadBatchError(0, why))
        return DamagedMetadataLogError(
            f"{self._log.topic_partition} cannot be read at offset {offset}: {why}. The node starts again, and the "
            "leader of the quorum repairs its log; the only voter says what to do"
        )

    def batches(self, start_offset: int, end_offset: int) -> Iterator[CommittedBatch]:
        """The batches from ``start_offset``, where one begins, that end at or below ``end_offset``.

        DamagedMetadataLogError where the log does not reach so far, and as :meth:`read`.
        """
        offset = start_offset
        while offset < end_offset:
            data = self.read(offset, APPLIED_BYTES)
            if not data:  # it would be asked for again and again
                raise self._damaged(offset, f"it ends at {self._log.log_end_offset}, and {end_offset} is committed")
            for position, header in iter_batches(data):
                if header.next_offset > end_offset:
                    return
                yield CommittedBatch.of(data, position, header)
                offset = header.next_offset

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record just below ``offset``."""
        return self._log.epoch_for_offset(offset - 1)

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def latest_snapshot(self) -> tuple[OffsetAndEpoch, list[bytes]] | None:
        """The newest finished snapshot's id and record values."""
        found = self._snapshots.found()
        if not found:
            return None
        snapshot_id = found[-1].snapshot_id
        values: list[bytes] = await self._run_in_thread(lambda: self._snapshots.load(snapshot_id))
        return snapshot_id, values

    async def write_snapshot(self, snapshot_id: OffsetAndEpoch, values: Iterable[bytes]) -> Snapshot:
        """Write a snapshot of the applied state, durably. ``values`` are made in a thread."""
        now_ms = self._wall_ms()

        def write() -> int:
            data = encode_snapshot(snapshot_id, list(values), now_ms)
            self._snapshots.store(snapshot_id, data)
            return len(data)

        size: int = await self._run_beside(write)
        return Snapshot(snapshot_id, size)

    async def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """A part of a snapshot's file. DamagedMetadataLogError, before the first part leaves, if it is damaged."""
        try:
            read: bytes = await self._run_in_thread(lambda: self._snapshots.read(snapshot_id, position, max_bytes))
            return read
        except DamagedSnapshotError as error:
            raise DamagedMetadataLogError(
                f"the metadata snapshot {snapshot_id.offset}-{snapshot_id.epoch} in {self._directory} cannot be read: "
                f"{error}. The node starts again, and puts it aside"
            ) from error

    def write_snapshot_part(self, effect: do.WriteSnapshot) -> None:
        """A part of a snapshot that is being received; it reaches the disk when it is complete."""
        if effect.position == 0:
            self._part = bytearray()
        assert len(self._part) == effect.position
        self._part += effect.data

    async def install_snapshot(self, snapshot_id: OffsetAndEpoch) -> list[bytes]:
        """The received snapshot is complete: keep it, and let the log begin behind it. Its record values."""
        data, self._part = bytes(self._part), bytearray()
        try:
            values: list[bytes] = await self._run_in_thread(lambda: decode_snapshot(data, snapshot_id))
        except DamagedSnapshotError as error:
            raise DamagedMetadataLogError(
                f"the snapshot {snapshot_id.offset} that came from the quorum's leader is damaged: {error}. The node "
                "starts again, and asks for it once more"
            ) from error
        await self._run_in_thread(lambda: self._snapshots.store(snapshot_id, data))
        job = self._log.prepare_restart(snapshot_id.offset)
        await self._run_in_thread(job.run)
        self._log.complete_cut(job)
        await self.flush()
        return values

    # -- small files ------------------------------------------------------------------------------------------------

    async def persist_election(self, state: ElectionState) -> None:
        """Replace ``quorum-state``, durably."""
        data = with_checksum(json.dumps(state.to_quorum_state()).encode() + b"\n")
        await self._run_in_thread(lambda: replace_file(self._disk, self._path(QUORUM_STATE), data))

    async def remove_repair_mark(self) -> None:
        """The damaged log, or that of a new voter, is whole."""
        self._log.refetched()
        marks = [path for name in (REPAIR_MARK, NEW_MARK) if self._disk.exists(path := self._path(name))]
        for path in marks:
            self._disk.unlink(path)
        if marks:
            await self._run_in_thread(lambda: self._disk.fsync_dir(self._directory))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


def _is_about_files(error: KafkaError | OSError) -> bool:
    """False when the log is offline or being cut, or the process is short of something."""
    if isinstance(error, KafkaError):
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or isinstance(error, StorageFailure):
            return False
        return not (isinstance(error.__cause__, OSError) and is_passing(error.__cause__))
    return not is_passing(error)


def mark_missing(disk: Disk, directory: str) -> None:
    """There was a metadata log in ``directory``: one made anew does not vote before it was repaired. Durable."""
    disk.mkdir(directory)
    disk.write_atomic(f"{directory}/{REPAIR_MARK}", b"it is missing\n")


def batch_spans(data: bytes) -> list[BatchSpan]:
    """Check fetched batches and say where they belong; ValueError when they are damaged or incomplete."""
    spans, end = [], 0
    view = memoryview(data)
    try:
        for position, header in iter_batches(view):
            if not crc_is_valid(view, position, header):
                raise ValueError(f"the batch at offset {header.base_offset} has a wrong checksum")
            spans.append(BatchSpan(header.base_offset, header.last_offset, header.leader_epoch))
            end = position + header.size_in_bytes
    except KafkaError as error:
        raise ValueError(error.message) from error
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes behind the last whole batch")
    return spans
