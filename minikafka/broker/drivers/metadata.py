"""The cluster's metadata as this node has applied it: committed records become an image and a delta to act on.

Subscribers run in the order they subscribed, on the loop, for each batch of committed records. The controller's own
image runs ahead of this one; whoever serves clients reads only this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.metadata.delta import MetadataDelta, apply_records, difference
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import decode_record, encode_record
from minikafka.metadata.snapshot import load_snapshot, snapshot_records
from minikafka.model import OffsetAndEpoch
from minikafka.raft import Snapshot

log = structlog.get_logger(__name__)

RECORDS_BETWEEN_SNAPSHOTS: Final = 20_000

Subscriber = Callable[[MetadataDelta], None]


class Metadata:
    """The current image, and whoever wants to hear of the next."""

    def __init__(self, metadata_log: MetadataLog) -> None:
        self._log = metadata_log
        self._subscribers: list[Subscriber] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._applied_offset = 0  # the next offset to apply
        self._snapshot_offset = 0
        self.image: MetadataImage = EMPTY_IMAGE

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear of every change from now on."""
        self._subscribers.append(subscriber)

    def load_latest_snapshot(self) -> None:
        """At start: begin from the newest snapshot, if there is one."""
        found = self._log.latest_snapshot()
        if found is not None:
            snapshot_id, values = found
            self.install(values, snapshot_id)

    def install(self, values: Sequence[bytes], snapshot_id: OffsetAndEpoch) -> None:
        """Replace the image by a snapshot's; subscribers hear of the difference."""
        last = OffsetAndEpoch(snapshot_id.offset - 1, snapshot_id.epoch)
        image = load_snapshot(map(decode_record, values), last)
        delta = difference(self.image, image)
        self._applied_offset = self._snapshot_offset = snapshot_id.offset
        self._publish(delta)

    def advance(self, high_watermark: int) -> None:
        """Apply what is committed now."""
        if high_watermark <= self._applied_offset:
            return
        records = []
        last = OffsetAndEpoch(high_watermark - 1, self.image.epoch)
        for _, epoch, value in self._log.records(self._applied_offset, high_watermark):
            records.append(decode_record(value))
            last = OffsetAndEpoch(high_watermark - 1, epoch)
        self._applied_offset = high_watermark
        _, delta = apply_records(self.image, records, last)
        self._publish(delta)

    async def wait_for(self, offset: int) -> None:
        """Wait until everything below ``offset`` is applied here."""
        if offset > self._applied_offset:
            applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, applied))
            await applied

    @property
    def applied_offset(self) -> int:
        """Everything below it is in the image."""
        return self._applied_offset

    async def maybe_snapshot(self, flushed_offset: int) -> Snapshot | None:
        """Write a snapshot when enough has happened since the last; to be reported to the quorum machine.

        OSError when the disk refuses; the next call tries again.
        """
        offset = self._applied_offset
        if offset - self._snapshot_offset < RECORDS_BETWEEN_SNAPSHOTS or offset > flushed_offset:
            return None
        values = [encode_record(record) for record in snapshot_records(self.image)]
        before, self._snapshot_offset = self._snapshot_offset, offset
        try:
            return await self._log.write_snapshot(OffsetAndEpoch(offset, self._log.epoch_before(offset)), values)
        except OSError:
            if self._snapshot_offset == offset:  # or another was installed meanwhile
                self._snapshot_offset = before
            raise

    def _publish(self, delta: MetadataDelta) -> None:
        self.image = delta.after
        for subscriber in self._subscribers:
            subscriber(delta)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for offset, applied in waiting:
                if offset > self._applied_offset:
                    self._waiting.append((offset, applied))
                elif not applied.done():
                    applied.set_result(None)
