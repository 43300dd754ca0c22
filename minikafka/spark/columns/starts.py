"""The start of each record of a batch. A record has only the distance to the next one, so this is a walk.

Runs of records of equal length are common, and shorten the walk. If the first record has length L, and the length field
repeats in steps of the whole record, then by induction each of these places is the start of a record. A slice of
``bytes`` with a step counts the repetitions. For varying lengths a tight loop goes from record to record, and looks for
runs again after ever more records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from minikafka.records.batch import Buffer
from minikafka.spark.columns.broken import BrokenBatchError
from minikafka.spark.columns.varints import MAX_INT32_BYTES, Ints

_SHORTEST_LOOK: Final = 256  # records; else several times as many as were equally long before
_FURTHER: Final = 8
_WORTH_IT: Final = 6  # cost of a look, in steps of the loop
_FIRST_STRETCH: Final = 16  # records of the loop between two looks; doubled after each vain look
_LONGEST_STRETCH: Final = 512

_WHAT: Final = "its records have a wrong number or length"


class _Run(NamedTuple):
    """Adjacent records of equal length."""

    noted: int  # index of the first among the noted positions
    records: int
    step: int  # bytes


def record_starts(bodies: Sequence[Buffer], counts: Sequence[int], begins: Sequence[int]) -> Ints:
    """The position of every record of ``bodies``, the bodies of batches with ``counts`` records each.

    Raises BrokenBatchError.
    """
    starts: list[int] = []  # of records, or of runs, in their bodies
    runs: list[_Run] = []
    noted: list[int] = []  # number of starts in each body
    stretch = _FIRST_STRETCH
    look = _SHORTEST_LOOK
    for batch, (body, left) in enumerate(zip(bodies, counts, strict=True)):
        data = bytes(body)  # no view: its slices with a step are slow, and a batch fits into the cache
        before = len(starts)
        position = 0
        try:
            while left:
                equal, step = _look(data, position, min(look, left))
                if equal >= min(_WORTH_IT, left):
                    runs.append(_Run(len(starts), equal, step))
                    starts.append(position)
                    position += equal * step
                    look = max(_FURTHER * equal, _SHORTEST_LOOK)
                    stretch = _FIRST_STRETCH
                else:
                    equal = min(stretch, left)
                    position = _walk(data, position, equal, starts)
                    stretch = min(stretch * 2, _LONGEST_STRETCH)
                left -= equal
        except IndexError:
            raise BrokenBatchError(batch, _WHAT) from None
        if position != len(data):
            raise BrokenBatchError(batch, _WHAT)
        noted.append(len(starts) - before)
    return _expanded(np.array(starts, np.int64) + np.repeat(np.array(begins, np.int64), noted), runs)


def _look(data: bytes, position: int, records: int) -> tuple[int, int]:
    """The number of the next ``records`` that are as long as the first, and its size in bytes."""
    step = _after(data, position) - position
    length_size = 1
    while data[position + length_size - 1] > 0x7F:
        length_size += 1
    limit = position + records * step
    equal = records
    for at in range(position, position + length_size):
        column = data[at:limit:step]
        equal = min(equal, len(column) - len(column.lstrip(data[at : at + 1])))
    return equal, step


def _walk(data: bytes, position: int, records: int, starts: list[int]) -> int:
    """Note the starts of the next records. Returns the start of the one after them. Lengths are zigzag varints."""
    note = starts.append
    for _ in range(records):
        note(position)
        size = data[position]
        if size < 0x80:
            position += (size >> 1) + 1
        elif (byte := data[position + 1]) < 0x80:
            position += (byte << 6) + ((size & 0x7F) >> 1) + 2
        else:
            position = _after(data, position)
    return position


def _after(data: bytes, position: int) -> int:
    """The start of the record after the one at ``position``."""
    size = shift = 0
    for at in range(position, position + MAX_INT32_BYTES):
        byte = data[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return at + 1 + (size >> 1)
    raise IndexError("the length of a record has more bytes than a varint")


def _expanded(positions: Ints, runs: list[_Run]) -> Ints:
    """All positions, runs included: cumulated steps, and the jump from the last record before to the first of a run."""
    if not runs:
        return positions
    noted, records, step = np.array(runs, np.int64).T
    counts = np.ones(len(positions), np.int64)
    steps = np.zeros(len(positions), np.int64)
    counts[noted], steps[noted] = records, step
    lasts = positions + (counts - 1) * steps
    advances = np.repeat(steps, counts)
    advances[np.cumsum(counts) - counts] = positions - np.concatenate([[0], lasts[:-1]])
    return np.cumsum(advances, out=advances)
