"""Which of the oldest segments may go (``retention.ms``, ``retention.bytes``, the log start offset).

Only whole segments, oldest first, without a gap, only below the high watermark, and never the active one. Age is that
of the newest record in the segment against the wall clock, so a clock that jumps ahead can at worst delete what the
operator's retention would delete at that time, and never the segment that is being written.
"""

from __future__ import annotations

from minikafka.model import NO_TIMESTAMP
from minikafka.storage.config import UNLIMITED, LogConfig
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments


def deletable(
    segments: Segments, config: LogConfig, *, log_start_offset: int, high_watermark: int, wall_ms: int
) -> int:
    """How many of the oldest segments may be deleted now."""
    excess = _excess_bytes(segments, config)
    count = 0
    for segment in segments.closed:
        if segment.next_offset > high_watermark:
            break
        fits_excess = segment.size <= excess
        if not (
            segment.next_offset <= log_start_offset
            or (config.deletes_old_segments and (fits_excess or _is_expired(segment, config, wall_ms)))
        ):
            break
        excess -= segment.size
        count += 1
    return count


def _excess_bytes(segments: Segments, config: LogConfig) -> int:
    """Bytes above ``retention.bytes``; a segment goes only if the log stays at least that large. -1 without limit."""
    if config.retention_bytes == UNLIMITED:
        return -1
    return segments.size_in_bytes - config.retention_bytes


def _is_expired(segment: Segment, config: LogConfig, wall_ms: int) -> bool:
    if config.retention_ms == UNLIMITED:
        return False
    newest = segment.max_timestamp.timestamp
    return newest != NO_TIMESTAMP and wall_ms - newest > config.retention_ms
