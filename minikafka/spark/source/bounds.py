"""From options to offsets: the partitions of the cluster, with their first and end offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, LATEST, NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.options import (
    AssignedPartitions,
    AtOffsets,
    AtTimestamp,
    Edge,
    MatchingTopics,
    NamedTopics,
    OffsetSpec,
    OptionError,
    TopicChoice,
)
from minikafka.spark.source.losses import report_loss

if TYPE_CHECKING:
    from minikafka.spark.cluster import Cluster

Found = dict[TopicPartition, OffsetAndEpoch]

_DELAYS_S: Final = (0.0, 0.1, 0.2, 0.4, 0.8)  # between repeated questions


# -- which partitions --------------------------------------------------------------------------------------------------


def chosen_partitions(cluster: Cluster, choice: TopicChoice) -> list[TopicPartition]:
    """The partitions to read, in order. Raises UNKNOWN_TOPIC_OR_PARTITION for a named one that is missing."""
    if isinstance(choice, MatchingTopics):
        pattern = re.compile(choice.pattern)
        topics = [topic for topic in cluster.topics() if pattern.search(topic)]  # as Spark's own connector does
        return cluster.partitions(topics) if topics else []
    if isinstance(choice, AssignedPartitions):
        found = cluster.partitions({tp.topic for tp in choice.partitions})
        for tp in choice.partitions:
            if tp not in found:
                raise _missing(tp, found)
        return sorted(choice.partitions)
    return cluster.partitions(choice.topics)


def remaining_partitions(cluster: Cluster, choice: TopicChoice) -> list[TopicPartition]:
    """The partitions of a stream that has begun: missing ones were deleted, and are left out.

    A topic may be deleted between two questions, and brokers learn of it one after the other: then all is asked again.
    """
    for delay_s in _DELAYS_S:
        try:
            return _remaining_partitions(cluster, choice)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        time.sleep(delay_s)
    return _remaining_partitions(cluster, choice)


def _remaining_partitions(cluster: Cluster, choice: TopicChoice) -> list[TopicPartition]:
    if isinstance(choice, MatchingTopics):
        return chosen_partitions(cluster, choice)
    named = choice.topics if isinstance(choice, NamedTopics) else {tp.topic for tp in choice.partitions}
    there = cluster.topic_ids(named).keys()
    found = cluster.partitions(there) if there else []
    return [tp for tp in found if tp in choice.partitions] if isinstance(choice, AssignedPartitions) else found


def _missing(tp: TopicPartition, found: Iterable[TopicPartition]) -> KafkaError:
    count = sum(1 for other in found if other.topic == tp.topic)
    message = f"partition {tp} not found: topic {tp.topic!r} has {count}; correct the option 'assign'"
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def ids_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """The ids of the partitions' topics. Ask before the offsets: these are then of the same topics or of newer ones."""
    found = cluster.topic_ids({tp.topic for tp in partitions})
    return {topic: topic_id for topic, topic_id in found.items() if topic_id}


# -- where they begin and end ------------------------------------------------------------------------------------------


def starting_offsets(
    cluster: Cluster,
    spec: OffsetSpec,
    partitions: list[TopicPartition],
    *,
    latest_when_no_timestamp: bool,
    fail_on_data_loss: bool,
) -> Found:
    """The first offset in each partition.

    Raises OptionError if the option lacks a partition, has an unknown one, or a time without a later record. An offset
    outside of the log raises DataLossError, or gives a warning and the nearest offset. One behind the first open
    transaction is in the log: nothing is read until that has ended.
    """
    found = _offsets(cluster, spec, partitions, "starting")
    if missing := [tp for tp in partitions if tp not in found]:
        if not latest_when_no_timestamp:
            raise _no_record(missing[0], spec)
        found |= cluster.offsets(missing, LATEST)
    if not isinstance(spec, AtOffsets):
        return found
    earliest, latest = cluster.offsets(found, EARLIEST), cluster.offsets(found, LATEST)
    behind = [tp for tp, wanted in found.items() if wanted.offset > latest[tp].offset]
    latest |= {tp: OffsetAndEpoch(end, latest[tp].epoch) for tp, end in cluster.high_watermarks(behind).items()}
    return _within_logs(found, earliest, latest, "starting", fail=fail_on_data_loss)


def ending_offsets(
    cluster: Cluster, spec: OffsetSpec, partitions: list[TopicPartition], *, fail_on_data_loss: bool
) -> Found:
    """The end offset in each partition; for a time without a later record the end of the log. Same errors."""
    found = _offsets(cluster, spec, partitions, "ending")
    if spec is Edge.LATEST:
        return found
    if missing := [tp for tp in partitions if tp not in found]:
        found |= cluster.offsets(missing, LATEST)
    earliest, latest = cluster.offsets(found, EARLIEST), cluster.offsets(found, LATEST)
    return _within_logs(found, earliest, latest, "ending", fail=fail_on_data_loss)


def _offsets(cluster: Cluster, spec: OffsetSpec, partitions: list[TopicPartition], which: str) -> Found:
    if isinstance(spec, Edge):
        return cluster.offsets(partitions, int(spec))
    if isinstance(spec, AtTimestamp):
        return cluster.offsets_for_times(dict.fromkeys(partitions, spec.timestamp_ms))
    if isinstance(spec, AtOffsets):
        _check_names(spec.offsets, partitions, f"{which}Offsets")
        found = {tp: OffsetAndEpoch(offset, NO_EPOCH) for tp, offset in spec.offsets.items()}
        for edge in (EARLIEST, LATEST):
            found |= cluster.offsets([tp for tp, offset in spec.offsets.items() if offset == edge], edge)
        return found
    _check_names(spec.timestamps_ms, partitions, f"{which}OffsetsByTimestamp")
    return cluster.offsets_for_times(spec.timestamps_ms)


def _check_names(named: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str) -> None:
    if missing := sorted(set(partitions) - named.keys()):
        raise OptionError(f"option '{option}' says nothing of {_listed(missing)}; give every partition that is read")
    if others := sorted(named.keys() - set(partitions)):
        raise OptionError(f"option '{option}' names {_listed(others)}, which this query does not read; remove it")


def _within_logs(found: Found, earliest: Found, latest: Found, which: str, *, fail: bool) -> Found:
    """Offsets within the logs; an end has the epoch of its log's end."""
    within: Found = {}
    for tp, wanted in found.items():
        low, high = earliest[tp].offset, latest[tp].offset
        offset = min(max(wanted.offset, low), high)
        if offset != wanted.offset:
            what = f"{which} offset {wanted.offset} of {tp} is outside its log, which has offsets {low} to {high}"
            report_loss(what, fail=fail)
        within[tp] = OffsetAndEpoch(offset, latest[tp].epoch)
    return within


def _no_record(tp: TopicPartition, spec: OffsetSpec) -> OptionError:
    is_one_for_all = isinstance(spec, AtTimestamp)
    option = "startingTimestamp" if is_one_for_all else "startingOffsetsByTimestamp"
    time_ms = spec.timestamp_ms if isinstance(spec, AtTimestamp) else spec.timestamps_ms[tp]  # type: ignore[union-attr]
    return OptionError(
        f"option '{option}': {tp} has no record of {_time(time_ms)} or later; choose an earlier time, or set "
        "'startingOffsetsByTimestampStrategy' to latest to begin at its end"
    )


def _time(time_ms: int) -> str:
    try:
        return f"{time_ms} ({datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec='milliseconds')})"
    except (OverflowError, ValueError, OSError):
        return str(time_ms)


def _listed(partitions: list[TopicPartition]) -> str:
    more = f" and {len(partitions) - 3} more" if len(partitions) > 3 else ""
    return ", ".join(map(str, partitions[:3])) + more
