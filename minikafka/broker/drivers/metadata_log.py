"""The metadata quorum's files: the log ``__cluster_metadata-0``, its snapshots, and ``quorum-state``.

The log is an ordinary one; the value of each record is an encoded metadata record. Snapshots are in
:mod:`.metadata_snapshots`. Everything the quorum relies on is fsynced before the promise that depends on it leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from minikafka.broker.drivers.metadata_batches import CommittedBatch, batch_spans
from minikafka.broker.drivers.metadata_recovery import NEW_MARK, QUORUM_STATE, REPAIR_MARK, MetadataRecovery
from minikafka.broker.drivers.metadata_snapshots import (
    DamagedSnapshotError,
    MetadataSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from minikafka.broker.threads import RunInThread, patiently, run_job
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, OffsetAndEpoch
from minikafka.raft import BatchSpan, ElectionState, LogSummary, Snapshot
from minikafka.raft import effects as do
from minikafka.records.batch import iter_batches, parse_header
from minikafka.records.build import BatchBuilder
from minikafka.records.control import build_leader_change
from minikafka.storage.aside import replace_file
from minikafka.storage.checkpoints import with_checksum
from minikafka.storage.disk import Disk
from minikafka.storage.errors import BadBatchError, StorageFailure, is_passing
from minikafka.storage.log import Log

APPLIED_BYTES: Final = 1 << 18
"""Read at once for who applies what is committed."""


class DamagedMetadataLogError(StorageFailure):
    """A part of the metadata log or its snapshots cannot be read, or fails its checksum, in a running node.

    The node must not go on as a voter. At its next start it cuts its log at the damage and does not vote until the
    leader of the quorum has repaired the log.
    """


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
        """See :meth:`.MetadataRecovery.recover`."""
        recovery = MetadataRecovery(self._directory, self._log, self._disk, self._snapshots)
        found = recovery.recover(is_alone=is_alone, is_voter=is_voter, has_registered=has_registered)
        self.is_new = recovery.is_new
        return found

    # -- the log ----------------------------------------------------------------------------------------------------

    def append(self, effect: do.Append | do.AppendLeaderChange | do.AppendFetched) -> None:
        """Write the machine's append, without a sync."""
        assert effect.base_offset == self._log.log_end_offset, f"{effect.base_offset} != {self._log.log_end_offset}"
        match effect:
            case do.AppendFetched():
                self._log.append_as_follower(memoryview(bytearray(effect.records)))
            case do.Append():
                now_ms = self._wall_ms()
                builder = BatchBuilder()
                for value in effect.values:  # 42,000 when a broker fails that has as many replicas
                    builder.append(None, value, now_ms)
                self._append_as_leader(builder.build(), effect.epoch)
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
        """Make everything appended so far durable. StorageFailure; it is not tried again, but for want of something."""
        job = self._log.prepare_flush()
        await run_job(self._run_in_thread, job)
        self._log.complete_flush(job)

    async def truncate_to(self, offset: int) -> None:
        """Drop records at and above ``offset``, durably."""
        job = self._log.prepare_truncation(offset)
        if job is not None:
            await run_job(self._run_in_thread, job)
            self._log.complete_cut(job)
        await self.flush()

    async def advance_log_start(self, offset: int) -> None:
        """Drop records below ``offset`` and the snapshots below it.

        A segment goes as a whole. So one begins here, or the first would grow to a GiB, and each start reads it all.
        """
        self._log.maybe_increment_log_start_offset(offset)
        self._log.roll()
        job = self._log.prepare_deletion(self._log.log_end_offset, self._wall_ms())
        if job is not None:
            await self._run_in_thread(job.run)
            self._log.complete_deletion(job)
        self._snapshots.remove(below=offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from ``offset`` on: at least one, or none at the log end. A batch must begin at ``offset``.

        KafkaError(INVALID_REQUEST) when ``offset`` is inside a batch. DamagedMetadataLogError when the log is damaged;
        other KafkaErrors and OSErrors are no sign of damage.
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
        """Bytes from the batch with ``offset`` on. ValueError when the file is shorter than it should be."""
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
        """``offset`` is inside a batch with a right base offset (not at the start of a batch with a wrong one).

        A batch with a wrong base offset is not found at that offset: the batch before it is there, and ends below
        ``offset``.
        """
        if not self._log.log_start_offset <= span.base_offset < offset <= span.last_offset:
            return False
        return batch_spans(self._bytes_at(span.base_offset, 1))[:1] == [span]

    def _check(self, spans: Sequence[BatchSpan], offset: int) -> None:
        """ValueError unless these are the batches from ``offset`` on.

        Even batches of this process are checked: they are few, and the whole cluster depends on them.
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
        """Mark the log as damaged, and return the error."""
        segment = self._log.segments.since(offset)[0]
        self._log.mark_damaged(segment, BadBatchError(0, why))
        return DamagedMetadataLogError(
            f"{self._log.topic_partition} cannot be read at offset {offset}: {why}. The node starts again, and the "
            "leader of the quorum repairs its log; the only voter says what to do"
        )

    def batches(self, start_offset: int, end_offset: int) -> Iterator[CommittedBatch]:
        """The batches from ``start_offset``, where one begins, that end at or below ``end_offset``.

        DamagedMetadataLogError when the log ends before, and as for :meth:`read`.
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
        """A part of a snapshot's file. DamagedMetadataLogError, before the first part, if the file is damaged."""
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
        """The received snapshot is complete: keep it, and start the log after it. Returns its record values."""
        data, self._part = bytes(self._part), bytearray()
        try:
            values: list[bytes] = await self._run_in_thread(lambda: decode_snapshot(data, snapshot_id))
        except DamagedSnapshotError as error:
            raise DamagedMetadataLogError(
                f"the snapshot {snapshot_id.offset} that came from the quorum's leader is damaged: {error}. The node "
                "starts again, and asks for it once more"
            ) from error
        await patiently(lambda: self._run_in_thread(lambda: self._snapshots.store(snapshot_id, data)))
        job = self._log.prepare_restart(snapshot_id.offset)
        await run_job(self._run_in_thread, job)
        self._log.complete_cut(job)
        await self.flush()
        return values

    # -- small files ------------------------------------------------------------------------------------------------

    async def persist_election(self, state: ElectionState) -> None:
        """Replace ``quorum-state``, durably."""
        data = with_checksum(json.dumps(state.to_quorum_state()).encode() + b"\n")
        path = self._path(QUORUM_STATE)
        await patiently(lambda: self._run_in_thread(lambda: replace_file(self._disk, path, data)))

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
