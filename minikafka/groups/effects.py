"""The effects that the driver carries out, in order, and the keys of timers.

``Respond``      send a response for the request that came with this token
``Write``        append the records, as one batch, to the shard's partition of the offsets topic with acks=all. The
                 driver calls ``on_committed(write_id)`` when the high watermark has passed them, in append order, or
                 ``on_write_failed(write_id, error)`` when they will never be in the log. For a slow append it calls
                 neither: the coordinator has a timer of its own.
``SetTimer``     call ``on_timer(key)`` at `deadline_ms` (monotonic); it replaces an earlier timer of that key
``CancelTimer``  cancel the timer of that key
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.wire.schema import Message
from minikafka.wire.versioned import Record

Token = object
"""The driver's handle of a request that awaits its response. Never None."""


@dataclass(frozen=True, slots=True)
class MemberTimer:
    """The end of a member's session, or of the wait for a pending member's join (KIP-394)."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """The end of the phase that a group is in: members joining, or members fetching their assignments."""

    group_id: str


@dataclass(frozen=True, slots=True)
class WriteTimer:
    """The end of a response's wait for its write."""

    write_id: int


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """The next sweep for offsets to expire."""


TimerKey = MemberTimer | RebalanceTimer | WriteTimer | RetentionTimer


class Respond(NamedTuple):
    """Send `response` to the request of `token`."""

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
