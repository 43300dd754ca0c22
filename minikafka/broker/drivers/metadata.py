"""The cluster's metadata as this node has applied it: committed records become an image and a delta.

Subscribers run in the order of their subscription, on the loop, for whole batches of committed records. The records of
a request are one batch, so no subscriber sees a part of it. The controller's own image is ahead of this one; handlers
of clients' requests read only this one.

A node that returns may have 100,000 records to apply, which takes more than a second. They are applied in portions,
with other work of the loop in between. Small batches share a delta, up to a portion. What would take a subscriber too
long is prepared in portions, too, before the change is published: the image and what is made of it change in one turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

from minikafka.broker.drivers.commits import UnreadableYetError
from minikafka.broker.drivers.metadata_batches import CommittedBatch
from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.errors import KafkaError
from minikafka.metadata.delta import ImageBuilder, MetadataDelta, differences
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import decode_record, encode_record
from minikafka.metadata.snapshot import snapshot_records
from minikafka.model import OffsetAndEpoch
from minikafka.raft import Snapshot
from minikafka.storage.errors import StorageFailure, is_passing

RECORDS_BETWEEN_SNAPSHOTS: Final = 20_000
PORTION: Final = 1_000
"""Steps of one turn: records applied, or topics compared. A record takes some 15 microseconds."""

Subscriber = Callable[[MetadataDelta], None]
Steps = Generator[None, None, None]
Preparer = Callable[[MetadataDelta], Steps]


class Metadata:
    """The current image, and the subscribers to its changes."""

    def __init__(self, metadata_log: MetadataLog) -> None:
        self._log = metadata_log
        self._subscribers: list[Subscriber] = []
        self._preparers: list[Preparer] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._applied_offset = 0  # the next offset to apply
        self._high_watermark = 0
        self._snapshot_offset = 0
        self._steps: Steps | None = None  # what is being applied
        self.image: MetadataImage = EMPTY_IMAGE

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber`` for every change from now on."""
        self._subscribers.append(subscriber)

    def prepare_by(self, preparer: Preparer) -> None:
        """Have ``preparer`` do in steps, before the change is published, what would take a subscriber too long. It may
        be given up, and another change come."""
        self._preparers.append(preparer)

    # -- applying ---------------------------------------------------------------------------------------------------

    async def load_latest_snapshot(self) -> None:
        """At start: begin from the newest snapshot, if there is one."""
        found = await self._log.latest_snapshot()
        if found is not None:
            snapshot_id, values = found
            self.install(values, snapshot_id)
            is_behind = True
            while is_behind:
                is_behind = self.apply_portion()
                await asyncio.sleep(0)

    def install(self, values: Sequence[bytes], snapshot_id: OffsetAndEpoch) -> None:
        """From the next portion on, replace the image by a snapshot's; subscribers get the difference.

        Records under way are dropped: the snapshot includes them.
        """
        self._steps = self._replace(values, snapshot_id)

    def commit(self, high_watermark: int) -> None:
        """From the next portion on, apply records below ``high_watermark``."""
        self._high_watermark = max(self._high_watermark, high_watermark)

    def apply_portion(self) -> bool:
        """Apply a portion; False when none is left.

        Raises DamagedMetadataLogError; UnreadableYetError while the log cannot be read: the next call tries again.
        If a subscriber raises, the subscribers after it never get the delta.
        """
        steps, before = self._steps or self._apply(), self._applied_offset
        self._steps = None
        for _ in range(PORTION):
            try:
                next(steps)
            except StopIteration:
                return before < self._applied_offset < self._high_watermark
        self._steps = steps
        return True

    def _apply(self) -> Steps:
        """Whole batches, until they are a portion or all is applied."""
        builder, records = ImageBuilder(self.image), 0
        end = OffsetAndEpoch(self._applied_offset, self.image.epoch)
        for batch in self._batches():
            for value in batch.values:
                builder.replay(decode_record(value))
                records += 1
                yield
            end = OffsetAndEpoch(batch.next_offset, end.epoch if batch.is_control else batch.leader_epoch)
            if records >= PORTION:
                break
        if end.offset > self._applied_offset:
            delta = yield from builder.finish(end._replace(offset=end.offset - 1))
            yield from self._prepare(delta)
            self._applied_offset = end.offset
            self._publish(delta)

    def _batches(self) -> Iterator[CommittedBatch]:
        try:
            yield from self._log.batches(self._applied_offset, self._high_watermark)
        except (KafkaError, OSError) as error:
            if not _is_of_want(error):
                raise
            raise UnreadableYetError(str(error)) from error

    def _replace(self, values: Sequence[bytes], snapshot_id: OffsetAndEpoch) -> Steps:
        builder = ImageBuilder(EMPTY_IMAGE)
        for value in values:
            builder.replay(decode_record(value))
            yield
        after = builder.build(OffsetAndEpoch(snapshot_id.offset - 1, snapshot_id.epoch))
        delta = yield from differences(self.image, after)
        yield from self._prepare(delta)
        self._applied_offset = self._snapshot_offset = snapshot_id.offset
        self._publish(delta)

    def _prepare(self, delta: MetadataDelta) -> Steps:
        for preparer in self._preparers:
            yield from preparer(delta)

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

    @property
    def applied_offset(self) -> int:
        """Everything below it is in the image."""
        return self._applied_offset

    async def wait_for(self, offset: int) -> None:
        """Wait until everything below ``offset`` is applied here."""
        if offset > self._applied_offset:
            applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, applied))
            await applied

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def maybe_snapshot(self, flushed_offset: int) -> Snapshot | None:
        """Write a snapshot if enough records were applied since the last one; report it to the quorum machine.

        OSError when the disk refuses; the next call tries again.
        """
        offset, image = self._applied_offset, self.image
        is_due = offset - self._snapshot_offset >= RECORDS_BETWEEN_SNAPSHOTS and offset <= flushed_offset
        if not is_due or self._steps is not None:  # the log may begin behind what is applied
            return None
        snapshot_id = OffsetAndEpoch(offset, self._log.epoch_before(offset))
        before, self._snapshot_offset = self._snapshot_offset, offset
        try:
            return await self._log.write_snapshot(snapshot_id, map(encode_record, snapshot_records(image)))
        except OSError:
            if self._snapshot_offset == offset:  # or another was installed meanwhile
                self._snapshot_offset = before
            raise


def _is_of_want(error: KafkaError | OSError) -> bool:
    """Whether it says nothing about the log: the process is short of something."""
    if isinstance(error, OSError):
        return is_passing(error)
    return error.retriable and not isinstance(error, StorageFailure)
