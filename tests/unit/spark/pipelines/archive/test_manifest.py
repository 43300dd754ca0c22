from __future__ import annotations

import json

import pytest

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.archive.manifest import Commit, Manifest, Staged
from minikafka.spark.pipelines.topics import Extent

HERE = TopicPartition("orders", 0)


def file_of(first: int, last: int) -> DataFile:
    return DataFile("orders", "2026-11-21", 0, first, last, last - first + 1, 100)


def append(version: int, start: int, end: int) -> Commit:
    return Commit(version, {HERE: Extent(start, end)}, (Staged(file_of(start, end - 1), f"t/{version}"),))


def test_commits_add_up() -> None:
    manifest = Manifest().after(append(1, 0, 10)).after(append(2, 10, 15))
    assert manifest.ends == {HERE: 15}
    compacted = manifest.after(
        Commit(3, {}, (Staged(file_of(0, 14), "t/3"),), (file_of(0, 9).path, file_of(10, 14).path), {"a": "t/day-0"})
    )
    assert list(compacted.files.values()) == [file_of(0, 14)]
    assert compacted.ends == {HERE: 15}


def test_both_survive_json() -> None:
    commit = Commit(3, {HERE: Extent(5, 9)}, (Staged(file_of(5, 8), "t/3"),), ("x",), {"a": "t/day-0"}, 4711)
    assert Commit.of(json.loads(json.dumps(commit.as_dict()))) == commit
    manifest = Manifest().after(append(1, 0, 10))
    assert Manifest.of(json.loads(json.dumps(manifest.as_dict()))) == manifest


@pytest.mark.parametrize(
    "commit",
    [
        append(3, 10, 15),
        append(2, 9, 15),
        Commit(2, {}, (Staged(file_of(0, 9), "t/2"),)),
        Commit(2, {}, (), ("topic=orders/none",)),
    ],
    ids=["a commit is missing", "offsets again", "a file again", "no such file"],
)
def test_what_contradicts_is_refused(commit: Commit) -> None:
    with pytest.raises(ValueError, match=r"commit \d"):
        Manifest().after(append(1, 0, 10)).after(commit)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format is 2"):
        Commit.of(append(1, 0, 1).as_dict() | {"format": 2})
