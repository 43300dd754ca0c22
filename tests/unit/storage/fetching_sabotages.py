"""Planted bugs of what a follower takes from a leader whose disk goes bad."""

from __future__ import annotations

from typing import Any

from fetching_model import run
from planted.registry import Suite

from minikafka.records.build import empty_batch
from minikafka.storage import positions, verifying
from minikafka.storage.cleaning import Cleaner
from minikafka.storage.cut_job import CutJob
from minikafka.storage.reading import Reader
from minikafka.storage.slice import LogSlice, MemorySlice

SUITE = Suite("fetching", "a follower of a leader under which a batch goes bad", run, 5_000)


@SUITE.replaces(Reader, "end_of")
def answers_may_end_anywhere(reader: Any, _start_offset: int, _found: Any) -> int:
    """A base offset that rose in the last batch of an answer passes for a gap of the cleaner's, as it once did."""
    end: int = reader._log.log_end_offset
    return end


@SUITE.replaces(positions, "end_before")
def the_newest_batches_alone_are_known(segment: Any, position: int) -> int:
    """Where a slice ends is known of what the active segment remembers only."""
    known = -1 if segment.tail is None else segment.tail.end_before(position)
    return known if known >= 0 else segment.next_offset


@SUITE.replaces(Reader, "_gap")
def a_gap_at_the_end_is_answered_with_nothing(reader: Any, _start_offset: int, _limit: int) -> LogSlice:
    """A follower stands for ever where the last batch ends that compaction left."""
    return LogSlice(reader._log.segments.active.file, 0, 0)


@SUITE.replaces(Reader, "_gap")
def the_empty_batch_is_of_the_epoch_before_the_gap(reader: Any, start_offset: int, limit: int) -> MemorySlice:
    """It spans leader epochs that the leader has, and the follower diverges at once."""
    epoch = reader._log.epoch_for_offset(start_offset)
    return MemorySlice(start_offset, limit, empty_batch(start_offset, limit, epoch))


@SUITE.replaces(Cleaner, "_must_stay")
def the_cleaner_drops_the_first_batch_of_a_leader_epoch(_cleaner: Any, _header: Any) -> bool:
    """A follower takes the epoch to begin later: as a leader it leaves others what they alone wrote before it."""
    return False


@SUITE.replaces(Reader, "_gap")
def a_gap_below_the_log_start_has_no_leader_epoch(reader: Any, start_offset: int, limit: int) -> MemorySlice:
    """A follower that begins with it knows no epoch, and its fetches name none."""
    log = reader._log
    epoch = log.epoch_for_offset(start_offset)
    end_offset = limit if epoch < 0 else min(limit, log.end_offset_for_epoch(epoch).offset)
    return MemorySlice(start_offset, end_offset, empty_batch(start_offset, end_offset, epoch))


@SUITE.plants()
def a_cut_keeps_the_gap_that_a_segment_begins_with(patch: Any) -> None:
    """The log's end is behind what its files reach, and the next start takes it for damaged."""
    cut = CutJob._truncate

    def truncate(job: CutJob) -> None:
        cut(job)
        if not job.last.size:
            job.end_offset = job._offset

    patch.setattr(CutJob, "_truncate", truncate)


@SUITE.plants()
def leaders_verify_checksums_alone(patch: Any) -> None:
    """Followers refuse an offset that is out of place, and the leader finds nothing wrong."""
    patch.setattr(verifying, "check_place", lambda *_: None)
