"""What ``minikafka group describe`` shows: the partitions of a group with their lag, and its members with theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minikafka.cli.describing import ask_details
from minikafka.cli.output import escaped, print_line, print_note, print_table

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import GroupView
    from minikafka.model import OffsetAndEpoch, TopicPartition

PARTITION_COLUMNS: Final = ("topic", "partition#", "committed#", "end#", "lag#", "client", "host")
MEMBER_COLUMNS: Final = ("member", "client", "host", "partitions#", "lag#")
_OPTIONAL: Final = (("group_instance_id", "static id"), ("member_epoch", "epoch#"))
"""Columns of members that only some groups have."""

Row = dict[str, Any]


class Shown(NamedTuple):
    """Which parts of a group are printed."""

    offsets: bool = True
    members: bool = True
    assignments: bool = False


async def ask_groups(admin: Admin, names: Sequence[str] | None) -> list[GroupView]:
    """The named groups, or all. One of all that is gone since it was listed is told on stderr."""
    from minikafka.errors import ErrorCode, KafkaError

    groups = []
    for name in names or [group.group_id for group in await admin.list_groups()]:
        try:
            groups.append(await admin.describe_group(name))
        except KafkaError as error:
            if names or error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            print_note(error.message)
    return groups


async def ask_partitions(admin: Admin, group: GroupView) -> list[Row]:
    """What the group has committed or reads, by partition; None for what nobody knows, or nobody told within 3 s."""
    committed = await admin.group_offsets(group.group_id)
    partitions = committed.keys() | {tp for member in group.members for tp in member.assignment}
    topics = await admin.describe_topics(sorted({tp.topic for tp in partitions}))
    end = (await ask_details(admin, topics, settings=False)).end
    return partition_rows(group, committed, end)


def partition_rows(
    group: GroupView, committed: Mapping[TopicPartition, OffsetAndEpoch], end: Mapping[TopicPartition, int]
) -> list[Row]:
    """A row for each partition that has a committed offset or a reader.

    The lag is negative, as in Kafka's tool, where that offset is beyond the end: of a topic that was made anew, or cut.
    """
    readers = {tp: member for member in group.members for tp in member.assignment}
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "committed_offset": at.offset if (at := committed.get(tp)) else None,
            "end_offset": end.get(tp),
            "lag": end[tp] - at.offset if at and tp in end else None,
            "member_id": member.member_id if (member := readers.get(tp)) else None,
            "client_id": member.client_id if member else None,
            "host": member.client_host if member else None,
        }
        for tp in sorted(committed.keys() | readers.keys())
    ]


def group_as_json(group: GroupView, rows: list[Row]) -> Row:
    """One group as an object."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.group_type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": list(member_rows(group, rows)),
        "partitions": rows,
    }


def member_rows(group: GroupView, rows: Iterable[Row]) -> Iterable[Row]:
    """The members; the lag of each is what its partitions have for it to read, None if nobody knows it of any."""
    lags: dict[str, list[int]] = {}
    for row in rows:
        if row["member_id"] is not None and row["lag"] is not None:
            lags.setdefault(row["member_id"], []).append(max(0, row["lag"]))
    for member in sorted(group.members, key=lambda each: (each.client_id, each.member_id)):
        yield {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "host": member.client_host,
            "group_instance_id": member.group_instance_id,
            "member_epoch": member.member_epoch,
            "assignment": _as_objects(member.assignment),
            "target_assignment": None if member.target is None else _as_objects(member.target),
            "lag": sum(lags[member.member_id]) if member.member_id in lags else None,
        }


def _as_objects(partitions: Iterable[TopicPartition]) -> list[Row]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def print_group(group: GroupView, rows: list[Row], shown: Shown) -> None:
    """A sentence, the partitions, the members."""
    print_line(_sentence(group))
    if shown.offsets and rows:
        print_table(PARTITION_COLUMNS, map(_partition_cells, rows))
    if shown.members and group.members:
        print_line("")
        _print_members(group, list(member_rows(group, rows)), assignments=shown.assignments)


def _sentence(group: GroupView) -> str:
    count = len(group.members)
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    members = f"{count} {'member' if count == 1 else 'members'}"
    return f"{group.group_id}: {group.state}, {members}, {group.group_type} protocol{assignor}"


def _print_members(group: GroupView, members: list[Row], *, assignments: bool) -> None:
    optional = [(key, name) for key, name in _OPTIONAL if any(member[key] is not None for member in members)]
    columns = [*MEMBER_COLUMNS[:3], *(name for _, name in optional), *MEMBER_COLUMNS[3:]]
    columns += ["reads", "is to read"] if assignments else []
    print_table(columns, [_member_cells(member, [key for key, _ in optional], assignments) for member in members])


def _member_cells(member: Row, optional: Iterable[str], assignments: bool) -> list[str]:
    cells = [member["member_id"], member["client_id"], member["host"], *(member[key] for key in optional)]
    cells += [len(member["assignment"]), member["lag"]]
    if assignments:
        cells += [_in_words(member["assignment"]), _in_words(member["target_assignment"] or member["assignment"])]
    return list(map(_cell, cells))


def _in_words(partitions: Iterable[Row]) -> str:
    """``events:0,2 clicks:1``."""
    indexes: dict[str, list[str]] = {}
    for each in partitions:
        indexes.setdefault(each["topic"], []).append(str(each["partition"]))
    return " ".join(f"{topic}:{','.join(found)}" for topic, found in indexes.items()) or "-"


def _partition_cells(row: Row) -> list[str]:
    names = ("topic", "partition", "committed_offset", "end_offset", "lag", "client_id", "host")
    return [_cell(row[name]) for name in names]


def _cell(value: object) -> str:
    return "-" if value is None else escaped(str(value))
