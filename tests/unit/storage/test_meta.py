from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import ZERO_TOPIC_ID
from minikafka.storage.disk import OsDisk
from minikafka.storage.meta import (
    DirectoryMeta,
    MetaError,
    format_uuid,
    parse_uuid,
    read_meta,
    read_topic_id,
    write_meta,
    write_topic_id,
)


@given(st.uuids())
def test_a_uuid_is_spelled_as_kafka_does_and_comes_back(uuid: UUID) -> None:
    text = format_uuid(uuid)
    assert len(text) == 22
    assert parse_uuid(text) == uuid


def test_known_spellings() -> None:
    assert format_uuid(ZERO_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert format_uuid(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    with pytest.raises(ValueError, match="bytes"):
        parse_uuid("AAAA")


def test_meta_properties(disk: OsDisk, tmp_path: Path) -> None:
    assert read_meta(disk, str(tmp_path)) is None
    meta = DirectoryMeta("cluster", 3, UUID(int=9))
    write_meta(disk, str(tmp_path), meta)
    assert read_meta(disk, str(tmp_path)) == meta
    assert (tmp_path / "meta.properties").read_text() == (
        "#\ncluster.id=cluster\ndirectory.id=AAAAAAAAAAAAAAAAAAAACQ\nnode.id=3\nversion=1\n"
    )


@pytest.mark.parametrize("text", ["", "version=0\ncluster.id=a\nbroker.id=1\n", "version=1\ncluster.id=a\nnode.id=x\n"])
def test_meta_properties_that_make_no_sense_are_refused(disk: OsDisk, tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(MetaError, match=r"meta\.properties"):
        read_meta(disk, str(tmp_path))


def test_meta_properties_that_are_no_text_are_refused(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"version=1\n\xff")
    with pytest.raises(MetaError, match=r"meta\.properties is damaged"):
        read_meta(disk, str(tmp_path))


def test_partition_metadata(disk: OsDisk, tmp_path: Path) -> None:
    assert read_topic_id(disk, str(tmp_path)) == ZERO_TOPIC_ID
    write_topic_id(disk, str(tmp_path), UUID(int=1))
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert read_topic_id(disk, str(tmp_path)) == UUID(int=1)
    (tmp_path / "partition.metadata").write_bytes(bytes(43))
    assert read_topic_id(disk, str(tmp_path)) == ZERO_TOPIC_ID
