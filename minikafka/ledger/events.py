"""History of what clients did and saw: an append-only list of events, one JSON line each. ``checker`` judges it.

One event is ``{"i": index, "t": ms since the start, "p": process, "type": ..., "f": ..., "v": ...}``; the events of a
file are numbered from 0 without a gap, so that a lost line shows.
``type`` is ``invoke`` (about to try), ``ok`` (happened), ``fail`` (certainly did not happen) or ``info`` (unknown, or
a remark). The functions and their values, with partitions named ``topic-partition``:

=============  ==========================================================================================
``send``       ``invoke``, ``fail``, ``info``: ``[[partition, id], ...]``; ``ok``: ``[[partition, id, offset], ...]``.
               A process's invokes are in the order of sending, also within one. Every id is sent once. Its outcome
               is the later event with it; without one it is unknown. With acks=0 it is always unknown (``info``).
               Offset -1: acknowledged at an unknown offset. In a transaction, records are ``ok`` once it is
               committed, and ``fail`` once it is aborted, whatever was acknowledged before.
``poll``       ``ok``: ``[[partition, id, offset], ...]`` in the order in which a consumer got them
``assign``     ``ok``: ``[partition, ...]``: that consumer's positions start anew; it must not skip from here on.
               ``[[partition, offset], ...]``: they start there. A consumer that will be ``drained`` must use this
               form unless it starts at the beginning. A negative offset is refused: clients mean by it what they
               have yet to find out.
``drained``    ``ok``: ``[partition, ...]``: that consumer read to the end after the last write, including writes of
               unknown outcome: none can be under way any more
``log_start``  ``ok``: ``[[partition, offset], ...]``: records below were deleted on purpose (retention,
               DeleteRecords). The writer of the event vouches for it.
``resent``     ``ok``: ``[[partition, id], ...]``: its producer sent it more than once: what is stored of it has
               different sequences, or producer epochs. The writer of the event vouches for it.
``end_offset`` ``ok``: ``[[partition, offset], ...]`` as a process saw it
``fault``      ``info``: what was broken or mended, in words
=============  ==========================================================================================

Transactions (``transaction_checker`` judges them). A process of these is one producer with a transactional id:

====================  ===================================================================================
``take_over``         ``[transactional_id]``, ``invoke``: is about to begin with it; ``ok``: has it
``begin``             ``invoke``: ``[transaction]``: whatever it sends from here on is of that transaction
``commit``            ``[transaction]``, ``invoke``: asks for its end; ``ok``: it is committed; ``fail``: it
                      is certainly not; ``info``: unknown. Without an ``invoke`` nobody may commit it.
``copy``              ``invoke``: ``[[id, group, partition, offset], ...]``: what a record is a copy of
``poll_committed``    as ``poll``, of a read_committed consumer; so are ``assign_committed`` and
                      ``drained_committed``
``position``          ``ok``: ``[[group, partition, offset], ...]``: committed, when no transaction was open. Of
                      what none of them names, nothing is
``stable_end``        ``ok``: ``[[partition, last stable offset, high watermark], ...]``, when the time of
                      every transaction was over
====================  ===================================================================================
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

EventType = Literal["invoke", "ok", "fail", "info"]

_ALL: Final[tuple[EventType, ...]] = ("invoke", "ok", "fail", "info")
OF_RECORDS: Final[Mapping[str, Sequence[EventType]]] = {
    "send": _ALL,
    **dict.fromkeys(("poll", "assign", "drained", "log_start", "resent", "end_offset"), ("ok",)),
    "fault": _ALL,
}
OF_TRANSACTIONS: Final[Mapping[str, Sequence[EventType]]] = {
    "take_over": ("invoke", "ok"),
    "begin": ("invoke",),
    "commit": _ALL,
    "copy": ("invoke",),
    **dict.fromkeys(("position", "stable_end"), ("ok",)),
}
COMMITTED: Final = {"poll_committed": "poll", "assign_committed": "assign", "drained_committed": "drained"}
"""The functions, with the types of events that tell something; those of read_committed consumers with what they are of
others."""


class HistoryError(ValueError):
    """A history that cannot be judged: it is damaged, or not of this format. ``number`` is that of the wrong event."""

    def __init__(self, words: str, number: int) -> None:
        super().__init__(f"event {number}: {words}")
        self.words = words
        self.number = number


class Event(NamedTuple):
    """One line of a history (`i`, `t`, `p`, `type`, `f`, `v`)."""

    number: int
    time_ms: int
    process: str
    type: EventType
    function: str
    value: Any

    def items(self, *types: builtins.type) -> Iterator[Sequence[Any]]:
        """The fields of each item of its value, which must be of these types. Raises HistoryError for others."""
        for item in self.listed():
            fields = item if isinstance(item, (list, tuple)) else (item,)
            if tuple(map(type, fields)) != types:
                raise self.wrong(item)
            yield fields

    def placed(self) -> Sequence[Sequence[Any]]:
        """Partition, id and offset of each item. As ``items`` would, in a third of the time: most items are so."""
        listed = self.listed()
        for item in listed:
            if not isinstance(item, (list, tuple)) or len(item) != 3:
                raise self.wrong(item)
            partition, record, offset = item
            if type(partition) is not str or type(record) is not str or type(offset) is not int:
                raise self.wrong(item)
        return listed

    def named(self) -> Sequence[Sequence[Any]]:
        """Partition and id of each item, in the same way."""
        listed = self.listed()
        for item in listed:
            if not isinstance(item, (list, tuple)) or len(item) != 2:
                raise self.wrong(item)
            partition, record = item
            if type(partition) is not str or type(record) is not str:
                raise self.wrong(item)
        return listed

    def listed(self) -> Sequence[Any]:
        """Its value, which must be a list. Raises HistoryError for another."""
        if not isinstance(self.value, (list, tuple)):
            raise HistoryError(f"no {self.function}: {self.value!r} is no list", self.number)
        return self.value

    def wrong(self, item: Any) -> HistoryError:
        """The error that an item of its value makes no sense."""
        return HistoryError(f"no {self.function}: {item!r}", self.number)

    def to_json(self) -> str:
        """The event as one line of JSON, without the line's end."""
        i, t, p, kind, f, v = self
        return json.dumps({"i": i, "t": t, "p": p, "type": kind, "f": f, "v": v}, separators=(",", ":"))
