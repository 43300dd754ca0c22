"""The content of a lake by its commits (pure).

A commit has archived ranges of offsets, added files and removed files. A manifest is the result of all commits up to a
version. Invariant: a partition's ranges are adjacent, and every offset of the topic below its end is in exactly one
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.topics import Extent

FORMAT: Final = 1


class Staged(NamedTuple):
    """A file that a commit adds, with its path below the staging directory."""

    file: DataFile
    staged: str


@dataclass(frozen=True, slots=True)
class Commit:
    """One step of a lake. ``swaps`` maps directories to their replacements below the staging directory."""

    version: int
    ranges: Mapping[TopicPartition, Extent] = field(default_factory=dict)
    added: tuple[Staged, ...] = ()
    removed: tuple[str, ...] = ()
    swaps: Mapping[str, str] = field(default_factory=dict)
    at_ms: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": FORMAT,
            "version": self.version,
            "at_ms": self.at_ms,
            "ranges": _by_topic(self.ranges),
            "added": [[*file, staged] for file, staged in self.added],
            "removed": list(self.removed),
            "swaps": dict(self.swaps),
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Commit:
        """From JSON. Raises KeyError, TypeError or ValueError when it is none of ours."""
        _check_format(fields)
        return cls(
            int(fields["version"]),
            {tp: Extent(*of) for tp, of in _by_partition(fields["ranges"])},
            tuple(Staged(DataFile(*each[:-1]), each[-1]) for each in fields["added"]),
            tuple(fields["removed"]),
            dict(fields["swaps"]),
            int(fields["at_ms"]),
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a lake after a version: files by path, and the next offset of each partition."""

    version: int = 0
    files: Mapping[str, DataFile] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def after(self, commit: Commit) -> Manifest:
        """The manifest after one more commit. Raises ValueError if the commit does not fit."""
        if commit.version != self.version + 1:
            raise ValueError(f"commit {commit.version} does not follow {self.version}")
        files = dict(self.files)
        for path in commit.removed:
            if files.pop(path, None) is None:
                raise ValueError(f"commit {commit.version} removes {path}, which is not there")
        for file, _ in commit.added:
            if file.path in files:
                raise ValueError(f"commit {commit.version} adds {file.path} a second time")
            files[file.path] = file
        ends = dict(self.ends)
        for tp, (start, end) in commit.ranges.items():
            if not ends.get(tp, 0) <= start <= end:
                raise ValueError(f"commit {commit.version} archives {tp} from {start} to {end} after {ends[tp]}")
            ends[tp] = end
        return Manifest(commit.version, files, ends)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        files = [list(file) for file in self.files.values()]
        return {"format": FORMAT, "version": self.version, "files": files, "ends": _by_topic(self.ends)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Manifest:
        """From JSON. Raises KeyError, TypeError or ValueError when it is none of ours."""
        _check_format(fields)
        files = [DataFile(*each) for each in fields["files"]]
        return cls(int(fields["version"]), {file.path: file for file in files}, dict(_by_partition(fields["ends"])))


def _check_format(fields: Mapping[str, Any]) -> None:
    if fields["format"] != FORMAT:
        raise ValueError(f"its format is {fields['format']}; this minikafka knows {FORMAT}")


def _by_topic(of: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for tp, value in sorted(of.items()):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = value
    return nested


def _by_partition(nested: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[TopicPartition, Any]]:
    for topic, of in nested.items():
        for partition, value in of.items():
            yield TopicPartition(topic, int(partition)), value
