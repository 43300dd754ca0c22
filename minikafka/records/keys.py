"""The keys of a batch, and where its records lie, without making records of them: for compaction.

Everything else about a record is skipped, so what is wrong inside a value or a header is not noticed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.records.batch import BatchHeader
from minikafka.records.read import corrupt, finish_varint

KeyedRecord = tuple[int, int, bytes | None, bool, int, int, int]
"""Offset delta, timestamp delta (ms), key, is it a tombstone; positions in the body: of the record, of what follows its
timestamp, of its end."""


def iter_keys(body: bytes, header: BatchHeader) -> Iterator[KeyedRecord]:
    """The records of a batch's body (see :func:`minikafka.records.read.read_body`), in order.

    KafkaError(CORRUPT_MESSAGE) for bytes that are not ``record_count`` records. Varints of one and two bytes are
    inlined, as in ``read``, for the same reason.
    """
    position = 0
    last_delta = header.last_offset_delta << 1  # zigzag
    try:
        for _ in range(header.record_count):
            begin = position
            size = body[position]
            position += 1
            if size > 127:
                if (byte := body[position]) < 128:
                    size = size & 127 | byte << 7
                    position += 1
                else:
                    size, position = finish_varint(body, size, position, header)
            end = position + (size >> 1)

            time = body[position + 1]
            position += 2
            if time > 127:
                if (byte := body[position]) < 128:
                    time = time & 127 | byte << 7
                    position += 1
                else:
                    time, position = finish_varint(body, time, position, header)

            rest = position
            delta = body[position]
            position += 1
            if delta > 127:
                if (byte := body[position]) < 128:
                    delta = delta & 127 | byte << 7
                    position += 1
                else:
                    delta, position = finish_varint(body, delta, position, header)

            size = body[position]
            position += 1
            if size > 127:
                if (byte := body[position]) < 128:
                    size = size & 127 | byte << 7
                    position += 1
                else:
                    size, position = finish_varint(body, size, position, header)
            key = None
            if not size & 1:
                start = position
                position += size >> 1
                key = body[start:position]
            elif size != 1:
                corrupt(header, "a key has a negative length")
            if delta & 1 or delta > last_delta or position >= end:
                corrupt(header, "a record has an offset outside the batch, or ends before its value")
            yield delta >> 1, (time >> 1) ^ -(time & 1), key, body[position] == 1, begin, rest, end
            position = end
        if position != len(body):
            corrupt(header, f"{len(body) - position} bytes follow the last of {header.record_count} records")
    except IndexError:
        corrupt(header, "a record runs over the end of the batch")
