"""The next ranges to archive, the check of written ones, and the days to compact (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple, TypeVar

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.running import PipelineError, few
from minikafka.spark.pipelines.topics import Extent

TARGET_BYTES: Final = 128 << 20
STEPS_BYTES: Final = [TARGET_BYTES >> 3 * step for step in reversed(range(5))]  # from 32 KiB

T = TypeVar("T")


def beginnings(ends: Mapping[TopicPartition, int], found: Mapping[TopicPartition, Extent]) -> dict[TopicPartition, int]:
    """Beginnings of new partitions: from there on no offset may be missed, even if a record is deleted before it is
    archived. A partition that was added to a topic later begins at 0."""
    known = {tp.topic for tp in ends}
    return {tp: 0 if tp.topic in known else first for tp, (first, _) in found.items() if tp not in ends}


def suspects(
    ends: Mapping[TopicPartition, OffsetAndEpoch],
    found: Mapping[TopicPartition, Extent],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, OffsetAndEpoch]:
    """Archived ends whose logs may be others now: they had another leader since, or end before."""
    return {tp: end for tp, end in ends.items() if end.epoch != epochs[tp] or end.offset > found[tp].end}


def diverged(
    ends: Mapping[TopicPartition, OffsetAndEpoch],
    found: Mapping[TopicPartition, Extent],
    agreed: Mapping[TopicPartition, OffsetAndEpoch],
) -> dict[TopicPartition, OffsetAndEpoch]:
    """Partitions whose logs have lost archived records, with the end of what both have.

    ``agreed`` is what leaders say of ends with epochs (KIP-320). Without an epoch, as in a lake of an earlier version,
    only a log that ends before shows a loss. With one, such an end is that of a new leader which has not heard of its
    followers yet.
    """
    shorter = {tp: OffsetAndEpoch(found[tp].end, NO_EPOCH) for tp, end in ends.items() if end.offset > found[tp].end}
    without_epoch = {tp: end for tp, end in shorter.items() if ends[tp].epoch == NO_EPOCH}
    return without_epoch | {tp: OffsetAndEpoch(max(end.offset, 0), end.epoch) for tp, end in agreed.items()}


def missing_ranges(
    ends: Mapping[TopicPartition, int], found: Mapping[TopicPartition, Extent], *, skip_lost: bool = False
) -> dict[TopicPartition, Extent]:
    """Ranges of the topics (``found``: first and end offset) that the lake lacks, without empty ones.

    ``ends`` knows every partition, see :func:`beginnings`. Raises PipelineError if the topics have lost the
    next offsets, unless ``skip_lost`` goes on behind them.
    """
    missing, lost = {}, []
    for tp, (first, end) in sorted(found.items()):
        start = ends[tp]
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


def days_to_compact(sizes: Mapping[T, Sequence[int]], *, files_min: int) -> dict[T, int]:
    """Days with ``files_min`` small files or more, and the size up to which their files are to be put together.

    Sizes go up by steps. A file is small for a step below a quarter of its size; the lowest step with enough small
    files comes first. So each record is copied a few times for each step, and not each time when files come.
    """
    chosen = {}
    for day, of_files in sizes.items():
        for target_bytes in STEPS_BYTES:
            if sum(size_bytes < target_bytes // 4 for size_bytes in of_files) >= files_min:
                chosen[day] = target_bytes
                break
    return chosen
