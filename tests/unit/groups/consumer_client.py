"""A member of the newer protocol, as Java's and librdkafka's clients are: for schedules of consumer groups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from classic_client import Classic
from consumer_driver import Owned, SomeTopics


@dataclass(eq=False)
class Client:
    """A consumer: one heartbeat at a time, as the Java client sends them, or as librdkafka does: it tells everything in
    each, until it takes up its first partitions. Then a new subscription does not tell what it has."""

    name: str
    instance: str | None
    subscription: dict[str, Any]
    rebalance_ms: int
    epoch: int = 0
    owned: Owned = frozenset()  # in use
    target: Owned | None = None  # told, and not yet taken up
    taking: Owned | None = None  # it is about to have this, whatever it is told meanwhile
    told: Owned | None = None  # what it has told last; None: nothing that counts
    acks: bool = False  # it has taken up what it was told to, and says so, changed or not
    tells: bool = False  # in the request that it waits for
    wishes: bool = False  # it has another subscription, and has not said so
    tells_wishes: bool = False  # in the request that it waits for
    has_begun: bool = False  # it has taken up partitions since it joined
    asks_again: bool = True  # with all that it wants and has, when an answer is lost; librdkafka does not
    alive: bool = True
    waits_for: str | None = None
    heard: int = -1  # the newest epoch that it was told
    classic: Classic | None = None

    @property
    def member_id(self) -> str:
        """A member of the newer protocol makes its own."""
        return self.name if self.classic is None else self.classic.member_id

    def begin(self, some: SomeTopics) -> None:
        """It begins to take up what it was told to have. It looks for topics until it finds them."""
        if self.target is not None:
            found = frozenset(at for at in self.target if at in self.owned or some.with_id(at[0]))
            self.taking, self.target = found, None if found == self.target else self.target

    def end(self) -> None:
        """It has given up what it was to, and begins with what is new. Of partial and of empty changes librdkafka says
        nothing if nothing has changed for it."""
        if self.taking is not None:
            self.acks |= self.asks_again or self.taking != self.owned
            self.has_begun |= bool(self.taking)
            self.owned, self.taking = self.taking, None

    def tell(self) -> None:
        """It tells what it has: without what it is about to take up, so that it begins anew with that, by the newest
        answer. (Java's and librdkafka's clients go on, and have for a moment what they were told to give up, and have
        denied to have. No coordinator can know.)"""
        if self.taking is not None:
            self.target, self.taking = self.taking if self.target is None else self.target, None

    def lose_all(self) -> None:
        """It has nothing, and was told nothing."""
        self.owned, self.target, self.taking = frozenset(), None, None

    def give_up(self) -> None:
        """It has waited long enough for an answer."""
        if self.asks_again or self.tells:
            self.told = None
        self.wishes |= self.tells_wishes
        self.waits_for = None

    @property
    def tells_everything(self) -> bool:
        """True when its next heartbeat leaves nothing out."""
        return self.told is None or self.epoch == 0 or not (self.asks_again or self.has_begun)

    def wants(self, topic: str) -> bool:
        """True when it subscribes to the topic."""
        if self.classic is not None:
            return topic in self.classic.topics
        regex = self.subscription.get("regex")
        return topic in self.subscription.get("names", ()) or bool(regex and re.fullmatch(regex, topic))
