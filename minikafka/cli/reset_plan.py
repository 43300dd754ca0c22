"""Where groups are to go on: offsets by partition, and the CSV files of ``kafka-consumer-groups.sh`` with them.

A row is ``topic,partition,offset``; with several groups ``group,topic,partition,offset``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

import typer

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, TopicPartition

Offsets = Mapping[TopicPartition, int]

_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


class To(NamedTuple):
    """Where to: an offset of the log (also by its time, in ms), a fixed offset, or one that is relative to the old."""

    at: int | None = None  # EARLIEST, LATEST or a time
    offset: int | None = None
    shift: int | None = None
    """With none of the three the offset stays; partitions without one get the end."""


class Known(NamedTuple):
    """What the cluster says of the partitions."""

    committed: Offsets
    first: Offsets
    end: Offsets
    at_time: Offsets  # -1 where no record is that young


def new_offsets(
    to: To, partitions: Iterable[TopicPartition], known: Known
) -> tuple[dict[TopicPartition, int], list[str]]:
    """The offset of each partition, and a sentence for each that had to be moved into its log.

    KafkaError where there is no old offset to shift.
    """
    new, notes = {}, []
    for tp in partitions:
        old, first, end = known.committed.get(tp), known.first[tp], known.end[tp]
        if to.offset is not None:
            wanted = to.offset
        elif to.shift is not None:
            if old is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{tp}: the group has no offset there to shift")
            wanted = old + to.shift
        elif to.at == EARLIEST:
            wanted = first
        elif to.at is None and old is not None:
            new[tp] = old
            continue
        else:
            at = known.at_time.get(tp, -1)
            wanted = at if at >= 0 else end
        new[tp] = min(max(wanted, first), end)
        if new[tp] != wanted:
            notes.append(f"{tp}: offset {wanted} not found: it has {first}..{end}; {new[tp]} is taken")
    return new, notes


def parse_topics(words: Iterable[str], option: str = "--topic") -> dict[str, list[int]]:
    """``T`` and ``T:0,1`` by topic; no partitions for all."""
    found: dict[str, list[int]] = {}
    for word in words:
        topic, separator, listed = word.partition(":")
        indexes = listed.split(",") if separator else []
        if not topic or not all(index.isascii() and index.isdigit() for index in indexes):
            _refuse(option, f"{word!r} is not TOPIC or TOPIC:PARTITION[,PARTITION...]")
        if topic in found:
            _refuse(option, f"{topic!r} is given twice")
        found[topic] = sorted({int(index) for index in indexes})
    return found


class Plan(NamedTuple):
    """The rows of a file by group; those without a group are of the only one that is named."""

    by_group: dict[str, dict[TopicPartition, int]]
    of_one: dict[TopicPartition, int]


def read_plan(text: str, path: str) -> Plan:
    """What a file says. KafkaError(INVALID_REQUEST) names the first row that is wrong."""
    plan = Plan({}, {})
    for number, row in enumerate(csv.reader(io.StringIO(text, newline="")), 1):
        if not row:
            continue
        *group, topic, partition, offset = row if len(row) in (3, 4) else ["", "", ""]
        numbers = (partition, _PARTITION_MAX), (offset, _OFFSET_MAX)
        if not topic or not all(each.isascii() and each.isdigit() and int(each) <= most for each, most in numbers):
            form = "TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: line {number} is not {form}: {','.join(row)[:80]}")
        offsets = plan.by_group.setdefault(group[0], {}) if group else plan.of_one
        tp = TopicPartition(topic, int(partition))
        if tp in offsets:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: line {number} names {tp} again")
        offsets[tp] = int(offset)
    if plan.by_group and plan.of_one:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: some lines name a group, and some do not")
    if not plan.by_group and not plan.of_one:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: no line in it")
    return plan


def of_groups(plan: Plan, groups: Sequence[str], path: str) -> dict[str, dict[TopicPartition, int]]:
    """The rows of these groups, of all groups in the file if none is named. KafkaError where some have no rows."""
    if plan.of_one:
        if len(groups) != 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: its lines name no group; name the one it is for")
        return {groups[0]: plan.of_one}
    missing = [group for group in groups if group not in plan.by_group]
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: no line for group {missing[0]!r}")
    return {group: plan.by_group[group] for group in groups or sorted(plan.by_group)}


def format_plan(new: Mapping[str, Offsets]) -> str:
    """The file for these offsets by group."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for group, offsets in new.items():
        named = [group] if len(new) > 1 else []
        writer.writerows([*named, tp.topic, tp.partition, offset] for tp, offset in offsets.items())
    return text.getvalue()


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)
