"""Settings: segments, retention, flushing and cleaning of logs; most are defaults that a topic may override."""

from __future__ import annotations

from minikafka.config.kinds import INT_MAX, LONG_MAX, boolean, choice, integer, long, nullable, ratio, words
from minikafka.config.setting import Setting, SettingGroup


class LogSettings(SettingGroup):
    """Logs on disk: segments, retention, flushing, cleaning."""

    log_segment_bytes = Setting(
        integer(1024, INT_MAX),
        1_073_741_824,
        dynamic=True,
        doc="""A segment that would grow beyond this is closed. Apache Kafka 4 refuses less than 1048576 (KIP-1030).
        Here it is taken: so a test sees retention and compaction after a few records.""",
    )
    log_roll_ms = Setting(
        nullable(long(1)),
        None,
        dynamic=True,
        doc="""A segment is closed when a record comes that is stamped later than its first one by more than this.
        Empty: log.roll.hours decides.""",
    )
    log_roll_hours = Setting(
        integer(1),
        168,
        dynamic=True,
        doc="A segment is closed when a record comes that is stamped later than its first one by more than this.",
    )
    log_roll_jitter_ms = Setting(
        nullable(long(0)),
        None,
        dynamic=True,
        doc="""A segment is closed earlier by up to this, each by another time, so that those of many partitions are not
        closed at once. Empty: log.roll.jitter.hours decides.""",
    )
    log_roll_jitter_hours = Setting(
        integer(0), 0, dynamic=True, doc="A segment is closed earlier by up to this, each by another time."
    )
    log_retention_ms = Setting(
        nullable(long(-1)),
        None,
        dynamic=True,
        doc="Closed segments older than this are deleted; -1 keeps them. Empty: log.retention.minutes decides.",
    )
    log_retention_minutes = Setting(
        nullable(integer(-1)),
        None,
        dynamic=True,
        doc="Closed segments older than this are deleted; -1 keeps them. Empty: log.retention.hours decides.",
    )
    log_retention_hours = Setting(
        integer(-1), 168, dynamic=True, doc="Closed segments older than this are deleted; -1 keeps them."
    )
    log_retention_bytes = Setting(
        long(-1), -1, dynamic=True, doc="Oldest segments of a partition beyond this size are deleted; -1: no bound."
    )
    log_retention_check_interval_ms = Setting(
        long(1), 300_000, doc="Interval at which logs are checked for segments to delete."
    )
    log_segment_delete_delay_ms = Setting(
        long(0),
        60_000,
        dynamic=True,
        doc="""Time for which the files of a deleted segment or topic stay on the disk, renamed. Nothing reads them: it
        is for people who deleted the wrong thing, and look at once.""",
    )
    log_stray_retention_ms = Setting(
        long(0),
        86_400_000,
        kafka="none",
        doc="""Time after the start at which a stray log is deleted: one that metadata does not place on this node. Its
        directory is renamed to end in -stray. Apache Kafka keeps such logs.""",
    )
    log_preallocate = Setting(
        boolean(),
        False,
        dynamic=True,
        doc="""Take room on the disk for the whole of the segment that is written (log.segment.bytes), in a thread, soon
        after it began; what is left when it is closed is given back. The file is as long as what was written to it.
        Only on Linux, on file systems that can, and while ten times as much is free.""",
    )
    log_index_interval_bytes = Setting(
        integer(0), 4096, dynamic=True, doc="Log bytes between two entries of a segment's index; at most 65536 count."
    )
    log_index_size_max_bytes = Setting(
        integer(4),
        10_485_760,
        dynamic=True,
        doc="""A segment is closed when one of its indexes, of offsets, of times or of aborted transactions, grows to
        this; at most 10485760 count.""",
    )
    log_flush_interval_messages = Setting(
        long(1),
        LONG_MAX,
        dynamic=True,
        doc="""Records of a partition after which its log is synced to disk. 1 syncs before every acknowledgement, which
        survives a power cut of all replicas at once; otherwise replication protects the data. A topic's own value says
        nothing of committed offsets and transactions, which are in topics of their own.""",
    )
    log_flush_interval_ms = Setting(
        long(0), LONG_MAX, dynamic=True, doc="Longest time a record stays unsynced; by default the system decides."
    )
    log_message_timestamp_type = Setting(
        choice("CreateTime", "LogAppendTime"),
        "CreateTime",
        dynamic=True,
        doc="Whether records carry their producer's time or the time of their append.",
    )
    log_message_timestamp_before_max_ms = Setting(
        long(0),
        LONG_MAX,
        dynamic=True,
        doc="A record whose timestamp is further in the past than this is refused (CreateTime only).",
    )
    log_message_timestamp_after_max_ms = Setting(
        long(0),
        3_600_000,
        dynamic=True,
        doc="A record whose timestamp is further in the future than this is refused (CreateTime only).",
    )
    log_cleanup_policy = Setting(
        words("delete", "compact", may_be_empty=True),
        ("delete",),
        dynamic=True,
        doc="""What happens to old segments: deleted by age and size, compacted to the last record of each key, both, or
        nothing when it is empty.""",
    )
    log_cleaner_delete_retention_ms = Setting(
        long(0), 86_400_000, dynamic=True, doc="How long compaction keeps a deletion marker, so that readers see it."
    )
    log_cleaner_min_cleanable_ratio = Setting(
        ratio(), 0.5, dynamic=True, doc="Compaction starts when this part of a log has not been compacted."
    )
    log_cleaner_min_compaction_lag_ms = Setting(
        long(0), 0, dynamic=True, doc="A record is not compacted before it is as old as this."
    )
    log_cleaner_max_compaction_lag_ms = Setting(
        long(1),
        LONG_MAX,
        dynamic=True,
        doc="""A record this old is compacted whatever min.cleanable.dirty.ratio says. A segment of a compacted topic is
        closed at this age at the latest, by the next record.""",
    )
    producer_id_expiration_ms = Setting(
        integer(1),
        86_400_000,
        dynamic=True,
        doc="How long the state of an idempotent producer is kept after its last record.",
    )
