"""Planted bugs for consumer groups of the newer protocol on whole clusters: where coordinators die and move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fault_sabotages import suite_of

from minikafka.broker.drivers.groups import Groups
from minikafka.errors import ErrorCode
from minikafka.groups import commits
from minikafka.groups.consumer import offsets
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.records import NO_PARTITIONS, ConsumerGroupRecord, CurrentAssignment
from minikafka.groups.group import Group
from minikafka.groups.shard import Shard
from minikafka.metadata.delta import MetadataDelta

GROUPS = suite_of(
    "sharing",
    "whole clusters whose leaders die, and a consumer group (KIP-848) whose members come and go",
    *("kill", "kill leader", "pause", "cut one way"),
    scenes=("consumer groups",),
    duration_s=10.0,
)


_sound_replay_row = Shard._replay_row


@GROUPS.replaces(Shard, "_replay_row")
def the_next_coordinator_forgets_who_has_what(
    shard: Shard, group: Group, record: ConsumerGroupRecord, *, is_applied: bool
) -> None:
    """Members are loaded with their epochs, and without their partitions."""
    value = record.value
    if not is_applied and isinstance(value, CurrentAssignment):
        record = record._replace(value=replace(value, assigned=NO_PARTITIONS, pending_revocation=NO_PARTITIONS))
    _sound_replay_row(shard, group, record, is_applied=is_applied)


@GROUPS.plants()
def whoever_was_a_member_commits(patch: Any) -> None:
    """A commit counts, whoever has the partition now."""
    patch.setattr(offsets, "commit_error", lambda *_args: ErrorCode.NONE)
    patch.setattr(commits, "stale_partitions", lambda *_args: None)


@GROUPS.replaces(Groups, "on_metadata")
def coordinators_hear_of_no_topics(_groups: Groups, _delta: MetadataDelta) -> None:
    """Topics that come later have no owner."""


@GROUPS.replaces(ConsumerGroup, "owner_of")
def partitions_are_free_at_once(_group: ConsumerGroup, _topic_id: Any, _partition: int) -> None:
    """A partition is given to its next owner while the last one has it."""
