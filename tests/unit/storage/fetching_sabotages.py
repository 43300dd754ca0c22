"""Planted bugs of what a follower takes from a leader whose disk goes bad."""

from __future__ import annotations

from typing import Any

from fetching_model import run
from planted.registry import Suite

from minikafka.storage import verifying
from minikafka.storage.reading import Reader
from minikafka.storage.segment import Segment

SUITE = Suite("fetching", "a follower of a leader under which a batch goes bad", run, 5_000)


@SUITE.replaces(Reader, "end_of")
def answers_may_end_anywhere(reader: Any, _start_offset: int, _found: Any) -> int:
    """A base offset that rose in the last batch of an answer passes for a gap of the cleaner's, as it once did."""
    end: int = reader._log.log_end_offset
    return end


@SUITE.replaces(Segment, "end_before")
def the_newest_batches_alone_are_known(segment: Any, position: int) -> int:
    """Where a slice ends is known of what the active segment remembers only."""
    known = -1 if segment._tail is None else segment._tail.end_before(position)
    return known if known >= 0 else segment.next_offset


@SUITE.plants()
def leaders_verify_checksums_alone(patch: Any) -> None:
    """Followers refuse an offset that is out of place, and the leader finds nothing wrong."""
    patch.setattr(verifying, "check_place", lambda *_: None)
