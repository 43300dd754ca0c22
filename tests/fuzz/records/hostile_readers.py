"""Whoever reads a batch by itself: the consumer, Spark's source, and the verbs that look at files."""

from __future__ import annotations

from random import Random
from typing import Any

from minikafka.client.consuming.fetched import Fetched
from minikafka.client.consuming.positions import Position
from minikafka.client.records import ConsumerRecord
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.spark.columns.decode import decode
from minikafka.wire.messages.fetch import AbortedTransaction, PartitionData

WHERE = TopicPartition("t", 0)
UNREADABLE = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
Consumed = tuple[list[ConsumerRecord], list[tuple[int, int]]]
"""Records, and the offsets that an error stands for: from, and to before."""


def consume(data: bytes, start: int, rng: Random, aborted: list[tuple[int, int]] | None = None) -> Consumed:
    """All that a consumer is handed of an answer, in portions. At an error it seeks behind the batch."""
    records: list[ConsumerRecord] = []
    refused: list[tuple[int, int]] = []
    end = max((header.next_offset for _, header in iter_batches(data)), default=start)
    position = Position(WHERE)
    position.seek(start)
    while position.consumed.offset < end:
        before = position.consumed.offset
        told = [AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted or ()]
        found = Fetched(position, PartitionData(records=data, aborted_transactions=told), check_crcs=True)
        position.on_fetched(found.end)
        try:
            while not found.is_exhausted:
                taken = found.take(rng.choice((1, 2, 1000)))
                assert all(before <= record.offset < end for record in taken), "in the order of the log"
                records += taken
            assert position.consumed.offset == end
        except KafkaError as error:
            if error.code not in UNREADABLE:
                raise
            at = position.consumed.offset
            behind = next(header.next_offset for _, header in iter_batches(data) if header.next_offset > at)
            refused.append((at, behind))
            position.seek(behind)
        assert position.consumed.offset > before, "it makes progress"
    assert [record.offset for record in records] == sorted({record.offset for record in records})
    return records, refused


def rows(data: bytes, start: int) -> Consumed:
    """The same by Spark's source, a batch at a time."""
    records: list[ConsumerRecord] = []
    refused: list[tuple[int, int]] = []
    for position, header in iter_batches(data):
        if header.next_offset <= start:
            continue
        bounds = {"start_offset": max(start, header.base_offset), "end_offset": header.next_offset}
        try:
            table: Any = decode(data, [(position, header)], tp=WHERE, include_headers=True, **bounds)
        except KafkaError as error:
            if error.code not in (*UNREADABLE, ErrorCode.INVALID_TIMESTAMP):
                raise
            refused.append((bounds["start_offset"], bounds["end_offset"]))
            continue
        columns = [table.column(name).to_pylist() for name in ("offset", "key", "value")]
        table.validate(full=True)
        records += [
            ConsumerRecord(*WHERE, offset, 0, key, value, (), 0) for offset, key, value in zip(*columns, strict=True)
        ]
    return records, refused


def check_readers(data: bytes, start: int, rng: Random) -> list[ConsumerRecord]:
    """Both hand out the same records, or say that they cannot; the consumer's."""
    consumed, refused = consume(data, start, rng)
    found, unreadable = rows(data, start)
    ours = {record.offset: (record.key, record.value) for record in consumed}
    theirs = {record.offset: (record.key, record.value) for record in found}
    for offset in ours.keys() ^ theirs.keys():
        assert any(begin <= offset < end for begin, end in refused + unreadable), f"{offset} is skipped silently"
    assert all(ours[offset] == theirs[offset] for offset in ours.keys() & theirs.keys())
    for _position, header in iter_batches(data):
        if header.base_offset >= start and not header.is_control:
            offsets = range(header.base_offset, header.next_offset)
            for told, wrong in ((ours, refused), (theirs, unreadable)):
                is_refused = any(begin < header.next_offset and header.base_offset < end for begin, end in wrong)
                count = sum(offset in offsets for offset in told)
                assert is_refused or count == header.record_count, f"{count} of {header.record_count} records"
    return consumed
