"""What the coordinator asks its driver to do, in the order given, and how it names its timers.

``Respond``      send a response for the request that came with this token
``Write``        append the records, as one batch, to the shard's partition of the offsets topic with acks=all. The
                 driver calls ``on_committed(write_id)`` when the high watermark has passed them, in append order, or
                 ``on_write_failed(write_id, error)`` when they are not, and never will be, in the log. An append that
                 merely takes long is neither: the coordinator times it itself.
``SetTimer``     call ``on_timer(key)`` at `deadline_ms` (monotonic), instead of any earlier setting of that key
``CancelTimer``  forget that key
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.groups.records import Record
from minikafka.wire.schema import Message

Token = object
"""The driver's handle of a request that awaits its response. Never None."""


@dataclass(frozen=True, slots=True)
class MemberTimer:
    """A member's session, or the patience with a member that was given an id but has not joined (KIP-394)."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """The end of the phase that a group is in: members joining, or members fetching their assignments."""

    group_id: str


@dataclass(frozen=True, slots=True)
class WriteTimer:
    """The response of a write does not wait longer than this."""

    write_id: int


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """The next sweep for offsets to expire."""


TimerKey = MemberTimer | RebalanceTimer | WriteTimer | RetentionTimer


class Respond(NamedTuple):
    """Send `response` to whoever sent the request that came with `token`."""

    token: Token
    response: Message


class Write(NamedTuple):
    """Append `records` as one batch."""

    write_id: int
    records: tuple[Record, ...]


class SetTimer(NamedTuple):
    """Wake the coordinator with `key` at `deadline_ms`."""

    key: TimerKey
    deadline_ms: int


class CancelTimer(NamedTuple):
    """Do not wake the coordinator with `key`."""

    key: TimerKey


Effect = Respond | Write | SetTimer | CancelTimer
