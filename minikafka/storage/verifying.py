"""Are bytes that this process wrote still as it wrote them?

Nobody computes their checksums when they are read: they were right when they came. A disk that loses them later is
noticed by whoever reads them elsewhere, and looked for here.

Beside checksums: a batch begins behind the one before it, and was written in the leader epoch that the log has for its
offset. No checksum covers these, for the broker fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from minikafka.model import NO_EPOCH
from minikafka.records.batch import BatchHeader
from minikafka.storage.errors import BadBatchError
from minikafka.storage.scan import check_place, scan_batches
from minikafka.storage.segment import Segment


def verify_again(start_offset: int, end: int, epoch_for: Callable[[int], int], segments: Iterable[Segment]) -> None:
    """Read the batches of the first segment from the one at ``start_offset`` to the one that begins at ``end``.

    BadBatchError at the first that is not as it was appended. Those between the index entry before and
    ``start_offset`` are read, too: they tell where it has to begin.
    """
    for segment in segments:
        entry = segment.index.offsets.lookup(start_offset - 1)
        begin = 0 if entry is None else entry.position
        expected = segment.base_offset
        for position, header, _batch in scan_batches(segment.file, begin, segment.size):
            if entry is not None and position == begin and header.last_offset != entry.offset:
                raise BadBatchError(position, f"a batch ends at {header.last_offset} where {entry.offset} was written")
            check_place(position, header, expected, segment.next_offset)
            _check_epoch(position, header, epoch_for)
            if position >= end:
                break
            expected = header.next_offset
        return


def _check_epoch(position: int, header: BatchHeader, epoch_for: Callable[[int], int]) -> None:
    epoch = epoch_for(header.last_offset)  # the log may begin in the middle of a batch
    if header.leader_epoch != epoch != NO_EPOCH:
        raise BadBatchError(position, f"leader epoch {header.leader_epoch} where {epoch} was written")
