"""A batch in another codec: what a leader does where a topic's ``compression.type`` names one.

The header stays as it was, but for length, codec and CRC; what is inside is not looked at, as everywhere in a broker.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.model import Compression
from minikafka.records.batch import COMPRESSION_MASK, HEADER_SIZE, BatchHeader, Buffer, parse_header, write_header
from minikafka.records.compression import compress, decompress

MAX_BYTES: Final = 32 * 1024 * 1024
"""What a batch may decompress to in a broker."""


class Codec(NamedTuple):
    """How a topic's batches are to be compressed. ``level``: the codec's own, None for its default."""

    compression: Compression
    level: int | None = None

    def is_of(self, header: BatchHeader) -> bool:
        """True when the batch is like that already. Levels cannot be told afterwards."""
        return header.attributes & COMPRESSION_MASK == self.compression


def recompress(batch: Buffer, codec: Codec, max_bytes: int = MAX_BYTES) -> bytearray:
    """The batch in ``codec``, even if that makes it larger. KafkaError: CORRUPT_MESSAGE when it cannot be decompressed,
    MESSAGE_TOO_LARGE when more than ``max_bytes`` come out."""
    header = parse_header(batch)
    body = decompress(header.compression, memoryview(batch)[HEADER_SIZE:], max_bytes)
    recompressed = bytearray(HEADER_SIZE) + compress(codec.compression, body, codec.level)
    write_header(recompressed, header._replace(attributes=header.attributes & ~COMPRESSION_MASK | codec.compression))
    return recompressed
