"""The timers of a group coordinator, by key."""

from __future__ import annotations

from dataclasses import dataclass


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
class RevocationTimer:
    """The end of the time in which a member of a consumer group must give partitions up.

    A classic member must join again in it, and then fetch its assignment.
    """

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class WriteTimer:
    """The end of a response's wait for its write."""

    write_id: int


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """The next sweep for offsets to expire."""


TimerKey = MemberTimer | RebalanceTimer | RevocationTimer | WriteTimer | RetentionTimer
