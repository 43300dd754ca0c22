"""The judgement of an audit: figures per partition, and a few examples of each violation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from minikafka.ledger.sentences import SENTENCES, skips_not_judged
from minikafka.ledger.verdict import Judgement

EXAMPLES_MAX: Final = 5
"""Of each rule, in each partition."""

FIGURES: Final = ("sent", "acknowledged", "read", "unknown", "unjudged", "resent", "deleted")


@dataclass(frozen=True, slots=True)
class PartitionVerdict(Judgement):
    """One partition's figures, its violations by rule, and examples in words."""

    partition: str
    sent: int = 0
    acknowledged: int = 0
    read: int = 0
    unknown: int = 0  # sent, and neither acknowledged nor refused
    unjudged: int = 0  # acknowledged, and no reader looked for it
    resent: int = 0  # at several offsets, because their producer sent them so
    deleted: int = 0  # acknowledged, and deleted on purpose
    open_from: int | None = None  # where a transaction is open, behind which nothing is judged
    unassigned: tuple[str, ...] = ()  # consumers that may have skipped records: nobody knows where they began
    violations: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """Its topic."""
        return topic_and_number(self.partition)[0]

    @property
    def figures(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {name: getattr(self, name) for name in FIGURES}

    @property
    def broken(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {rule: count for rule, count in self.violations.items() if count}


@dataclass(frozen=True, slots=True)
class AuditVerdict(Judgement):
    """The judgement of all partitions, like ``ledger.checker.Verdict`` for a history in memory."""

    partitions: tuple[PartitionVerdict, ...]  # by topic and number

    @property
    def not_judged(self) -> list[str]:
        """What nobody could judge, in sentences, besides what is ``unjudged`` or lies behind ``open_from``."""
        consumers = sorted({name for partition in self.partitions for name in partition.unassigned})
        return [skips_not_judged(consumers)] if consumers else []

    @property
    def figures(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {name: sum(partition.figures[name] for partition in self.partitions) for name in FIGURES}

    @property
    def open_from(self) -> dict[str, int]:
        """By partition with an open transaction: its first offset. What lies behind was not read."""
        return {each.partition: each.open_from for each in self.partitions if each.open_from is not None}

    @property
    def violations(self) -> dict[str, int]:
        """The number of violations of every rule."""
        return {rule: sum(partition.violations.get(rule, 0) for partition in self.partitions) for rule in SENTENCES}

    @property
    def broken(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {rule: count for rule, count in self.violations.items() if count}

    @property
    def examples(self) -> dict[str, list[str]]:
        """For each broken rule: sentences with partition, record and offsets."""
        told: dict[str, list[str]] = {}
        for partition in self.partitions:
            for rule, sentences in partition.examples.items():
                told.setdefault(rule, []).extend(f"{partition.partition}: {sentence}" for sentence in sentences)
        return told

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "ok": self.ok,
            "outcome": self.outcome,
            **self.figures,
            "violations": self.violations,
            "not_judged": self.not_judged,
            "partitions": [asdict(partition) | {"outcome": partition.outcome} for partition in self.partitions],
        }


def topic_and_number(partition: str) -> tuple[str, int]:
    """The two parts of a partition's name, for a natural order."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)
