"""Lag, by partition and by member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.cli.group_view import Shown, ask_groups, group_as_json, partition_rows, print_group
from minikafka.client.admin import GroupMember, GroupView
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
BUSY = GroupMember("m-1", "c", "/h", "static-1", (A, B), 4, (A,))
IDLE = GroupMember("m-2", "c", "/h", None, (), 4, (B,))
GROUP = GroupView("g", "Reconciling", "consumer", "uniform", (IDLE, BUSY), "consumer", 1)
ENDS = {A: 10, B: 5, C: 7}
ROWS = partition_rows(GROUP, {A: OffsetAndEpoch(3, 0), C: OffsetAndEpoch(9, 0)}, ENDS)


def test_lag_of_partitions() -> None:
    """Beyond the end, as after lost records, it is negative; without a committed offset nobody knows it."""
    assert [(row["partition"], row["lag"], row["member_id"]) for row in ROWS] == [
        (0, 7, "m-1"),
        (1, None, "m-1"),
        (2, -2, None),
    ]


def test_lag_of_members() -> None:
    members = group_as_json(GROUP, ROWS)["members"]
    assert [(each["member_id"], each["lag"], len(each["assignment"])) for each in members] == [
        ("m-1", 7, 2),
        ("m-2", None, 0),
    ]
    beyond_the_end = partition_rows(GROUP, {A: OffsetAndEpoch(12, 0), B: OffsetAndEpoch(4, 0)}, ENDS)
    assert group_as_json(GROUP, beyond_the_end)["members"][0]["lag"] == 1, "nothing to read in A, one record in B"
    assert members[0]["target_assignment"] == [{"topic": "t", "partition": 0}]


def test_a_group_is_printed_in_parts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    print_group(GROUP, ROWS, Shown(assignments=True))
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "g: Reconciling, 2 members, consumer protocol, assignor uniform"
    header, rule, busy, idle = lines[-4:]
    assert " ".join(header.split()) == "member client host static id epoch partitions lag reads is to read"
    assert set(rule) <= {"─", " "}
    assert busy.split() == ["m-1", "c", "/h", "static-1", "4", "2", "7", "t:0,1", "t:0"]
    assert idle.split() == ["m-2", "c", "/h", "-", "4", "0", "-", "-", "t:1"]
    print_group(GROUP, ROWS, Shown(offsets=False, members=False))
    assert capsys.readouterr().out.splitlines() == [first]


class AdminOfOne:
    """Lists two groups, and can describe one of them."""

    async def list_groups(self) -> list[Any]:
        return [SimpleNamespace(group_id="gone"), SimpleNamespace(group_id="g")]

    async def describe_group(self, name: str) -> GroupView:
        if name == "gone":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "group 'gone' not found")
        return GROUP


async def test_a_group_that_is_gone_since_it_was_listed_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    admin: Any = AdminOfOne()
    assert await ask_groups(admin, None) == [GROUP]
    assert capsys.readouterr().err == "group 'gone' not found\n"
    with pytest.raises(KafkaError, match="not found"):
        await ask_groups(admin, ["gone"])
