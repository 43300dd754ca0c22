"""Checks of the metadata quorum's files at a start.

Each file has the evidence that it is whole (decision 0016). If one is not, the voter durably marks its log for repair,
and does not vote until the leader of the quorum has repaired it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from minikafka.broker.drivers.metadata_snapshots import MetadataSnapshots
from minikafka.event_log import get_logger
from minikafka.raft import ElectionState, EpochEntry, LogSummary
from minikafka.storage.checkpoints import without_checksum
from minikafka.storage.damage import REFETCH_FILE
from minikafka.storage.disk import Disk
from minikafka.storage.durable_end import DURABLE_END_FILE, DurableEnd
from minikafka.storage.errors import Corruption, StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.small_file import UnreadableFileError, read_small_file

log = get_logger()

QUORUM_STATE: Final = "quorum-state"
REPAIR_MARK: Final = "repair-in-progress"
NEW_MARK: Final = "new-voter"
"""The directory was empty at the first start of this node. Until its log is whole, its vote counts only together with
those of all others (decision 0013)."""


class MetadataRecovery:
    """One start."""

    def __init__(self, directory: str, metadata_log: Log, disk: Disk, snapshots: MetadataSnapshots) -> None:
        self._directory = directory
        self._log = metadata_log
        self._disk = disk
        self._snapshots = snapshots
        self.is_new = False  # see NEW_MARK

    def recover(
        self, *, is_alone: bool = False, is_voter: bool = True, has_registered: bool = False
    ) -> tuple[LogSummary, ElectionState, bool]:
        """The machine's start state, and whether this node must not vote until its log is repaired.

        ``is_alone``: this node is the only voter, so no leader can repair its log; a damaged one raises StorageFailure,
        with instructions. ``has_registered``: the log directories were used by a member of the cluster.
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
        """The durable end is missing, though it is written before the first record and the first vote."""
        is_used = self._log.log_end_offset > 0 or self._disk.exists(self._path(QUORUM_STATE))
        return not durable_end.is_known and (is_used or has_registered or bool(self._snapshots.found()))

    def _mark_for_repair(self, why: str) -> None:
        mark_for_repair(self._disk, self._directory, why)

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
        """Summary of log and snapshots; None when they contradict each other."""
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
            log.error("the metadata log contradicts itself; all of it is fetched again", why=str(error))
            return None

    def _read_election(self) -> ElectionState | None:
        """This node's votes; None when they are unknown or lost."""
        path = self._path(QUORUM_STATE)
        try:
            return ElectionState.from_quorum_state(json.loads(without_checksum(read_small_file(self._disk, path))))
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError, RecursionError) as error:
            log.error("quorum-state cannot be read", path=path, why=str(error))
            return None

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


def mark_for_repair(disk: Disk, directory: str, why: str) -> None:
    """Write the mark durably, before any evidence of the damage is removed."""
    if not disk.exists(f"{directory}/{REPAIR_MARK}"):
        log.error("the metadata log must be repaired", directory=directory, why=why)
        disk.write_atomic(f"{directory}/{REPAIR_MARK}", f"{why}\n".encode())


def mark_missing(disk: Disk, directory: str, left_out: Sequence[str] = ()) -> None:
    """The metadata log in ``directory`` is missing: a new one must be repaired before this node votes. Durable.

    ``left_out``: where it may be instead.
    """
    why = f"it is missing; log.dirs named {', '.join(left_out)}, too, where it may be" if left_out else "it is missing"
    disk.mkdir(directory)
    disk.write_atomic(f"{directory}/{REPAIR_MARK}", f"{why}\n".encode())
