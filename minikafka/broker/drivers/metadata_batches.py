"""Batches of the metadata log, for the quorum and for the image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minikafka.errors import KafkaError
from minikafka.raft import BatchSpan
from minikafka.records.batch import BatchHeader, crc_is_valid, iter_batches
from minikafka.records.read import iter_records


class CommittedBatch(NamedTuple):
    """One atomic batch: the records of a request, or none in a control batch."""

    next_offset: int
    leader_epoch: int
    is_control: bool
    values: Iterator[bytes]
    """Decoded one by one, and once: there may be 100,000."""

    @classmethod
    def of(cls, data: bytes, position: int, header: BatchHeader) -> CommittedBatch:
        """The batch at ``position``. A record of metadata always has a value."""
        records = () if header.is_control else iter_records(data, position, header)
        values = (record.value for record in records if record.value is not None)
        return cls(header.next_offset, header.leader_epoch, header.is_control, values)


def batch_spans(data: bytes) -> list[BatchSpan]:
    """Check fetched batches and return their offsets and epochs; ValueError for damaged or incomplete ones."""
    spans, end = [], 0
    view = memoryview(data)
    try:
        for position, header in iter_batches(view):
            if not crc_is_valid(view, position, header):
                raise ValueError(f"the batch at offset {header.base_offset} has a wrong checksum")
            spans.append(BatchSpan(header.base_offset, header.last_offset, header.leader_epoch))
            end = position + header.size_in_bytes
    except KafkaError as error:
        raise ValueError(error.message) from error
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes behind the last whole batch")
    return spans
