"""The receiving end of a snapshot's transfer (KIP-630): pieces in order, from position 0 to its size."""

from __future__ import annotations

from minikafka.model import OffsetAndEpoch
from minikafka.raft.core import Core
from minikafka.raft.effects import WriteSnapshot
from minikafka.raft.log import Snapshot
from minikafka.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse


class SnapshotDownload:
    """A snapshot that is being fetched. A change of role drops it; the next one starts at 0."""

    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        self._position = 0
        self._size: int | None = None

    def request(self, core: Core) -> FetchSnapshotRequest:
        """The request for the next piece."""
        return FetchSnapshotRequest(
            core.cluster_id,
            core.node_id,
            core.epoch,
            self.snapshot_id,
            self._position,
            core.config.snapshot_chunk_bytes,
        )

    def accepts(self, response: FetchSnapshotResponse) -> bool:
        """True for the next piece, unless it is empty before the end."""
        end = response.position + len(response.data)
        expected = response.position == self._position and self._size in (None, response.size)
        return expected and (self._position < end <= response.size or response.size == 0)

    def write(self, response: FetchSnapshotResponse) -> WriteSnapshot:
        """Add an accepted piece; the effect stores it."""
        position = self._position
        self._position += len(response.data)
        self._size = response.size
        return WriteSnapshot(self.snapshot_id, position, response.data)

    @property
    def complete(self) -> bool:
        """True when all pieces have arrived."""
        return self._position == self._size

    @property
    def snapshot(self) -> Snapshot:
        """The finished snapshot."""
        return Snapshot(self.snapshot_id, self._position)
