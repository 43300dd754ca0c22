"""The checked batches of one segment, in pieces of a good size for decoding; and its damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from minikafka.records.batch import BatchHeader
from minikafka.spark.offline.segments import SegmentTask
from minikafka.storage.damage import find_valid_batch
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import BadBatchError
from minikafka.storage.scan import scan_batches

PIECE_BYTES: Final = 4 * 1024 * 1024


class Piece(NamedTuple):
    """Neighbouring batches: each a position in ``buffer``, which begins at ``position`` of the file, and its header."""

    position: int
    buffer: memoryview
    batches: list[tuple[int, BatchHeader]]


class Damage(NamedTuple):
    """Bytes without a readable batch. Records from ``offset`` on are missing.

    ``is_torn_tail``: no committed record was lost; a write was under way when the node died, or is under way now.
    """

    position: int
    size_bytes: int
    offset: int
    why: str
    is_torn_tail: bool

    def __str__(self) -> str:
        kind = "a torn tail" if self.is_torn_tail else "damaged"
        return f"{kind} from offset {self.offset} on: {self.why} at byte {self.position} ({self.size_bytes} bytes)"


def scan_segment(disk: Disk, task: SegmentTask, *, check_crcs: bool = True) -> Iterator[Piece | Damage]:
    """The content of the segment up to the task's end offset, in order. Raises OSError.

    Behind damage it goes on with the next batch that has a correct checksum.
    """
    with closing(disk.open_read(task.path)) as file:
        yield from _Scan(file, task, check_crcs).run()


class _Scan:
    def __init__(self, file: File, task: SegmentTask, check_crcs: bool) -> None:
        self._file = file
        self._task = task
        self._check_crcs = check_crcs
        self._position = 0
        self._next_offset = task.base_offset

    def run(self) -> Iterator[Piece | Damage]:
        while self._position < self._task.size_bytes and self._next_offset < self._task.end_offset:
            try:
                yield from self._pieces()
                return
            except BadBatchError as error:
                if self._next_offset < self._task.end_offset:
                    yield self._pass_by(error)

    def _pieces(self) -> Iterator[Piece]:
        """Pieces up to the task's end. Raises BadBatchError behind the last piece before damage."""
        piece: Piece | None = None
        try:
            for position, header, batch in self._batches():
                if piece is None or batch.obj is not piece.buffer.obj:
                    if piece is not None:
                        yield piece
                    piece = Piece(position, memoryview(batch.obj), [])
                piece.batches.append((position - piece.position, header))
        except BadBatchError:
            if piece is not None:
                yield piece
            raise
        if piece is not None:
            yield piece

    def _batches(self) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        task = self._task
        for position, header, batch in scan_batches(
            self._file, self._position, task.size_bytes, PIECE_BYTES, check_crcs=self._check_crcs
        ):
            if header.base_offset >= task.end_offset:
                return
            if header.base_offset < self._next_offset:
                raise BadBatchError(position, f"a batch of offset {header.base_offset} begins")
            self._position, self._next_offset = position + header.size_in_bytes, header.next_offset
            yield position, header, batch

    def _pass_by(self, error: BadBatchError) -> Damage:
        task = self._task
        found = find_valid_batch(self._file, error.position + 1, task.size_bytes, self._next_offset)
        self._position = task.size_bytes if found is None else found
        is_committed = task.high_watermark is not None and self._next_offset < task.high_watermark
        is_torn_tail = task.is_last and found is None and not is_committed
        size = self._position - error.position
        return Damage(error.position, size, self._next_offset, error.why, is_torn_tail)
