"""The content of a lake on disk, read and checked. Reads only."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minikafka.spark.pipelines.archive import layout
from minikafka.spark.pipelines.archive.manifest import FORMAT, Commit, Manifest
from minikafka.spark.pipelines.running import PipelineError, few

WAY_OUT: Final = "put it back, or archive into another directory"
WAYS_OUT: Final = f"{WAY_OUT}; if old days were removed on purpose, --drop-before DATE lets the lake forget them"

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Identity:
    """Origin of a lake's records. A topic that was deleted and created again has a new id."""

    cluster_id: str
    topic_ids: Mapping[str, str]


def local_directory(to: str | Path) -> Path:
    """The directory of a lake. Raises PipelineError for a file system without safe renames."""
    text = str(to).removeprefix("file://")
    if "://" in text:
        raise PipelineError(
            f"{to} is not a directory: a lake needs a file system that all of Spark's machines have mounted, "
            f"because it becomes visible by renames; archive to a directory and copy it"
        )
    return Path(text).expanduser().resolve()


def read_identity(directory: Path) -> Identity:
    """The origin of the records. Raises PipelineError if there is no lake."""
    identity = find_identity(directory)
    if identity is None:
        raise PipelineError(
            f"{directory} is not a lake; create one with: minikafka pipeline archive TOPIC --to {directory}"
        )
    return identity


def read_manifest(directory: Path) -> Manifest:
    """The content after all commits. Raises PipelineError for damaged ones."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):  # a snapshot just replaced commits
            return _read_manifest(directory / layout.COMMITS)
    raise PipelineError(f"the commits of {directory} cannot be read")


def _read_manifest(commits: Path) -> Manifest:
    there = sorted(versions(commits))
    newest = max((version for version, is_snapshot in there if is_snapshot), default=0)
    try:
        manifest = Manifest()
        if newest:
            manifest = Manifest.of(json.loads(commits.joinpath(layout.snapshot_name(newest)).read_text()))
        for version, is_snapshot in there:
            if version > newest and not is_snapshot:
                manifest = manifest.after(read_commit(commits / layout.commit_name(version)))
        return manifest
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{commits} is damaged: {error}") from None


def versions(commits: Path) -> list[tuple[int, bool]]:
    """The commits and snapshots: ``(version, is_snapshot)``."""
    return [found for path in commits.iterdir() if (found := layout.parse_commit_name(path.name))]


def read_commit(path: Path) -> Commit:
    """One commit. Raises PipelineError for a damaged one."""
    try:
        return Commit.of(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{path} is damaged: {error}") from None


def find_identity(directory: Path) -> Identity | None:
    """The origin of the records; None if there is no lake yet. Raises PipelineError for a damaged file."""
    try:
        fields = json.loads(directory.joinpath(layout.IDENTITY).read_text())
        if fields["format"] != FORMAT:
            raise PipelineError(f"{directory} is a lake of format {fields['format']}; this minikafka knows {FORMAT}")
        return Identity(fields["cluster_id"], fields["topics"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{directory / layout.IDENTITY} is damaged: {error}") from None


def check_files(directory: Path, manifest: Manifest) -> None:
    """Raise PipelineError unless the directory has exactly the committed files, in their sizes. An additional file
    repeats
    records, a missing one loses some: for example in a copy that was made during a write, or was interrupted."""
    named: dict[str, set[str]] = defaultdict(set)
    for file in manifest.files.values():
        named[file.directory].add(file.name)
    found = {
        str(day.relative_to(directory)): {path.name for path in day.iterdir() if path.name[0] not in "._"}
        for day in directory.glob("topic=*/date=*")
    }
    if missing := _only_in(named, found):
        raise PipelineError(f"{directory} is damaged: {few(missing)} is missing; {WAYS_OUT}")
    if foreign := _only_in(found, named):
        raise PipelineError(
            f"{directory} contains {few(foreign)}, unknown to every commit; readers would read it: move it away"
        )
    whole = manifest.files.items()
    if cut := [path for path, file in whole if directory.joinpath(path).stat().st_size != file.size_bytes]:
        raise PipelineError(f"{directory} is damaged: {few(cut)} has a wrong size; {WAY_OUT}")


def _only_in(these: Mapping[str, set[str]], others: Mapping[str, set[str]]) -> list[str]:
    return sorted(f"{day}/{name}" for day, names in these.items() for name in names - others.get(day, set()))
