"""What the members of a group subscribe to, all together: counted, so that no heartbeat looks at all members."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, TypeVar

from minikafka.groups.consumer.records import Subscription

T = TypeVar("T")

MEMBER_BYTES: Final = 1_000
"""What a member takes beside its subscription: rows, session, timers."""
NAME_BYTES: Final = 60
"""What a name takes beside its characters."""
REGEX_BYTES: Final = 256 << 10
"""What an expression counts for, however many members have it: it may match all topics of the cluster."""


@dataclass(slots=True)
class Subscribed:
    """Of the members of one group."""

    topics: Counter[str] = field(default_factory=Counter)
    """How many members name the topic."""
    regexes: Counter[str] = field(default_factory=Counter)
    """How many members have the expression, in order of their first."""
    kinds: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)
    """How many members name the same topics and have the same expression."""
    classic: int = 0
    """How many members are classic ones."""
    protocols: Counter[str] = field(default_factory=Counter)
    """How many of them have the protocol."""
    size: int = 0
    """In bytes, of the members; expressions come on top."""

    def add(self, member_id: str, subscription: Subscription | None) -> None:
        """A member begins to want this."""
        if subscription is not None:
            self.topics.update(subscription.topic_names)
            self.kinds[_kind(subscription)] += 1
            if subscription.topic_regex:
                self.regexes[subscription.topic_regex] += 1
            if subscription.classic is not None:
                self.classic += 1
                self.protocols.update(subscription.classic.names)
            self.size += size_in_bytes(member_id, subscription)

    def remove(self, member_id: str, subscription: Subscription | None) -> None:
        """A member wants this no more."""
        if subscription is not None:
            for name in subscription.topic_names:
                _take_one(self.topics, name)
            _take_one(self.kinds, _kind(subscription))
            if subscription.topic_regex:
                _take_one(self.regexes, subscription.topic_regex)
            if subscription.classic is not None:
                self.classic -= 1
                for name in subscription.classic.names:
                    _take_one(self.protocols, name)
            self.size -= size_in_bytes(member_id, subscription)

    def have_protocol(self, name: str, but: Subscription | None) -> bool:
        """True when all classic members have the protocol; ``but``: of a member that is not asked."""
        classic = None if but is None else but.classic
        others, have = self.classic, self.protocols[name]
        return have == others if classic is None else have - (name in classic.names) == others - 1

    def size_with(self, member_id: str, before: Subscription | None, wanted: Subscription) -> int:
        """In bytes, with expressions, after a member's change."""
        regexes = len(self.regexes.keys() | {wanted.topic_regex} - {""})
        gone = 0 if before is None else size_in_bytes(member_id, before)
        return self.size - gone + size_in_bytes(member_id, wanted) + regexes * REGEX_BYTES


def size_in_bytes(member_id: str, subscription: Subscription) -> int:
    """Of one member."""
    names = (
        member_id,
        subscription.instance_id,
        subscription.rack_id,
        subscription.client_id,
        *subscription.topic_names,
    )
    protocols = () if subscription.classic is None else subscription.classic.protocols
    metadata = sum(NAME_BYTES + len(name) + len(metadata) for name, metadata in protocols)
    return MEMBER_BYTES + sum(NAME_BYTES + len(name) for name in names if name is not None) + metadata


def _kind(subscription: Subscription) -> tuple[tuple[str, ...], str]:
    return subscription.topic_names, subscription.topic_regex


def _take_one(counter: Counter[T], name: T) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
