"""The receiving end of a snapshot's transfer (KIP-630): pieces in order, from position 0 to its size."""

from __future__ import annotations

from minikafka.model import OffsetAndEpoch
from minikafka.raft.core import Core
from minikafka.raft.effects import WriteSnapshot
from minikafka.raft.log import Snapshot
from minikafka.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse


class SnapshotDownload:
    """One snapshot being fetched. A follower that changes roles drops it, and the next one starts at 0 again."""

    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        self._position = 0
        self._size: int | None = None

    def request(self, core: Core) -> FetchSnapshotRequest:
        """Asks for the next piece."""
        return FetchSnapshotRequest(
            core.cluster_id,
            core.node_id,
            core.epoch,
            self.snapshot_id,
            self._position,
            core.config.snapshot_chunk_bytes,
        )

    def accepts(self, response: FetchSnapshotResponse) -> bool:
        """Whether this is the next piece, and not an empty one before the end."""
        end = response.position + len(response.data)
        expected = response.position == self._position and self._size in (None, response.size)
        return expected and (self._position < end <= response.size or response.size == 0)

    def write(self, response: FetchSnapshotResponse) -> WriteSnapshot:
        """Take an accepted piece; the effect stores it."""
        position = self._position
        self._position += len(response.data)
        self._size = response.size
        return WriteSnapshot(self.snapshot_id, position, response.data)

    @property
    def complete(self) -> bool:
        """All pieces are there."""
        return self._position == self._size

    @property
    def snapshot(self) -> Snapshot:
        """The finished snapshot."""
        return Snapshot(self.snapshot_id, self._position)
