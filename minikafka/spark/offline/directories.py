"""Finds log directories, the replicas in them, and their segments. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os.path import abspath, basename, dirname
from typing import Final, NamedTuple

from minikafka.model import TopicPartition
from minikafka.spark.options import OptionError
from minikafka.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, OffsetCheckpoint
from minikafka.storage.directory_names import parse_directory_name
from minikafka.storage.disk import Disk
from minikafka.storage.leftovers import log_files
from minikafka.storage.meta import META_FILE, MetaError, read_meta
from minikafka.storage.segment_names import LOG_SUFFIX, file_name

DEPTH_MAX: Final = 3  # a cluster's directory has directories of nodes, and these have log directories


class LogDirectory(NamedTuple):
    """A log directory and its node's id, if it has one; ``only``: the one partition that a path named."""

    path: str
    node_id: int | None
    only: TopicPartition | None = None


class Segment(NamedTuple):
    """A ``.log`` file at the time of the look-up."""

    path: str
    base_offset: int
    size_bytes: int


class Replica(NamedTuple):
    """One node's log of a partition. ``high_watermark`` is None if its directory has none."""

    tp: TopicPartition
    directory: LogDirectory
    log_start_offset: int
    high_watermark: int | None
    segments: tuple[Segment, ...]

    @property
    def end_hint(self) -> int:
        """Base offset of its last segment: a lower bound of the end."""
        return self.segments[-1].base_offset if self.segments else self.log_start_offset


def find_log_directories(disk: Disk, paths: Iterable[str]) -> list[LogDirectory]:
    """All log directories at or below these paths, each once. Raises OptionError for a path without any."""
    found: dict[LogDirectory, None] = {}
    for path in map(abspath, paths):
        if not disk.is_dir(path):
            raise OptionError(f"option 'path': directory {path} not found")
        directories = list(_at_or_below(disk, path, DEPTH_MAX)) or list(_of_partition(disk, path))
        if not directories:
            raise OptionError(f"option 'path': {path} is not a log directory, and contains none")
        found.update(dict.fromkeys(directories))
    return list(found)


def find_replicas(disk: Disk, directory: LogDirectory, wants: Callable[[str], bool]) -> list[Replica]:
    """The replicas of the wanted topics in one log directory."""
    high_watermarks = OffsetCheckpoint(disk, directory.path, HIGH_WATERMARK_FILE).read()
    log_starts = OffsetCheckpoint(disk, directory.path, LOG_START_FILE).read()
    replicas = []
    for name in sorted(disk.listdir(directory.path)):
        tp = parse_directory_name(name)
        if tp is None or not wants(tp.topic) or directory.only not in (None, tp):
            continue
        segments = _segments(disk, f"{directory.path}/{name}")
        start = log_starts.get(tp, segments[0].base_offset if segments else 0)
        replicas.append(Replica(tp, directory, start, high_watermarks.get(tp), segments))
    return replicas


def _segments(disk: Disk, path: str) -> tuple[Segment, ...]:
    found = []
    for base_offset in log_files(disk, path):
        segment = f"{path}/{file_name(base_offset)}{LOG_SUFFIX}"
        found.append(Segment(segment, base_offset, disk.size(segment)))
    return tuple(found)


def _at_or_below(disk: Disk, path: str, depth: int) -> Iterator[LogDirectory]:
    children = sorted(disk.listdir(path))
    if META_FILE in children or any(_is_partition(disk, f"{path}/{name}") for name in children):
        yield LogDirectory(path, _node_id(disk, path))
    elif depth:
        for name in children:
            if disk.is_dir(f"{path}/{name}"):
                yield from _at_or_below(disk, f"{path}/{name}", depth - 1)


def _of_partition(disk: Disk, path: str) -> Iterator[LogDirectory]:
    if _is_partition(disk, path):
        parent = dirname(path)
        yield LogDirectory(parent, _node_id(disk, parent), parse_directory_name(basename(path)))


def _is_partition(disk: Disk, path: str) -> bool:
    return parse_directory_name(basename(path)) is not None and disk.is_dir(path) and bool(log_files(disk, path))


def _node_id(disk: Disk, path: str) -> int | None:
    try:
        meta = read_meta(disk, path)
    except MetaError:
        return None
    return None if meta is None else meta.node_id
