"""Record batches as a producer may send them who means ill: the checksum is right, and nothing else need be."""

from __future__ import annotations

import zlib
from random import Random

from cramjam import lz4, snappy, zstd

from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, BatchHeader, write_header
from minikafka.records.compression import compress
from minikafka.storage.producer_state import ProducerState

NOW_MS = 1_700_000_000_000
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
TIMES = (0, -1, -2, 1, NOW_MS, NOW_MS - 1, NOW_MS + 1, NOW_MS + 3_600_000, 1 << 40, INT64_MAX, -INT64_MAX - 1)
DELTAS = (0, 1, -1, 2, 63, 64, 8191, 8192, INT32_MAX, -INT32_MAX - 1, 1 << 32, INT64_MAX, -INT64_MAX - 1, 1 << 65)
PRODUCERS = (1, 2, 3, INT64_MAX)
SELDOM = 0.2
"""Of what a leader refuses at a glance."""
EPOCHS = (0, 0, 0, 1, 32767)
KEYS = (b"", b"a", b"a", b"b", b"b", b"c", b"c", b"long" * 20)
VALUES = (None, b"", b"v", b"\xff" * 3, b"long" * 50)
NAMES = (b"", b"h", b"\xff\xfe", b"\xed\xa0\x80", b"\x00")
FLAGS = (0x08, 0x20, 0x40, 0x80, 0x80, 0x4000, 0x4000, -0x8000, -0x8000)
COUNTS = (-1, 0, 1, 2, 1_000, 1_000_000, INT32_MAX, -INT32_MAX - 1)


class Hostile:
    """Makes batches. Each part of one is wrong now and then, seldom many at once: most wrongs hide the others."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._wrongs = 0.0

    def batch(self, producers: ProducerState) -> bytearray:
        """The next one. Its sequence mostly follows what ``producers`` know, so that a log takes it."""
        rng = self._rng
        self._wrongs = rng.choice((0.0, 0.02, 0.05, 0.1, 0.3))
        count = rng.choice((1, 1, 2, 3, 5, 20))
        body = b"".join(self._record(index, count) for index in range(count))
        if self._is_wrong():
            body = self._spoilt(body)
        flags, codec = rng.choice((0, 0x10)), 0
        if self._is_wrong():
            flags |= rng.choice(FLAGS)
        if rng.random() < 0.4:
            codec, body = self._compressed(body)
        if self._is_wrong(SELDOM):
            count = rng.choice((count + 1, count - 1, *COUNTS))
        base_ms, max_ms = self._times()
        producer_id, epoch, sequence = self._producer(producers, flags)
        header = BatchHeader(
            base_offset=rng.choice((0, 0, -1, 7, INT64_MAX)),
            batch_length=0,
            leader_epoch=rng.choice((-1, 0, 5, INT32_MAX)),
            magic=2 if not self._is_wrong(SELDOM) else rng.randrange(-1, 4),
            crc=0,
            attributes=flags | codec,
            last_offset_delta=count - 1 if not self._is_wrong(SELDOM) else rng.choice(COUNTS),
            base_timestamp=base_ms,
            max_timestamp=max_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            record_count=max(-INT32_MAX - 1, min(count, INT32_MAX)),
        )
        header = header._replace(last_offset_delta=max(-INT32_MAX - 1, header.last_offset_delta))
        made = bytearray(HEADER_SIZE) + body
        write_header(made, header)
        return made

    def _is_wrong(self, weight: float = 1) -> bool:
        return self._rng.random() < self._wrongs * weight

    # -- header -----------------------------------------------------------------------------------------------------

    def _times(self) -> tuple[int, int]:
        rng = self._rng
        if not self._is_wrong(3):
            at = NOW_MS - rng.randrange(10_000)
            return at, at + rng.randrange(1_000)
        first, last = rng.choice(TIMES), rng.choice(TIMES)
        return (first, last) if rng.random() < 0.2 else (min(first, last), max(first, last))

    def _producer(self, producers: ProducerState, flags: int) -> tuple[int, int, int]:
        rng = self._rng
        if not flags & 0x10 and rng.random() < 0.6:
            return (-1, -1, -1) if not self._is_wrong() else (-1, rng.choice(EPOCHS), rng.choice((0, 5)))
        producer_id = rng.choice(PRODUCERS)
        entry = producers.get(producer_id)
        epoch = entry.epoch if entry is not None and rng.random() < 0.9 else rng.choice(EPOCHS)
        is_next = entry is not None and entry.epoch == epoch and entry.last_sequence >= 0
        sequence = (entry.last_sequence + 1) & INT32_MAX if is_next and entry is not None else 0
        if entry is None:
            sequence = rng.choice((0, 0, INT32_MAX, INT32_MAX - 1, 7))
        if self._is_wrong():
            return rng.choice((producer_id, -2, -INT64_MAX - 1)), rng.choice((epoch, -1)), rng.choice((sequence, -1, 5))
        return producer_id, epoch, sequence

    # -- records ----------------------------------------------------------------------------------------------------

    def _record(self, index: int, count: int) -> bytes:
        rng = self._rng
        time = rng.randrange(1_000) if not self._is_wrong(3) else rng.choice((*DELTAS, *TIMES, INT64_MAX - NOW_MS))
        delta = index if not self._is_wrong(2) else rng.choice((*DELTAS, count, rng.randrange(count)))
        parts = [bytes((rng.choice((0, 1, 255)) if self._is_wrong() else 0,)), self._varint(time), self._varint(delta)]
        parts += (
            self._sized(rng.choice(KEYS) if not self._is_wrong(SELDOM) else None),
            self._sized(rng.choice(VALUES)),
        )
        headers = rng.choice((0, 0, 0, 1, 3))
        parts.append(self._varint(headers if not self._is_wrong() else rng.choice((*DELTAS, headers + 1))))
        for _ in range(headers):
            parts += (self._sized(rng.choice(NAMES)), self._sized(rng.choice(VALUES)))
        body = b"".join(parts)
        if self._is_wrong():
            body = self._spoilt(body)
        return self._varint(len(body) if not self._is_wrong() else rng.choice((*DELTAS, len(body) + 1))) + body

    def _sized(self, data: bytes | None) -> bytes:
        size = -1 if data is None else len(data)
        return self._varint(size if not self._is_wrong() else self._rng.choice((*DELTAS, size + 1))) + (data or b"")

    def _varint(self, value: int) -> bytes:
        """Zigzag; now and then longer than it need be, or than it may be."""
        rest = value << 1 if value >= 0 else (~value << 1) | 1
        encoded = bytearray()
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
        if self._is_wrong():
            encoded[-1] |= 0x80
            encoded += b"\x80" * self._rng.choice((0, 1, 3, 7, 8, 9, 20)) + self._rng.choice((b"\x00", b"\x01", b""))
        return bytes(encoded)

    def _spoilt(self, data: bytes) -> bytes:
        """Cut off, longer, or with other bytes."""
        rng = self._rng
        match rng.randrange(5):
            case 0:
                return data[: rng.randrange(len(data) + 1)]
            case 1:
                return data + rng.randbytes(rng.choice((1, 7, 61)))
            case 2:
                return b""
            case 3:
                return data + bytes(rng.choice((1, 500)))
            case _:
                changed = bytearray(data)
                for _ in range(rng.randrange(1, 4) if changed else 0):
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
                return bytes(changed)

    # -- codecs -----------------------------------------------------------------------------------------------------

    def _compressed(self, body: bytes) -> tuple[int, bytes]:
        """The codec that the header names, and what the batch holds."""
        rng = self._rng
        codec = Compression(rng.randrange(1, 5))
        named = int(codec) if not self._is_wrong() else rng.randrange(8)
        if self._is_wrong():
            body = bytes(rng.choice((10_000, 300_000))) if rng.random() < 0.5 else compress(codec, body)  # bomb, nest
        at = rng.randrange(len(body) + 1)
        match codec:
            case Compression.GZIP if self._is_wrong(3):
                packed = zlib.compress(body[:at], 1, wbits=31) + zlib.compress(body[at:], 9, wbits=31)
            case Compression.SNAPPY if self._is_wrong(3):
                packed = bytes(snappy.compress_raw(body))
            case Compression.LZ4 if self._is_wrong(3):
                packed = bytes(lz4.compress(body[:at])) + bytes(lz4.compress(body[at:]))
            case Compression.ZSTD if self._is_wrong(3):
                packed = bytes(zstd.compress(body[:at], 1)) + bytes(zstd.compress(body[at:], 19))
            case _:
                packed = compress(codec, body)
        return named, self._spoilt(packed) if self._is_wrong(2) else packed
