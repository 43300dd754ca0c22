"""A lake on disk: its creation, its commits, and its recovery after a crash.

One archive at a time writes to a lake: it holds the lock, which ends with its process.

A commit has these steps, and may be interrupted between any two:

1. Tasks write complete files below ``_minikafka/staging/TOKEN``. Interrupted: the next writer removes
   them.
2. The commit is written, and linked to its name. **From here on it is valid.**
3. Its files are renamed into the readers' directories. Interrupted: the next writer renames the rest.

So a reader of the directory sees complete files only, and no offset twice. During step 3 it may see a part of a
commit's files. For compacted files, step 3 exchanges a day's directory for a prepared one, with the new files and links
to the others: a reader sees the one or the other. (Linux and macOS can exchange directories. On other systems it sees
neither for a moment.) A reader that listed the directory before does not find the replaced files: it fails, and must
run again.

The commits define a lake; it needs no checkpoint of Spark. Opening a lake checks its files against the commits: a copy
that was made during a write may differ. A commit also drops old days: step 3 moves their directories below staging,
where they are removed. The archived ranges of partitions stay, so that no offset is archived a second time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive import layout
from minikafka.spark.pipelines.archive.exchange import exchange
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.archive.manifest import FORMAT, Commit, Manifest, Staged
from minikafka.spark.pipelines.archive.state import (
    WAY_OUT,
    WAYS_OUT,
    Identity,
    check_files,
    find_identity,
    local_directory,
    read_commit,
    read_manifest,
    versions,
)
from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.topics import Extent

COMMITS_PER_SNAPSHOT: Final = 64
IsDropped = Callable[[DataFile], bool]

_NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"  # in a path, for readers: null


class Lake:
    """A lake that is open for writing. See the module."""

    def __init__(self, directory: Path, identity: Identity, manifest: Manifest, is_dropped: IsDropped) -> None:
        self.directory = directory
        self.identity = identity
        self.manifest = manifest
        self.dropped_files = 0
        self._is_dropped = is_dropped
        self._is_publishing = False  # a valid commit may have its files still below staging

    @classmethod
    @contextmanager
    def opened(cls, to: str | Path, *, cluster_id: str, is_dropped: IsDropped = lambda file: False) -> Iterator[Lake]:
        """Create or open a lake, without the dropped days: their files may be missing already.

        Raises PipelineError if the directory is no lake, damaged, or in use.
        """
        directory = local_directory(to)
        _check_is_lake_or_new(directory)
        directory.joinpath(layout.COMMITS).mkdir(parents=True, exist_ok=True)
        directory.joinpath(layout.STAGING).mkdir(exist_ok=True)
        with _locked(directory):
            identity, manifest = find_identity(directory), read_manifest(directory)
            if identity is None and manifest.version:  # it comes before all commits
                raise PipelineError(f"{directory} is damaged: {layout.IDENTITY} is missing; {WAY_OUT}")
            lake = cls(directory, identity or Identity(cluster_id, {}), manifest, is_dropped)
            if lake.identity.cluster_id != cluster_id:
                raise PipelineError(
                    f"{directory} holds topics of the cluster {lake.identity.cluster_id}, and this is {cluster_id}; "
                    f"choose another directory"
                )
            lake._recover()
            lake._drop()
            check_files(directory, lake.manifest)
            yield lake

    # -- topics -----------------------------------------------------------------------------------------------------

    def take_in(self, topic_ids: Mapping[str, str], *, add: bool = False) -> None:
        """Check that these topics belong to the lake; ``add`` adds new ones. Raises PipelineError."""
        known = self.identity.topic_ids
        for topic, topic_id in topic_ids.items():
            if topic == _NO_NAME:
                raise PipelineError(f"cannot archive {topic}: readers of a lake take this name for a missing one")
            if known and topic not in known and not add:
                raise PipelineError(
                    f"{self.directory} is the lake of {', '.join(sorted(known))}; "
                    f"add {topic} with --add, or choose another directory"
                )
            if known.get(topic, topic_id) != topic_id:
                raise PipelineError(
                    f"{topic} was deleted and created again since it was archived, and its offsets begin again; "
                    f"archive it into another directory"
                )
        if topic_ids.keys() - known.keys():
            self.identity = Identity(self.identity.cluster_id, {**known, **topic_ids})
            text = json.dumps(
                {"format": FORMAT, "cluster_id": self.identity.cluster_id, "topics": self.identity.topic_ids}, indent=2
            )
            _write_and_sync(self.directory / f"{layout.IDENTITY}.new", text + "\n")
            os.replace(self.directory / f"{layout.IDENTITY}.new", self.directory / layout.IDENTITY)
            _sync(self.directory / layout.OF_LAKE)

    # -- commits ----------------------------------------------------------------------------------------------------

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A directory for unfinished files. The rest is removed at the end, unless a commit may name it."""
        directory = self.directory / layout.STAGING / uuid4().hex
        directory.mkdir()
        try:
            yield directory
        finally:
            if not self._is_publishing:
                shutil.rmtree(directory, ignore_errors=True)

    def append(self, ranges: Mapping[TopicPartition, Extent], added: Sequence[Staged]) -> None:
        """Commit archived ranges: ``added`` has all their records."""
        self._commit(Commit(self.manifest.version + 1, ranges, tuple(added), at_ms=int(time.time() * 1000)))

    def replace(self, replaced: Sequence[tuple[Sequence[DataFile], Staged]]) -> None:
        """Commit the replacement of files by one with the same records, for each pair."""
        removed = [file.path for files, _ in replaced for file in files]
        added = tuple(staged for _, staged in replaced)
        for files, staged in replaced:
            assert staged.file.rows == sum(file.rows for file in files), f"{staged.file} is not what it replaces"
        with self.staging() as directory:
            swaps = self._prepare_swaps(directory, added, frozenset(removed))
            at_ms = int(time.time() * 1000)
            self._commit(Commit(self.manifest.version + 1, {}, added, tuple(removed), swaps, at_ms))

    def _drop(self) -> None:
        """Commit the removal of days. All files of a day are dropped, or none."""
        dropped = [path for path, file in self.manifest.files.items() if self._is_dropped(file)]
        if dropped:
            at_ms = int(time.time() * 1000)
            self._commit(Commit(self.manifest.version + 1, removed=tuple(dropped), at_ms=at_ms))
            self.dropped_files = len(dropped)

    def _prepare_swaps(self, directory: Path, added: Sequence[Staged], removed: frozenset[str]) -> dict[str, str]:
        """For each changed directory a new one, with links to remaining and new files."""
        by_directory: dict[str, list[Staged]] = defaultdict(list)
        for staged in added:
            by_directory[staged.file.directory].append(staged)
        swaps = {}
        staying = [file for path, file in self.manifest.files.items() if path not in removed]
        for number, (path, new) in enumerate(by_directory.items()):
            twin = directory / f"day-{number}"
            twin.mkdir()
            for file in staying:
                if file.directory == path:
                    os.link(self.directory / file.path, twin / file.name)
            for file, staged_at in new:
                os.link(self.directory / layout.STAGING / staged_at, twin / file.name)
            _sync(twin)
            swaps[path] = f"{directory.name}/{twin.name}"
        return swaps

    def _commit(self, commit: Commit) -> None:
        assert not self._is_publishing, "a lake that was interrupted must be opened anew"
        after = self.manifest.after(commit)
        for token in {staged.partition("/")[0] for _, staged in commit.added}:
            _sync(self.directory / layout.STAGING / token)
        _sync(self.directory / layout.STAGING)
        self._is_publishing = True
        self._write(layout.commit_name(commit.version), commit.as_dict())
        self.manifest = after
        self._publish(commit)
        self._is_publishing = False
        if commit.version % COMMITS_PER_SNAPSHOT == 0:
            self._write_snapshot()

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write a file as a whole or not at all, and never twice."""
        commits = self.directory / layout.COMMITS
        unfinished = commits / f".{name}.{uuid4().hex}"
        _write_and_sync(unfinished, json.dumps(fields, separators=(",", ":")) + "\n")
        try:
            os.link(unfinished, commits / name)
        except FileExistsError:
            raise PipelineError(f"another archive writes to {self.directory}: {name} is there already") from None
        finally:
            unfinished.unlink()
        _sync(commits)

    def _write_snapshot(self) -> None:
        """Write a snapshot of all commits. It replaces those before the last, which may have to be published."""
        self._write(layout.snapshot_name(self.manifest.version), self.manifest.as_dict())
        commits = self.directory / layout.COMMITS
        for version, is_snapshot in versions(commits):
            if version < self.manifest.version:
                name = layout.snapshot_name(version) if is_snapshot else layout.commit_name(version)
                commits.joinpath(name).unlink()

    def _publish(self, commit: Commit) -> None:
        """Step 3, as far as it is not done yet."""
        if commit.swaps:
            for path, twin in commit.swaps.items():
                self._swap(path, self.directory / layout.STAGING / twin, commit)
            return
        if commit.removed and not commit.added:
            self._take_away({path.rpartition("/")[0] for path in commit.removed})
            return
        changed = {self.directory}
        for file, staged in commit.added:
            source, target = self.directory / layout.STAGING / staged, self.directory / file.path
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(source, target)
                changed.update((target.parent, target.parent.parent))
            elif not target.exists() and not self._is_dropped(file):
                raise PipelineError(
                    f"{self.directory} is damaged: {file.path} of commit {commit.version} is missing; {WAYS_OUT}"
                )
        for directory in changed:
            _sync(directory)

    def _swap(self, path: str, twin: Path, commit: Commit) -> None:
        current = self.directory / path
        added = [file for file, _ in commit.added if file.directory == path]
        if all((self.directory / file.path).exists() or self._is_dropped(file) for file in added):
            return
        if not twin.is_dir():
            raise PipelineError(
                f"{self.directory} is damaged: the files of commit {commit.version} in {path} are gone; {WAYS_OUT}"
            )
        if not current.exists():
            os.rename(twin, current)
        elif not exchange(twin, current):
            os.rename(current, twin.with_name(f"{twin.name}-before"))
            os.rename(twin, current)
        _sync(current.parent)

    def _take_away(self, days: Collection[str]) -> None:
        """Remove whole directories at once: no reader sees a part of a day."""
        directory = self.directory / layout.STAGING / uuid4().hex
        directory.mkdir()
        for number, day in enumerate(days):
            with suppress(FileNotFoundError):  # by hand, or before it was cut off
                os.rename(self.directory / day, directory / f"day-{number}")
                _sync(self.directory.joinpath(day).parent)
        shutil.rmtree(directory, ignore_errors=True)

    def _recover(self) -> None:
        """Publish the last commit, whose step 3 may have been interrupted, and remove files of no commit."""
        commits, version = self.directory / layout.COMMITS, self.manifest.version
        if version:
            self._publish(read_commit(commits / layout.commit_name(version)))
        for leftover in [*self.directory.joinpath(layout.STAGING).iterdir(), *commits.glob(".*")]:
            shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)


def _check_is_lake_or_new(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise PipelineError(f"{directory} is a file; choose a directory")
    if directory.is_dir() and not directory.joinpath(layout.OF_LAKE).is_dir() and any(directory.iterdir()):
        raise PipelineError(f"{directory} is neither empty nor a lake; choose an empty or a new directory")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with directory.joinpath(layout.LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"another archive writes to {directory}; wait for it, or stop it") from None
        yield


def _write_and_sync(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Make renames into a directory survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
