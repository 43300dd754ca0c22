"""The next ranges to archive, the check of written ones, and the files to compact (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.running import PipelineError, few
from minikafka.spark.pipelines.topics import Extent

TARGET_BYTES: Final = 128 << 20


def beginnings(
    ends: Mapping[TopicPartition, int], found: Mapping[TopicPartition, Extent]
) -> dict[TopicPartition, Extent]:
    """Beginnings of new partitions, as empty ranges: from there on no offset may be missed, even if a record is deleted
    before it is archived. A partition that was added to a topic later begins at 0."""
    known = {tp.topic for tp in ends}
    starts = {tp: 0 if tp.topic in known else first for tp, (first, _) in found.items() if tp not in ends}
    return {tp: Extent(start, start) for tp, start in starts.items()}


def missing_ranges(
    ends: Mapping[TopicPartition, int], found: Mapping[TopicPartition, Extent], *, skip_lost: bool = False
) -> dict[TopicPartition, Extent]:
    """Ranges of the topics (``found``: first and end offset) that the lake lacks, without empty ones.

    ``ends`` knows every partition, see :func:`beginnings`. Raises PipelineError if the topics have lost the
    next offsets, unless ``skip_lost`` goes on behind them; and if a partition ends before its archived end.
    """
    missing, lost = {}, []
    for tp, (first, end) in sorted(found.items()):
        start = ends[tp]
        if start > end:
            raise PipelineError(
                f"{tp} ends at offset {end}, but was archived up to {start}: it lost records or was created again; "
                f"archive it into another directory"
            )
        if start < first:
            lost.append(f"{tp} from {start} to {first - 1}")
            start = first
        if start < end:
            missing[tp] = Extent(start, end)
    if lost and not skip_lost:
        raise PipelineError(
            f"offsets were deleted from the topic before they were archived: {few(lost)}; "
            f"--skip-lost archives what is left"
        )
    return missing


def share(missing: Mapping[TopicPartition, Extent], offsets_max: int) -> dict[TopicPartition, Extent]:
    """The first part of every range, in proportion to its length, about ``offsets_max`` offsets in all."""
    total = sum(end - start for start, end in missing.values())
    if total <= offsets_max:
        return dict(missing)
    return {
        tp: Extent(start, start - (start - end) * offsets_max // total)  # rounded up
        for tp, (start, end) in missing.items()
    }


class Part(NamedTuple):
    """First and last offset of a partition that one task saw."""

    tp: TopicPartition
    first_offset: int
    last_offset: int


def check_parts(ranges: Mapping[TopicPartition, Extent], parts: Iterable[Part]) -> None:
    """Assert that all tasks saw offsets of the ranges only, and no offset twice.

    A task itself asserts that its offsets ascend. Missing offsets cannot be detected here: topics have gaps.
    """
    for tp, of in groupby(sorted(parts), key=lambda part: part.tp):
        seen = list(of)
        start, end = ranges[tp]
        assert start <= seen[0].first_offset, f"{tp}: offset {seen[0].first_offset} is before {start}"
        assert seen[-1].last_offset < end, f"{tp}: offset {seen[-1].last_offset} is not before {end}"
        for before, after in pairwise(seen):
            assert before.last_offset < after.first_offset, f"{tp}: tasks read {before} and {after}"


def groups_to_compact(
    files: Iterable[DataFile], *, files_min: int, target_bytes: int = TARGET_BYTES
) -> list[tuple[DataFile, ...]]:
    """Adjacent files of one partition and day, to compact into files of about ``target_bytes``.

    A group is compacted when it has ``files_min`` files, or is full. A first file that is larger than all others stays
    until they have grown: so each record is copied a logarithmic number of times.
    """
    groups = []
    ordered = sorted(files, key=lambda file: (file.topic, file.date, file.partition, file.first_offset))
    for _, of in groupby(ordered, key=lambda file: (file.topic, file.date, file.partition)):
        for run, is_full in _runs(of, target_bytes):
            group = _without_heavy_head(run)
            if len(group) >= (2 if is_full else files_min):
                groups.append(tuple(group))
    return groups


def _runs(files: Iterable[DataFile], target_bytes: int) -> Iterator[tuple[list[DataFile], bool]]:
    """Adjacent files that fit into one, and True when no more fit."""
    run: list[DataFile] = []
    size_bytes = 0
    for file in files:
        if run and size_bytes + file.size_bytes > target_bytes:
            yield run, True
            run, size_bytes = [], 0
        run.append(file)
        size_bytes += file.size_bytes
    if run:
        yield run, False


def _without_heavy_head(run: Sequence[DataFile]) -> Sequence[DataFile]:
    head = 0
    while head + 1 < len(run) and run[head].size_bytes > sum(file.size_bytes for file in run[head + 1 :]):
        head += 1
    return run[head:]
