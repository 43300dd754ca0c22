"""What ``minikafka topic describe`` shows: a topic's settings, and each partition's leader, replicas, offsets, size,
and what is wrong with it: replicas out of sync, readers held back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from minikafka.cli.held_back import HeldBack, held_back
from minikafka.cli.output import print_json, print_line, print_note, print_table, size
from minikafka.cli.waiting import staleness
from minikafka.model import EARLIEST, LATEST

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.cluster import PartitionView, TopicView
    from minikafka.model import TopicPartition

PATIENCE_S: Final = 3.0  # for what is nice to have: a broker that hangs would hold the table up
COLUMNS: Final = ("topic", "partition#", "leader", "epoch#", "replicas", "isr", "offsets", "size#", "")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Details:
    """What is asked besides the metadata; what nobody answered in time is missing."""

    first: dict[TopicPartition, int] = field(default_factory=dict)
    end: dict[TopicPartition, int] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    held: dict[TopicPartition, HeldBack] = field(default_factory=dict)
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)  # by topic; without the defaults
    stale: str | None = None  # why the metadata may be old


async def ask_details(admin: Admin, topics: Sequence[TopicView], *, settings: bool) -> Details:
    """Offsets from the leaders, sizes from the brokers, settings if asked for; whatever comes within 3 s.

    Without :func:`ask_held_back`.
    """
    from minikafka.model import TopicPartition

    led: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for index, partition in topic.partitions.items():
            if partition.leader >= 0:
                led.setdefault(partition.leader, []).append(TopicPartition(topic.name, index))
    asked = topics if settings else ()
    by_leader = asyncio.gather(*(_in_time(_of_leader(admin, leader, tps)) for leader, tps in led.items()))
    by_topic = asyncio.gather(*(_in_time(_settings(admin, topic.name)) for topic in asked))
    stale = await staleness(admin)
    details = Details(stale=stale)
    for found in await by_leader:
        if found is not None:
            for ours, theirs in zip((details.first, details.end, details.sizes), found, strict=True):
                ours.update(theirs)
    for topic, values in zip(asked, await by_topic, strict=True):
        if values is not None:
            details.settings[topic.name] = values
    return details


async def ask_held_back(admin: Admin, details: Details) -> None:
    """Add who holds back readers of committed records, if that comes within 3 s."""
    held = await _in_time(held_back(admin, details.end))
    details.held.update({each.partition: each for each in held or ()})


async def _in_time(asked: Awaitable[T]) -> T | None:
    from minikafka.errors import KafkaError

    try:
        async with asyncio.timeout(PATIENCE_S):
            return await asked
    except (KafkaError, TimeoutError):
        return None


async def _of_leader(
    admin: Admin, leader: int, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """First offsets, end offsets and sizes of what a broker leads."""
    first = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    end = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    directories = (await admin.describe_log_dirs([leader])).get(leader, [])
    sizes = {
        tp: replica.size_bytes
        for directory in directories
        for tp, replica in directory.replicas.items()
        if not replica.is_future and tp in end
    }
    return {tp: at.offset for tp, at in first.items()}, {tp: at.offset for tp, at in end.items()}, sizes


async def _settings(admin: Admin, topic: str) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in await admin.describe_configs(topic) if not entry.is_default}


def print_topics(topics: Sequence[TopicView], details: Details, *, under_replicated: bool, as_json: bool) -> None:
    """The partitions as a table, or as a JSON document with an object each."""
    rows = [row for topic in topics for row in _partitions(topic, details) if row["missing"] or not under_replicated]
    if as_json:
        print_json(rows)
    else:
        for topic, settings in details.settings.items():
            print_line(f"{topic}: {', '.join(f'{name}={value}' for name, value in settings.items()) or 'all defaults'}")
        first = 1 if len(details.settings) == 1 else 0  # the one topic has been named
        print_table(COLUMNS[first:], (_cells(row)[first:] for row in rows))
    if details.stale is not None:
        print_note(f"may be outdated: {details.stale}")


def _partitions(topic: TopicView, details: Details) -> Iterable[dict[str, Any]]:
    from minikafka.model import TopicPartition

    for index, partition in sorted(topic.partitions.items()):
        tp = TopicPartition(topic.name, index)
        yield {
            "topic": topic.name,
            "partition": index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.in_sync_replicas),
            "missing": missing(partition),
            "first_offset": details.first.get(tp),
            "end_offset": details.end.get(tp),
            "size_in_bytes": details.sizes.get(tp),
            "last_stable_offset": held.last_stable_offset if (held := details.held.get(tp)) else details.end.get(tp),
            "held_back_by": held.as_dict() if held else None,
            "remarks": list(_remarks(partition, held)),
        }


def _remarks(partition: PartitionView, held: HeldBack | None) -> Iterable[str]:
    if lacking := missing(partition):
        yield f"lacks {','.join(map(str, lacking))}"
    if held is not None:
        yield f"read_committed waits at {held.last_stable_offset}: {held.by}"


def missing(partition: PartitionView) -> list[int]:
    """The replicas that are not in sync."""
    return [replica for replica in partition.replicas if replica not in partition.in_sync_replicas]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    from rich.markup import escape

    known = None not in (row["first_offset"], row["end_offset"])
    return (
        row["topic"],
        str(row["partition"]),
        str(row["leader"]) if row["leader"] >= 0 else "[bold red]none[/]",
        str(row["leader_epoch"]),
        ",".join(map(str, row["replicas"])),
        ",".join(map(str, row["isr"])),
        f"{row['first_offset']}..{row['end_offset']}" if known else "-",
        size(row["size_in_bytes"]) if row["size_in_bytes"] is not None else "-",
        f"[yellow]{escape('; '.join(row['remarks']))}[/]" if row["remarks"] else "",
    )
