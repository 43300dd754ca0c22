"""Lakes of earlier versions become Delta tables in place: files stay, the manifest becomes the first commit.

The manifest is in ``_minikafka/commits``: the newest ``N.snapshot.json``, and each ``N.json`` behind it. Files of the
last commit may still be below ``_minikafka/staging``. The table is made in one commit; then ``_minikafka`` is renamed,
so that an earlier version refuses the directory.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import create
from minikafka.spark.pipelines.archive.places import OLD_FORMAT, is_lake, is_of_old_format, location
from minikafka.spark.pipelines.archive.writing import DataFile
from minikafka.spark.pipelines.running import PipelineError, few


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a lake holds."""

    topics: tuple[str, ...]
    partitions: int
    files: int
    records: int


def take_over(directory: str | Path, *, dry_run: bool = False) -> TakenOver:
    """Make a lake of an earlier version a Delta table. After ``kill -9``, calling it again goes on.

    Raises PipelineError for a damaged lake, and for one that another archive writes to; nothing is changed then.
    """
    lake = Path(location(directory))
    if not is_of_old_format(str(lake)):
        raise PipelineError(f"{lake} is no lake of an earlier minikafka")
    with _locked(lake / OLD_FORMAT):
        try:
            identity = json.loads((lake / OLD_FORMAT / "lake.json").read_text())
            files, ends, last = _manifest(lake / OLD_FORMAT / "commits")
            staged = {_path(each): each[-1] for each in last.get("added", ())}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{lake} is damaged: {error}") from None
        moves = {
            path: lake / OLD_FORMAT / "staging" / staged[path]
            for path in files.keys() & staged.keys()
            if not (lake / path).exists()
        }
        sizes = {path: file.size_bytes for path, file in files.items()}
        if wrong := sorted(path for path in files if _size(moves.get(path, lake / path)) != sizes[path]):
            raise PipelineError(f"{lake} is damaged: {few(wrong)} is missing or cut")
        if not dry_run:
            for path, source in moves.items():
                (lake / path).parent.mkdir(parents=True, exist_ok=True)
                os.rename(source, lake / path)
            if not is_lake(str(lake)):
                create(str(lake), identity["cluster_id"], identity["topics"], ends, list(files.values()))
            os.rename(lake / OLD_FORMAT, lake / f"{OLD_FORMAT}.before")
    rows = sum(file.rows for file in files.values())
    return TakenOver(tuple(sorted(identity["topics"])), len(ends), len(files), rows)


def _manifest(commits: Path) -> tuple[dict[str, DataFile], dict[TopicPartition, OffsetAndEpoch], dict[str, Any]]:
    """Files by path, ends, and the last commit."""
    names = sorted(path.name for path in commits.glob("[0-9]*.json"))
    newest = max((name for name in names if name.endswith(".snapshot.json")), default="")
    files: dict[str, DataFile] = {}
    ends: dict[TopicPartition, OffsetAndEpoch] = {}
    last: dict[str, Any] = {}
    for name in names:
        found = json.loads((commits / name).read_text())
        if name == newest:
            files = {_path(each): _file(each) for each in found["files"]}
            ends = {tp: OffsetAndEpoch(offset, NO_EPOCH) for tp, offset in _by_partition(found["ends"])}
        elif not name.endswith(".snapshot.json"):
            last = found
            if name > newest:
                for path in found["removed"]:
                    del files[path]
                files |= {_path(each): _file(each) for each in found["added"]}
                ends |= {tp: OffsetAndEpoch(offset, NO_EPOCH) for tp, (_, offset) in _by_partition(found["ranges"])}
    return files, ends, last


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _path(fields: list[Any]) -> str:
    topic, date, partition, first, last = fields[:5]
    return f"topic={topic}/date={date}/{partition:05d}-{first:020d}-{last:020d}.parquet"


def _file(fields: list[Any]) -> DataFile:
    return DataFile(_path(fields), *fields[:7])


def _by_partition(nested: dict[str, dict[str, Any]]) -> Iterator[tuple[TopicPartition, Any]]:
    for topic, of_topic in nested.items():
        for number, value in of_topic.items():
            yield TopicPartition(topic, int(number)), value


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"an archive of an earlier version writes to {directory.parent}; stop it") from None
        yield
