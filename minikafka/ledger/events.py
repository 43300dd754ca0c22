"""What clients did and saw: an append-only list of events, one line of JSON each, judged by ``checker``.

One event is ``{"i": index, "t": ms since the start, "p": process, "type": ..., "f": ..., "v": ...}``; the events of a
file are numbered from 0 without a gap, so that a lost line shows.
``type`` is ``invoke`` (about to try), ``ok`` (happened), ``fail`` (certainly did not happen) or ``info`` (unknown, or
a remark). The functions and their values, with partitions named ``topic-partition``:

=============  ==========================================================================================
``send``       ``invoke``, ``fail``, ``info``: ``[[partition, id], ...]``; ``ok``: ``[[partition, id, offset], ...]``.
               The order within and among a process's invokes is the order in which it sent. Every id is sent
               once; its outcome is the later event that names it, and unknown when there is none. With acks=0
               it is always unknown (``info``). Offset -1: acknowledged, nobody knows where.
``poll``       ``ok``: ``[[partition, id, offset], ...]`` in the order in which a consumer was handed them
``assign``     ``ok``: ``[partition, ...]``: that consumer's positions start anew; it must not skip from here on.
               ``[[partition, offset], ...]``: they start there. A consumer that will be ``drained`` and does not
               begin at the beginning must say so.
``drained``    ``ok``: ``[partition, ...]``: that consumer read to the end after the last write (those of unknown
               outcome, too: when nothing can be on its way any more)
``log_start``  ``ok``: ``[[partition, offset], ...]``: what lies below was deleted on purpose (retention,
               DeleteRecords). Whoever writes this vouches for it.
``end_offset`` ``ok``: ``[[partition, offset], ...]`` as a process saw it
``fault``      ``info``: what was broken or mended, in words
=============  ==========================================================================================
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

EventType = Literal["invoke", "ok", "fail", "info"]


class HistoryError(ValueError):
    """A history that cannot be judged, because it is damaged or was not written as this module says."""


class Event(NamedTuple):
    """One line of a history (`i`, `t`, `p`, `type`, `f`, `v`)."""

    number: int
    time_ms: int
    process: str
    type: EventType
    function: str
    value: Any

    def to_json(self) -> str:
        """The event as one line of JSON, without the line's end."""
        i, t, p, kind, f, v = self
        return json.dumps({"i": i, "t": t, "p": p, "type": kind, "f": f, "v": v}, separators=(",", ":"))
