"""The rules by name, with the text of a violation: formats for both Python's ``%`` and Spark's ``format_string``, so
that
both checkers say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

UNKNOWN_PLACE: Final = "an unknown offset"

SENTENCES: Final[dict[str, str]] = {
    # record, offset, reader, its highest offset
    "lost-write": "%s was acknowledged at %s, and %s, which read up to %d, was not handed it",
    "unseen": "%s was acknowledged at %s, and %s read to the end, which was at %d",
    "dirty-read": "%s was read at %s, and %s, which read to the end (%d), was not handed it",
    # record, number of offsets, lowest, highest
    "duplicate": "%s is at %d offsets, from %d to %d",
    # process, record, the earlier record, offset, the earlier record's
    "nonmonotonic-send": "%s sent %s after %s, but it is at %d, before %d",
    # consumer, record, offset, position
    "nonmonotonic-poll": "%s was handed %s at %d when its position was %d",
    # consumer, position, record, its offset, the offset between
    "poll-skip": "%s was at %d, was handed %s at %d, and skipped %d",
    # record, offset
    "phantom": "%s is at %s and was never sent",
    "aborted-read": "%s was refused, and read at %d",
    # offset, the one record, the other
    "inconsistent-offsets": "offset %d holds %s for some and %s for others",
    # the one record, the other, offset
    "reused-offset": "%s and %s were both acknowledged at %d",
    # process, offset before, offset
    "nonmonotonic-end-offset": "%s saw the end at %d and then at %d",
}


def skips_not_judged(consumers: Sequence[str]) -> str:
    """Of consumers that were handed records from nobody knows where on."""
    more = f" and {len(consumers) - 1:,} more" if len(consumers) > 1 else ""
    return f"poll-skip by {consumers[0]}{more}: the history has no assign before what was handed out"
