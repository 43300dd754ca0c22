"""Settings: consumer groups and the topic that keeps their offsets."""

from __future__ import annotations

from minikafka.config.kinds import choice, integer, long, words
from minikafka.config.setting import Setting, SettingGroup


class GroupSettings(SettingGroup):
    """Consumer groups and committed offsets."""

    group_min_session_timeout_ms = Setting(integer(1), 6000, doc="Shortest session a group member may ask for.")
    group_max_session_timeout_ms = Setting(integer(1), 1_800_000, doc="Longest session a group member may ask for.")
    group_max_size = Setting(
        integer(1),
        2_147_483_647,
        doc="Most members of a group, those that are joining included; more are refused with GROUP_MAX_SIZE_REACHED.",
    )
    group_memory_max_bytes = Setting(
        long(1),
        64 * 1024 * 1024,
        doc="""Memory of a node for the members of the groups that it coordinates: some 1,000 bytes for each, and its
        metadata or subscription. New members are refused beyond it, with COORDINATOR_NOT_AVAILABLE and a line in the
        log; clients try again. Apache Kafka has no limit.""",
    )
    offsets_memory_max_bytes = Setting(
        long(1),
        64 * 1024 * 1024,
        doc="""Memory of a node for the committed offsets of the groups that it coordinates: some 600 bytes for each,
        and its metadata beyond 128 bytes. Beyond three quarters of it offsets of partitions that a group has not
        committed before are refused, with COORDINATOR_LOAD_IN_PROGRESS and a line in the log; clients try again. The
        rest is for offsets in transactions. Apache Kafka has no limit.""",
    )
    group_consumer_session_timeout_ms = Setting(
        integer(1), 45_000, doc="A member of a consumer group (KIP-848) is removed after this time without a heartbeat."
    )
    group_consumer_min_session_timeout_ms = Setting(
        integer(1), 45_000, doc="Shortest session timeout that a group may set with consumer.session.timeout.ms."
    )
    group_consumer_max_session_timeout_ms = Setting(
        integer(1), 60_000, doc="Longest session timeout that a group may set with consumer.session.timeout.ms."
    )
    group_consumer_heartbeat_interval_ms = Setting(
        integer(1), 5_000, doc="How often members of consumer groups are told to send a heartbeat."
    )
    group_consumer_min_heartbeat_interval_ms = Setting(
        integer(1), 5_000, doc="Shortest interval that a group may set with consumer.heartbeat.interval.ms."
    )
    group_consumer_max_heartbeat_interval_ms = Setting(
        integer(1), 15_000, doc="Longest interval that a group may set with consumer.heartbeat.interval.ms."
    )
    group_consumer_assignment_interval_ms = Setting(
        integer(0),
        0,
        kafka="1000",
        dynamic=True,
        doc="""Least time between two target assignments of a consumer group; changes in between are in the next one,
        which the first heartbeat after it makes. None by default: who joins right after another gets its partitions
        at once, and not first with its next heartbeat.""",
    )
    group_consumer_min_assignment_interval_ms = Setting(
        integer(0), 0, doc="Shortest interval that a group may set with consumer.assignment.interval.ms."
    )
    group_consumer_max_assignment_interval_ms = Setting(
        integer(0), 15_000, doc="Longest interval that a group may set with consumer.assignment.interval.ms."
    )
    group_consumer_max_size = Setting(
        integer(1),
        2_147_483_647,
        doc="Most members of a consumer group; more are refused with GROUP_MAX_SIZE_REACHED.",
    )
    group_consumer_assignors = Setting(
        words("uniform", "range"),
        ("uniform", "range"),
        doc="""Assignors that members of consumer groups may ask for with group.remote.assignor; the first one serves
        those that ask for none.""",
    )
    group_consumer_migration_policy = Setting(
        choice("disabled", "upgrade", "downgrade", "bidirectional", any_case=True),
        "bidirectional",
        doc="""In which direction groups with members change their protocol. upgrade: a classic group becomes a consumer
        group when the first member with group.protocol=consumer joins. downgrade: it goes back when the last of them
        leaves. Groups without members change it in any case.""",
    )
    group_consumer_regex_refresh_interval_ms = Setting(
        integer(10_000),
        600_000,
        doc="""How often the topics that a regular expression of a consumer group matches are looked up, even if no
        topic came or went.""",
    )
    group_initial_rebalance_delay_ms = Setting(
        integer(0),
        0,
        kafka="3000",
        doc="""How long the first rebalance of an empty group waits for more members. None by default: a single consumer
        starts at once, and members that come later cost one rebalance each.""",
    )
    offsets_topic_replication_factor = Setting(
        integer(1, 32767),
        3,
        doc="Replicas of the offsets topic. It is created once that many brokers are registered, and not before.",
    )
    offsets_topic_num_partitions = Setting(
        integer(1),
        10,
        kafka="50",
        doc="""Partitions of the offsets topic, over which groups and their coordinators are spread. Each costs files
        and replication on every broker; 10 spread groups over as many brokers as a cluster like this has.""",
    )
    offsets_topic_segment_bytes = Setting(
        integer(1024),
        4 * 1024 * 1024,
        kafka="104857600",
        doc="""Largest segment of that topic. The last segment is not compacted: the next coordinator reads all of it
        before it serves.""",
    )
    offsets_retention_minutes = Setting(
        integer(1), 10_080, doc="Committed offsets of a group without members are dropped after this time."
    )
    offsets_retention_check_interval_ms = Setting(
        integer(1), 600_000, doc="Interval at which coordinators look for expired offsets."
    )
    offset_metadata_max_bytes = Setting(integer(0), 4096, doc="Longest metadata that may be committed with an offset.")
    offsets_commit_timeout_ms = Setting(
        integer(1), 5000, doc="How long a commit, or any other write about a group, may wait for its replicas."
    )
