"""Settings of groups; names and defaults are those of Kafka's broker settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class ConsumerTimes(NamedTuple):
    """Of a consumer group (KIP-848) and its members, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class MigrationPolicy(Enum):
    """In which direction groups with members change their protocol; groups without members do so in any case."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """A classic group becomes a consumer group when a member of the newer protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """A consumer group becomes a classic one when all members that are left are classic ones."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Limits and times of the group coordinator. The comment behind a field is Kafka's name for it."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 2_147_483_647  # group.max.size: members and joining members of one group
    protocols_bytes_max: int = 8 << 20  # ours: of all members; the leader is told of all in one answer
    subscriptions_bytes_max: int = 8 << 20  # ours: of all members of a consumer group
    assigned_at_once_max: int = 3_000  # ours: members and partitions of a target assignment made on the loop
    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_assignment_interval_ms: int = 0  # group.consumer.assignment.interval.ms
    consumer_max_size: int = 2_147_483_647  # group.consumer.max.size
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors; the first is the default
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL  # group.consumer.migration.policy
    consumer_regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms: any write to the offsets topic
    new_member_join_timeout_ms: int = 300_000  # a constant in Kafka: a first join is parked at most this long
    writes_in_flight_max: int = 10_000  # ours: uncommitted writes of one shard; more are refused
    bytes_in_flight_max: int = 16 << 20  # ours: of those; one alone may be larger
    transaction_offsets_max: int = 50_000  # ours: of a producer, in one shard; a marker takes 1 ms for 1,000
    groups_per_step: int = 100  # ours: loading and sweeps look at so many groups, then let others have a turn
    offsets_per_sweep_step: int = 1_000  # ours: or at as many offsets
    sweep_pause_ms: int = 20  # ours: that turn
    tombstones_per_write: int = 1_000  # ours: keeps a write of the retention sweep well below max.message.bytes
