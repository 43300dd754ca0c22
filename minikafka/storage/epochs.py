"""The leader-epoch cache of a log (KIP-101; rows E1, E2).

Entries (epoch, start offset) grow strictly in both. An entry is made when the first batch of an epoch is appended, on
leader and followers alike, and entries are cut together with the log at both ends.

``leader-epoch-checkpoint`` is durable for every entry that starts below the log's recovery point. Later entries need
no file: an unclean start scans the batches from there and finds their epochs in the headers. So an append never waits
for an fsync on account of its epoch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from minikafka.event_log import get_logger
from minikafka.model import NO_EPOCH, UNDEFINED_OFFSET_AND_EPOCH, OffsetAndEpoch
from minikafka.storage.checkpoints import DamagedCheckpointError, format_checkpoint, parse_checkpoint, parse_number
from minikafka.storage.disk import Disk
from minikafka.storage.small_file import SmallFile, read_small_file

FILE_NAME = "leader-epoch-checkpoint"

log = get_logger()


class EpochEntry(NamedTuple):
    """The first offset written in a leader epoch."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """Start offset of each leader epoch. ``latest_epoch`` is -1 without entries."""

    __slots__ = ("_epochs", "_file", "_starts", "_version", "latest_epoch")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self._epochs = [entry.epoch for entry in entries or ()]
        self._starts = [entry.start_offset for entry in entries or ()]
        self._version = 0
        self._file: SmallFile | None = None
        self._update()

    @classmethod
    def load(cls, disk: Disk, directory: str) -> LeaderEpochCache | None:
        """The cache of a partition directory; None when its file is unreadable or absent."""
        path = f"{directory}/{FILE_NAME}"
        try:
            return cls(parse_epochs(read_small_file(disk, path)))
        except FileNotFoundError:
            return None
        except (DamagedCheckpointError, ValueError) as error:
            log.warning("leader epochs unreadable", path=path, why=str(error), effect="the batches tell them")
            return None

    def store(self, disk: Disk, directory: str) -> None:
        """Write the file durably if entries changed since it was written."""
        self.prepare_store(disk, directory)()

    def prepare_store(self, disk: Disk, directory: str) -> Callable[[], None]:
        """The same for the present entries, as a function for any thread."""
        path = f"{directory}/{FILE_NAME}"
        if self._file is None or self._file.path != path:
            self._file = SmallFile(disk, path)
        rows = zip(map(str, self._epochs), map(str, self._starts), strict=True)
        return partial(self._file.store, self._version, format_checkpoint(rows))

    @property
    def entries(self) -> list[EpochEntry]:
        """A copy of the entries, oldest first."""
        return list(map(EpochEntry, self._epochs, self._starts))

    def assign(self, epoch: int, start_offset: int) -> None:
        """``epoch`` begins at ``start_offset``; entries that contradict it are dropped. No effect for the latest."""
        if epoch == self.latest_epoch:
            return
        assert epoch >= 0
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._cut_end(keep)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch:
        """Row E2: the largest known epoch <= ``epoch`` and its end offset; (-1, -1) when undefined."""
        if epoch == NO_EPOCH or epoch > self.latest_epoch or not self._epochs:
            return UNDEFINED_OFFSET_AND_EPOCH
        if epoch == self.latest_epoch:
            return OffsetAndEpoch(log_end_offset, epoch)
        after = bisect_right(self._epochs, epoch)
        if after == 0:
            return OffsetAndEpoch(self._starts[0], epoch)
        return OffsetAndEpoch(self._starts[after], self._epochs[after - 1])

    def epoch_for(self, offset: int) -> int:
        """The epoch that ``offset`` was, or would be, written in; -1 when it is older than all entries."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def epoch_before(self, end_offset: int) -> int:
        """The epoch of the last batch before ``end_offset``; -1 when that is older than all entries."""
        if self._starts and self._starts[-1] < end_offset:
            return self.latest_epoch
        return self.epoch_for(end_offset - 1)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at ``end_offset``."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._cut_end(keep)
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at ``start_offset``: the epoch that holds it begins there."""
        at = bisect_right(self._starts, start_offset) - 1
        if at < 0 or (at == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:at]
        del self._starts[:at]
        self._starts[0] = start_offset
        self._changed()

    def clear(self) -> None:
        """The log was replaced."""
        if self._epochs:
            self._cut_end(0)
            self._changed()

    def _cut_end(self, keep: int) -> None:
        del self._epochs[keep:]
        del self._starts[keep:]

    def _changed(self) -> None:
        self._version += 1
        self._update()

    def _update(self) -> None:
        self.latest_epoch = self._epochs[-1] if self._epochs else NO_EPOCH


def parse_epochs(data: bytes) -> list[EpochEntry]:
    """The entries in the file; ValueError when it is damaged."""
    entries = [
        EpochEntry(parse_number(epoch, 32), parse_number(start_offset, 64))
        for epoch, start_offset in parse_checkpoint(data)
    ]
    if not all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries)):
        raise DamagedCheckpointError("epochs and offsets do not grow")
    return entries
