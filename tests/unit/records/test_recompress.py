"""A batch in another codec is the same batch."""

from __future__ import annotations

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import crc_is_valid, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.recompress import Codec, recompress
from minikafka.records.record import Record

RECORDS = [Record(at, 1_000 + at, b"k%d" % at, b"value " * 30, ((("h", b"1"),))) for at in range(20)]


@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
def test_nothing_but_the_codec_changes(source: Compression, target: Compression) -> None:
    batch = build_batch(RECORDS, compression=source, producer_id=7, producer_epoch=2, base_sequence=5, base_offset=40)
    header = parse_header(batch)
    changed = recompress(batch, Codec(target))
    other = parse_header(changed)
    assert (crc_is_valid(changed, 0, other), other.compression, len(changed)) == (True, target, other.batch_length + 12)
    assert Codec(target).is_of(other)
    unlike = {"attributes": 0, "crc": 0, "batch_length": 0}
    assert other._replace(**unlike) == header._replace(**unlike)
    assert list(iter_records(changed, 0, other)) == list(iter_records(batch, 0, header))


def test_a_batch_is_compressed_even_if_it_grows() -> None:
    batch = build_batch(RECORDS[:1])
    assert parse_header(recompress(batch, Codec(Compression.GZIP))).compression is Compression.GZIP


def test_a_bomb_is_refused() -> None:
    bomb = build_batch([Record(0, 0, None, b"x" * 100_000)], compression=Compression.ZSTD)
    with pytest.raises(KafkaError, match="decompresses to more") as refused:
        recompress(bomb, Codec(Compression.NONE), max_bytes=1_000)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
