"""Producer snapshots and aborted transactions of a log, against its batches.

The batches are replayed as a start does. What a snapshot or an index says is compared only where the replay knows
everything: from offset 0 on, or behind a snapshot, in a log without gaps and damage.
"""

from __future__ import annotations

from bisect import bisect_right

from minikafka.errors import KafkaError
from minikafka.model import NO_OFFSET
from minikafka.records.batch import BatchHeader, Buffer
from minikafka.storage.disk import Disk
from minikafka.storage.examination.findings import Findings
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.segment_names import SNAPSHOT_SUFFIX, file_name
from minikafka.storage.small_file import read_small_file
from minikafka.storage.snapshots import DamagedSnapshotError, decode_snapshot, replay
from minikafka.storage.transaction_index import AbortedTransaction


class ProducerCheck:
    """Replays the batches of one log. ``begin``: base offset of the first segment; ``log_start``: may lie inside it;
    ``is_judged``: False beside a running node, whose newest snapshot may be half written."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshots: list[int],
        begin: int,
        log_start: int,
        findings: Findings,
        *,
        is_judged: bool,
    ) -> None:
        self._findings = findings
        self._state = ProducerState()
        self._states: dict[int, ProducerState] = {}  # what each readable snapshot says
        self._directory = directory
        self._begin = begin
        self.log_start = max(begin, log_start)
        """A transaction from before it may have no record left: a start finds it to be over, or to begin later. A
        start, or a cut, may also read no batch before it."""
        self.is_complete = begin == 0
        """The replay knows all producers that wrote since ``begin``, and none is left open from before."""
        for offset in snapshots:
            path = self._path(offset)
            try:
                self._states[offset] = decode_snapshot(read_small_file(disk, path))
            except FileNotFoundError:
                continue  # of a running node
            except (DamagedSnapshotError, ValueError) as error:
                if is_judged or offset != snapshots[-1]:
                    findings.mended(path, f"unreadable ({error}); more of the log is replayed")
        if begin in self._states:  # what wrote before the log begins
            self._state = self._states.pop(begin)
            self.is_complete = True
        self._pending = sorted(self._states)
        self._aborted: list[AbortedTransaction] = []

    def distrust(self) -> None:
        """A gap or damage: from here on the replay may lack something."""
        self.is_complete = False

    def see(self, header: BatchHeader, batch: Buffer) -> None:
        """The next batch."""
        self.reach(header.base_offset)
        try:
            aborted = replay(self._state, header, batch)
        except (KafkaError, KeyError):
            self.distrust()
            return
        if aborted is not None:
            self._aborted.append(aborted)

    def reach(self, offset: int) -> None:
        """Compare the snapshots up to this offset."""
        due = bisect_right(self._pending, offset)
        for at in self._pending[:due]:
            if self.is_complete:
                self._compare(at, self._states[at])
            del self._states[at]
        del self._pending[:due]

    def take_aborted(self) -> list[AbortedTransaction]:
        """The transactions that were aborted since the last call."""
        aborted, self._aborted = self._aborted, []
        return aborted

    def _compare(self, offset: int, said: ProducerState) -> None:
        for entry in said.entries:
            ours = self._state.get(entry.producer_id)
            if NO_OFFSET < entry.last_offset < self._begin:
                continue
            if ours is None:
                if entry.last_offset != NO_OFFSET:
                    what = f"producer {entry.producer_id}: last offset {entry.last_offset}; the log has no batch of it"
                    self._findings.damage(self._path(offset), what)
                continue
            last_offset, first_offset = ours.last_offset, ours.current_txn_first_offset
            if NO_OFFSET < first_offset < self.log_start:  # see there
                first_offset = entry.current_txn_first_offset
            if entry.last_offset == NO_OFFSET and last_offset < self.log_start:
                last_offset = NO_OFFSET
            expected = (ours.epoch, last_offset, first_offset)
            told = (entry.epoch, entry.last_offset, entry.current_txn_first_offset)
            if told != expected:
                what = "producer {}: epoch {}, last offset {}, open transaction from {}; the log says {}, {}, {}"
                self._findings.damage(self._path(offset), what.format(entry.producer_id, *told, *expected))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset)}{SNAPSHOT_SUFFIX}"
