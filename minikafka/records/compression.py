"""The codecs of a record batch's body, in the framings that Apache Kafka's clients write and accept.

========  ===================================================================================================
gzip      RFC 1952
snappy    xerial's framing (snappy-java): a 16-byte header, then blocks, each an int32 length and raw snappy.
          Raw snappy without it, as librdkafka writes, is read too, as the Java client does
lz4       LZ4 frame with independent blocks of 64 KiB: the Java client refuses linked blocks, which are the default
          of most LZ4 libraries. All valid frames are read
zstd      RFC 8878
========  ===================================================================================================

:func:`decompress` never lets more than ``max_bytes`` come out, whatever the input claims: output buffers grow with what
has been produced, and the declared sizes of a frame are not believed. ``cramjam`` is imported at the first use of a
codec that needs it, as a broker seldom does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final, NoReturn

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import Buffer

_GZIP_WBITS: Final = 31
_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 9
_LZ4_FAST: Final = 1
_ZSTD_LEVEL: Final = 3

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since version 1
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_INT32: Final = Struct(">i")
_SNAPPY_MAX_RATIO: Final = 32  # its densest element is 3 bytes for 64; what declares more lies

_FIRST_OUTPUT_FACTOR: Final = 8  # of the input's size
_OUTPUT_GROWTH_FACTOR: Final = 4
_MIN_OUTPUT_BYTES: Final = 4096


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed; ``level`` is the codec's own: gzip 1 to 9, lz4 1 to 17 (9 is fast, the others are thorough,
    as in Apache Kafka), zstd -131072 to 22. snappy has none."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(data, _GZIP_LEVEL if level is None else level, wbits=_GZIP_WBITS)
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            from cramjam import zstd

            return bytes(zstd.compress(data, _ZSTD_LEVEL if level is None else level))


def decompress(codec: Compression, data: Buffer, max_bytes: int) -> bytes:
    """``data`` decompressed; KafkaError(MESSAGE_TOO_LARGE) beyond ``max_bytes``, CORRUPT_MESSAGE if it is damaged."""
    match codec:
        case Compression.NONE:
            return bytes(data) if len(data) <= max_bytes else _too_large(codec, max_bytes)
        case Compression.GZIP:
            return _decompress_gzip(data, max_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Compression.LZ4:
            from cramjam import lz4

            return _decompress_growing(codec, lz4.decompress_into, data, max_bytes)
        case Compression.ZSTD:
            from cramjam import zstd

            return _decompress_growing(codec, zstd.decompress_into, data, max_bytes)


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    members: list[bytes] = []
    produced = 0
    while True:
        inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
        try:
            member = inflater.decompress(data, max_bytes - produced + 1)  # one more than allowed shows an excess
        except zlib.error as error:
            _corrupt(Compression.GZIP, error)
        produced += len(member)
        if produced > max_bytes:
            _too_large(Compression.GZIP, max_bytes)
        if not inflater.eof:
            _corrupt(Compression.GZIP, "it ends too early")
        members.append(member)
        data = inflater.unused_data
        if not data:
            return b"".join(members)


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes, 0)
    blocks: list[bytes] = []
    produced = 0
    position = len(_XERIAL_HEADER)
    while position < len(view):
        start = position + _INT32.size
        if start > len(view):
            _corrupt(Compression.SNAPPY, "it ends too early")
        position = start + _INT32.unpack_from(view, position)[0]
        if not start < position <= len(view):
            _corrupt(Compression.SNAPPY, "a block has an impossible length")
        blocks.append(_decompress_snappy_block(view[start:position], max_bytes, produced))
        produced += len(blocks[-1])
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, max_bytes: int, produced: int) -> bytes:
    """Raw snappy, whose first bytes declare the output's size and so allow to refuse it before it is allocated."""
    import cramjam
    from cramjam import snappy

    try:
        size = snappy.decompress_raw_len(block)
        if produced + size > max_bytes:
            _too_large(Compression.SNAPPY, max_bytes)
        if size > len(block) * _SNAPPY_MAX_RATIO:
            _corrupt(Compression.SNAPPY, f"{len(block)} bytes cannot hold the {size} they declare")
        output = bytearray(size)
        snappy.decompress_raw_into(block, output)
        return bytes(output)
    except cramjam.DecompressionError as error:
        _corrupt(Compression.SNAPPY, error)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    from cramjam import lz4

    is_fast = level is None or level == _LZ4_LEVEL
    compressor = lz4.Compressor(_LZ4_FAST if is_fast else level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _decompress_growing(
    codec: Compression, decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int
) -> bytes:
    """Decompress into a buffer of a likely size, and into larger ones while it does not fit, up to ``max_bytes``.

    All attempts together cost at most a third more than the last (sizes are a geometric series).
    """
    import cramjam

    size = min(max(len(data) * _FIRST_OUTPUT_FACTOR, _MIN_OUTPUT_BYTES), max_bytes)
    while True:
        output = bytearray(size)
        try:
            produced = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):  # the one sign that the output, not the input, was at fault
                _corrupt(codec, error)
            if size == max_bytes:
                _too_large(codec, max_bytes)
            size = min(size * _OUTPUT_GROWTH_FACTOR, max_bytes)
        else:
            return bytes(memoryview(output)[:produced])


def _too_large(codec: Compression, max_bytes: int) -> NoReturn:
    raise KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{codec.name.lower()} data decompresses to more than the {max_bytes} bytes allowed; send smaller batches",
    )


def _corrupt(codec: Compression, what: object) -> NoReturn:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{codec.name.lower()} data cannot be decompressed: {what}")
