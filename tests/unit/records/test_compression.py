from __future__ import annotations

import gzip
import random
import struct
import tracemalloc

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.build import build_batch
from minikafka.records.compression import compress, decompress
from minikafka.records.read import iter_records
from minikafka.records.record import Record

LIMIT = 10_000_000
REAL_CODECS = [codec for codec in Compression if codec]
SAMPLES = [
    b"",
    b"a",
    b"minikafka " * 20_000,
    random.Random(1).randbytes(200_000),
    random.Random(2).randbytes(70_000) * 3,
]
AIOKAFKA_DECODE = {
    Compression.GZIP: aiokafka_codec.gzip_decode,
    Compression.SNAPPY: aiokafka_codec.snappy_decode,
    Compression.LZ4: aiokafka_codec.lz4_decode,
    Compression.ZSTD: aiokafka_codec.zstd_decode,
}
AIOKAFKA_ENCODE = {
    Compression.GZIP: aiokafka_codec.gzip_encode,
    Compression.SNAPPY: aiokafka_codec.snappy_encode,
    Compression.LZ4: aiokafka_codec.lz4_encode,
    Compression.ZSTD: aiokafka_codec.zstd_encode,
}


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("sample", SAMPLES, ids=len)
def test_round_trip_of_samples_from_any_buffer(codec: Compression, sample: bytes) -> None:
    for data in (sample, bytearray(sample), memoryview(sample)):
        compressed = compress(codec, data)
        assert decompress(codec, memoryview(compressed), LIMIT) == sample
    assert decompress(codec, compressed, len(sample)) == sample
    assert type(decompress(codec, compressed, LIMIT)) is bytes


@settings(deadline=None)
@pytest.mark.parametrize("codec", REAL_CODECS)
@given(data=st.binary(min_size=1, max_size=2_000))
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Compression, data: bytes) -> None:
    assert AIOKAFKA_DECODE[codec](compress(codec, data)) == data
    assert decompress(codec, AIOKAFKA_ENCODE[codec](data), LIMIT) == data


def test_a_higher_level_compresses_more() -> None:
    data = b"".join(b"%d," % (number * number) for number in range(5_000))
    for codec, low, high in ((Compression.GZIP, 1, 9), (Compression.ZSTD, 1, 19)):
        assert len(compress(codec, data, high)) < len(compress(codec, data, low))
        assert decompress(codec, compress(codec, data, high), LIMIT) == data


def test_lz4_blocks_are_independent_as_java_clients_demand() -> None:
    compressed = compress(Compression.LZ4, SAMPLES[2])
    magic, flags, block_descriptor = struct.unpack_from("<IBB", compressed)
    assert magic == 0x184D2204
    assert flags == 0b01_1_10000  # version 1, independent blocks with checksums, none of the whole, no sizes
    assert block_descriptor == 4 << 4  # 64 KiB
    assert bytes(cramjam.lz4.decompress(compressed)) == SAMPLES[2]  # and the header's checksum is right


def test_lz4_frames_with_linked_blocks_are_read() -> None:
    assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(SAMPLES[4])), LIMIT) == SAMPLES[4]


def test_snappy_has_the_header_of_snappy_java_and_is_read_without() -> None:
    compressed = compress(Compression.SNAPPY, SAMPLES[2])
    assert compressed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    raw = bytes(cramjam.snappy.compress_raw(SAMPLES[2]))
    assert decompress(Compression.SNAPPY, raw, LIMIT) == SAMPLES[2]


def test_gzip_members_in_a_row_are_one_stream() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"ab") + gzip.compress(b"cd"), 4) == b"abcd"


@pytest.mark.parametrize("codec", list(Compression))
def test_one_byte_too_many_is_refused(codec: Compression) -> None:
    for sample in SAMPLES[1:]:
        assert_error(ErrorCode.MESSAGE_TOO_LARGE, codec, compress(codec, sample), len(sample) - 1)


def assert_error(code: ErrorCode, codec: Compression, data: bytes, max_bytes: int = LIMIT) -> None:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, max_bytes)
    assert caught.value.code is code, caught.value


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("data", [b"", b"\x01", b"not compressed at all", b"\xff" * 40])
def test_garbage_is_corrupt(codec: Compression, data: bytes) -> None:
    assert_error(ErrorCode.CORRUPT_MESSAGE, codec, data)


def bomb(codec: Compression) -> bytes:
    """200 MB of zeros, or what the codec can make of them."""
    zeros = bytes(200_000_000)
    if codec is Compression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(zeros))
    return compress(codec, zeros)


@pytest.mark.spec("P6")
@pytest.mark.parametrize("codec", REAL_CODECS)
def test_bombs_are_refused_before_their_memory_is_taken(codec: Compression) -> None:
    packed = bomb(codec)
    tracemalloc.start()
    try:
        assert_error(ErrorCode.MESSAGE_TOO_LARGE, codec, packed, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_lying_snappy_length_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        assert_error(ErrorCode.CORRUPT_MESSAGE, Compression.SNAPPY, b"\xff\xff\xff\x0f\x00", 100_000_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_in_a_batch_is_refused_on_reading(codec: Compression) -> None:
    batch = build_batch([Record(0, 0, None, bytes(2_000_000))], compression=codec)
    assert len(batch) < 200_000
    with pytest.raises(KafkaError) as caught:
        list(iter_records(batch, max_bytes=1_000_000))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("tail", [b"\x00", b"\x00\x00\x00\x09", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x00"])
def test_damaged_snappy_framing_is_corrupt(tail: bytes) -> None:
    assert_error(ErrorCode.CORRUPT_MESSAGE, Compression.SNAPPY, compress(Compression.SNAPPY, b"abc") + tail)
