"""The settings of one log, by Kafka's topic-level names; replaceable while the log is in use."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final

UNLIMITED: Final = -1
NEVER: Final = 2**63 - 1
MAX_SEGMENT_BYTES: Final = 2**31 - 1  # positions in an index are int32


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Defaults are Kafka's. Times are milliseconds, sizes bytes; -1 means no limit for the two retentions."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = UNLIMITED
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    delete_retention_ms: int = 24 * 3600 * 1000
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    notes_durable_end: bool = False  # after every sync, exactly: see durable_end
    log_append_time: bool = False  # message.timestamp.type=LogAppendTime
    roll_ms: int = field(init=False)
    """Age at which an active segment is closed: one that is to be compacted must be closed for it."""

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes <= MAX_SEGMENT_BYTES
        assert self.cleanup_policy <= {"delete", "compact"}
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)

    def jittered(self, stamp_ms: int, seed: str) -> int | None:
        """The time from which the age of a segment counts whose first batch is of ``stamp_ms``: earlier by up to
        ``segment.jitter.ms``, drawn once for each ``seed``. None for a negative one, which is no time."""
        if stamp_ms < 0:
            return None
        return stamp_ms - zlib.crc32(seed.encode()) % (min(self.segment_jitter_ms, self.roll_ms) + 1)

    @property
    def is_compacted(self) -> bool:
        """True when the cleaner keeps only the last value of each key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        """True when retention applies."""
        return "delete" in self.cleanup_policy
