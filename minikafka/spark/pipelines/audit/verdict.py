"""The judgement of an audit: per partition what was found, and a few examples of each violation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from minikafka.ledger.checker import RULES

EXAMPLES_MAX: Final = 5
"""Of each rule, in each partition."""


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """One partition's figures, how often each rule was broken there (those that were), and examples in words."""

    partition: str
    sent: int = 0
    acknowledged: int = 0
    read: int = 0
    unknown: int = 0  # sent, and neither acknowledged nor refused
    violations: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """Its topic."""
        return topic_and_number(self.partition)[0]


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """The judgement of all partitions, as ``ledger.checker.Verdict`` has it of a history in memory."""

    partitions: tuple[PartitionVerdict, ...]  # by topic and number

    @property
    def sent(self) -> int:
        """Records that somebody tried to write."""
        return sum(partition.sent for partition in self.partitions)

    @property
    def acknowledged(self) -> int:
        """Records that the cluster promised to keep."""
        return sum(partition.acknowledged for partition in self.partitions)

    @property
    def read(self) -> int:
        """Different records that are there."""
        return sum(partition.read for partition in self.partitions)

    @property
    def unknown(self) -> int:
        """Records sent whose fate nobody was told."""
        return sum(partition.unknown for partition in self.partitions)

    @property
    def violations(self) -> dict[str, int]:
        """Every rule, and how often it was broken."""
        return {rule: sum(partition.violations.get(rule, 0) for partition in self.partitions) for rule in RULES}

    @property
    def examples(self) -> dict[str, list[str]]:
        """Of each rule that was broken: sentences that name partition, record and offsets."""
        told: dict[str, list[str]] = {}
        for partition in self.partitions:
            for rule, sentences in partition.examples.items():
                told.setdefault(rule, []).extend(f"{partition.partition}: {sentence}" for sentence in sentences)
        return told

    @property
    def ok(self) -> bool:
        """True when no rule was broken and something was acknowledged and read: an empty history proves nothing."""
        return not any(self.violations.values()) and self.acknowledged > 0 and self.read > 0

    @property
    def sentence(self) -> str:
        """The verdict in a line."""
        broken = {rule: count for rule, count in self.violations.items() if count}
        if broken:
            return "the cluster broke its word: " + ", ".join(f"{rule} {count:,}" for rule, count in broken.items())
        if not self.ok:
            return "this proves nothing: nothing was acknowledged, or nothing was read"
        unknown = f" ({self.unknown:,} of unknown fate)" if self.unknown else ""
        return f"{self.acknowledged:,} acknowledged records{unknown}: none lost, duplicated or reordered"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "ok": self.ok,
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "read": self.read,
            "unknown": self.unknown,
            "violations": self.violations,
            "partitions": [
                {
                    "partition": partition.partition,
                    "sent": partition.sent,
                    "acknowledged": partition.acknowledged,
                    "read": partition.read,
                    "unknown": partition.unknown,
                    "violations": dict(partition.violations),
                    "examples": {rule: list(sentences) for rule, sentences in partition.examples.items()},
                }
                for partition in self.partitions
            ],
        }


def topic_and_number(partition: str) -> tuple[str, int]:
    """The two parts of a partition's name, which sort as people expect."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)
