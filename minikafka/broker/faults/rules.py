"""Rules for requests: which they are for, and what becomes of them. Pure.

The first rule that fits decides, and counts. What clients of a test cluster are to survive is what the rules of
librdkafka's mock cluster and of proxies offer: errors, late answers, lost ones, broken connections, old brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.schema import VersionRange


class Effect(StrEnum):
    """What a rule does to a request."""

    ERROR = "error"
    """It is answered with an error."""
    DELAY = "delay"
    """Its answer comes late."""
    DROP = "drop"
    """It gets no answer: its client waits until its time is up."""
    DISCONNECT = "disconnect"
    """Its connection ends instead."""
    DUPLICATE = "duplicate"
    """Its answer comes twice."""
    VERSIONS = "versions"
    """ApiVersions announces fewer versions of the API, and others are not served: an older broker."""


@dataclass(slots=True, eq=False)
class Rule:
    """One of them. ``is_after``: the request is carried out all the same, so that its outcome is unknown."""

    api: ApiKey
    effect: Effect
    client_id: str | None = None
    """Of clients whose id fits this pattern (``*`` and ``?``); None: of all."""
    times: int | None = None
    """For so many requests; None: until it is taken away."""
    is_after: bool = False
    error: ErrorCode = ErrorCode.NONE
    delay_ms: int = 0
    versions: VersionRange | None = None
    number: int = 0

    def fits(self, key: int, client_id: str | None) -> bool:
        """Whether it is for such a request."""
        return key == self.api and (self.client_id is None or _fits(client_id or "", self.client_id))

    def __str__(self) -> str:
        what = {
            Effect.ERROR: f"is answered {self.error.name}",
            Effect.DELAY: f"is answered {self.delay_ms} ms late",
            Effect.DROP: "is not answered",
            Effect.DISCONNECT: "ends its connection",
            Effect.DUPLICATE: "is answered twice",
            Effect.VERSIONS: f"is served in versions {self.versions} only",
        }[self.effect]
        after = ", but carried out" if self.is_after else ""
        whose = "" if self.client_id is None else f" of {self.client_id}"
        times = "" if self.times is None else f", {self.times} more times" if self.times != 1 else ", once more"
        return f"rule {self.number}: {self.api.camel_name}{whose} {what}{after}{times}"


def _fits(name: str, pattern: str) -> bool:
    """Brackets stand for themselves: names of tests with parameters have some."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


class Rules:
    """The rules of one node, in order."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._next = 1

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def add(self, rule: Rule) -> None:
        """After those that are there. It gets its number."""
        rule.number = self._next
        self._next += 1
        self._rules.append(rule)

    def remove(self, number: int) -> bool:
        """Take one away; False: there is none of that number."""
        before = len(self._rules)
        self._rules = [rule for rule in self._rules if rule.number != number]
        return len(self._rules) < before

    def clear(self) -> None:
        """Take all away."""
        self._rules.clear()

    def find(self, key: int, client_id: str | None) -> Rule | None:
        """The rule for this request."""
        fitting = (rule for rule in self._rules if rule.effect is not Effect.VERSIONS and rule.fits(key, client_id))
        return next(fitting, None)

    def count(self, rule: Rule) -> None:
        """It decided what becomes of one more request."""
        if rule.times is not None:
            rule.times -= 1
            if not rule.times:
                self._rules.remove(rule)

    def versions(self, client_id: str | None) -> dict[int, VersionRange]:
        """The versions that a client may be told of, by API, where they are fewer."""
        rules = (rule for rule in reversed(self._rules) if rule.versions is not None)
        return {rule.api: rule.versions for rule in rules if rule.fits(rule.api, client_id) and rule.versions}
