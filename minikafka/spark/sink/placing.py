"""The partition of each row, a column at a time. Same as Java's producer: a key stays in its partition.

A row's partition is its ``partition`` column, or else the murmur2 hash of its key. Rows without a key stick to one
partition for about a batch, then move on to the next (KIP-480).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from minikafka.client.producing.partitioner import murmur2
from minikafka.errors import ErrorCode, KafkaError

Partitions: TypeAlias = npt.NDArray[np.int64]

_MIX: Final = np.uint32(0x5BD1E995)
_SEED: Final = np.uint32(0x9747B28C)
_LONG_BYTES: Final = 256  # longer keys are hashed one by one: their columns of four bytes are short


class Placed(NamedTuple):
    """Rows of one partition, in their order; ``rows`` is None for all rows."""

    partition: int
    rows: npt.NDArray[np.int64] | None


class Placing:
    """Places the rows of one topic, and remembers the partition of rows without a key."""

    def __init__(self, topic: str, partition_count: int, rng: random.Random, advice: str = "") -> None:
        """``advice`` is added to the error about a partition that the topic lacks."""
        assert partition_count > 0
        self._advice = advice
        self._topic = topic
        self._count = partition_count
        self._turn = rng.randrange(partition_count)

    def place(self, keys: Any | None, asked: Any | None, row_count: int, rows_per_turn: int) -> Iterator[Placed]:
        """Group ``row_count`` rows by partition, rows of one partition in their order.

        ``keys`` is a binary array, ``asked`` an int32 array of partitions; each is None without such a column.
        Rows with neither move on to another partition every ``rows_per_turn`` rows. Raises KafkaError for a partition
        that the topic does not have.
        """
        if row_count == 0:
            return
        partitions = np.full(row_count, -1, np.int64) if asked is None else self._checked(asked)
        if (open_rows := partitions < 0).any() and keys is not None and keys.null_count < row_count:
            hashed = open_rows & ~_is_null(keys)
            partitions[hashed] = ((murmur2_of(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(self._count))[hashed]
            open_rows = partitions < 0
        if (left := int(open_rows.sum())) > 0:
            partitions[open_rows] = self._take_turns(left, rows_per_turn)
        yield from grouped(partitions)

    def _checked(self, asked: Any) -> Partitions:
        partitions = np.asarray(asked.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        wrong = (partitions >= self._count) | ((partitions < 0) & ~_is_null(asked))
        if wrong.any():
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{self._topic} has partitions 0 to {self._count - 1}, not {partitions[wrong][0]}; {self._advice}",
            )
        return partitions

    def _take_turns(self, row_count: int, rows_per_turn: int) -> Partitions:
        turns = self._turn + np.arange(row_count, dtype=np.int64) // max(rows_per_turn, 1)
        self._turn = int(turns[-1] + 1) % self._count
        return turns % self._count


def grouped(codes: npt.NDArray[np.int64]) -> Iterator[Placed]:
    """The row numbers of each code, both in ascending order."""
    if (codes == codes[0]).all():
        yield Placed(int(codes[0]), None)
        return
    order = np.argsort(codes, kind="stable")
    borders = np.flatnonzero(np.diff(codes[order])) + 1
    for rows in np.split(order, borders):
        yield Placed(int(codes[rows[0]]), rows)


def murmur2_of(keys: Any) -> npt.NDArray[np.uint32]:
    """Murmur2 with the seed of Kafka's Java client, of every element of a binary array; undefined for nulls."""
    keys = keys.fill_null(b"") if keys.null_count else keys
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    is_long = lengths > _LONG_BYTES
    hashes = _murmur2_by_column(data, starts, np.where(is_long, 0, lengths))
    for row in np.flatnonzero(is_long):
        hashes[row] = murmur2(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return hashes


def _murmur2_by_column(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """All keys at once, four bytes of each at a time; the longest come first, finished ones are left out."""
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    whole = lengths >> 2
    values = _SEED ^ lengths.astype(np.uint32)
    for column in range(int(whole[0]) if len(whole) else 0):
        active = int(np.searchsorted(-whole, -column, side="left"))
        block = _bytes_at(data, starts[:active] + 4 * column, 4) * _MIX
        block = (block ^ (block >> np.uint32(24))) * _MIX
        values[:active] = (values[:active] * _MIX) ^ block
    for size in (1, 2, 3):
        rows = np.flatnonzero(lengths & 3 == size)
        rest = _bytes_at(data, starts[rows] + 4 * whole[rows], size)
        values[rows] = (values[rows] ^ rest) * _MIX
    values = (values ^ (values >> np.uint32(13))) * _MIX
    values ^= values >> np.uint32(15)
    hashes = np.empty_like(values)
    hashes[order] = values
    return hashes


def _bytes_at(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint32]:
    """``size`` bytes at each position as a little-endian number."""
    number = data[at].astype(np.uint32)
    for byte in range(1, size):
        number |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return number


def _is_null(array: Any) -> npt.NDArray[np.bool_]:
    is_null: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return is_null


def taken(array: Any | None, rows: npt.NDArray[np.int64] | None) -> Any | None:
    """These rows of an array, all of it for None."""
    return array if array is None or rows is None else array.take(pa.array(rows))
