"""Judges a history: did the cluster lose, repeat, reorder or invent records? Pure: events in, a verdict out.

What a history says
-------------------
A producer *invokes* a send and learns one of three outcomes. ``ok``: the record is acknowledged, a promise. ``fail``:
it certainly was not written, a promise too. ``info``, or no word at all: unknown, it may be there or not. With acks=0
nothing is promised, so its outcome is ``info``. An ``ok`` at offset -1 promises the record, but not its place (a retry
that the broker knew already): it takes part in no rule about offsets.

A consumer's positions start anew at each ``assign``. From there to the next is a *run*; what the same consumer was
handed in an earlier run says nothing about a later one. A run with ``drained`` is a *reader*: after the last write,
those of unknown outcome included, it read to the end. What is stored now, which the audit on Spark scans, is one more
reader. Readers decide what was lost, each by what it was itself handed:

* A record belongs where it was acknowledged, else where it was read.
* A reader must be handed every record that was acknowledged, and every record that anybody was handed (it was below
  the high watermark, so committed), wherever it belongs at or above the reader's own start and the log start.
* A reader starts at the offset of its ``assign``; without one it has promised to read from the beginning.
* What lies below ``log_start`` was deleted on purpose, by retention or DeleteRecords: nobody needs to find it. Only
  the history can say so. A log start that the cluster alone reports would excuse whatever head the cluster has lost.
* An acknowledged record that no reader had to be handed is *not judged*: the verdict is not ok, for nobody looked.

The rules (``rules``)
---------------------
* ``lost``                 acknowledged, and a reader that went on behind it was not handed it
* ``unseen``               acknowledged, and a reader stopped before it: the tail is gone
* ``dirty_read``           of unknown outcome, handed to somebody, and then not to a reader
* ``duplicate``            one record at two offsets
* ``reordered``            a producer's later record at a lower offset than an earlier one
* ``poll_went_back``       a consumer was handed an offset below its position
* ``poll_skipped``         an assigned consumer was not handed a record between two that it was handed
* ``phantom``              read or acknowledged, but never sent
* ``failed_read``          read, although its producer was told that it certainly failed
* ``inconsistent_offset``  a record read at an offset at which another was acknowledged or read
* ``offset_reused``        two records acknowledged at one offset
* ``end_offset_went_back`` one process saw a partition's end move back

A record that is missing counts once, however many readers miss it. How many outcomes are unknown, and how long a
partition took no write, is reported and breaks no rule.

No rule depends on the order of events of different processes, for histories of several files have none; only on what a
producer sent, a consumer was handed and a process saw as end, one after another. So ``spark.pipelines.audit`` can judge
by the same rules what does not fit in memory. ``sentences`` is common to both; a test holds the two together on
histories of chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from minikafka.ledger.events import Event
from minikafka.ledger.partition import PartitionHistory, gather
from minikafka.ledger.rules import RULES
from minikafka.ledger.verdict import Judgement

EXAMPLES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Verdict(Judgement):
    """The judgement: how often each rule was broken, with a few examples, and figures that break no rule."""

    sent: int
    acknowledged: int
    read: int
    unknown: int
    not_judged: dict[str, int]  # by partition, where there are any: acknowledged records that no reader looked for
    acknowledged_at_ms: dict[str, list[int]]  # by partition: the times at which writes were acknowledged
    violations: dict[str, int]  # every rule, with its count
    examples: dict[str, list[str]]

    @property
    def figures(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "read": self.read,
            "unknown": self.unknown,
            "unjudged": sum(self.not_judged.values()),
        }

    @property
    def broken(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {rule: count for rule, count in self.violations.items() if count}

    def longest_gap_ms(self, since_ms: int = 0, until_ms: int | None = None) -> dict[str, int]:
        """By partition: the longest time without an acknowledged write, of those that touch the given window."""
        return {
            name: max(
                (b - a for a, b in pairwise(times) if b > since_ms and (until_ms is None or a < until_ms)), default=0
            )
            for name, times in self.acknowledged_at_ms.items()
        }


def check(events: Iterable[Event]) -> Verdict:
    """Judge a whole history. Raises HistoryError when it is none."""
    partitions = dict(sorted(gather(events).items()))
    violations = dict.fromkeys(RULES, 0)
    examples: dict[str, list[str]] = {}
    for name, rule in RULES.items():
        for partition, history in partitions.items():
            for sentence in rule(history):
                violations[name] += 1
                if violations[name] <= EXAMPLES_MAX:
                    examples.setdefault(name, []).append(f"{partition}: {sentence}")

    def count(records: Callable[[PartitionHistory], int]) -> int:
        return sum(records(history) for history in partitions.values())

    return Verdict(
        sent=count(lambda history: len(history.sent_ids)),
        acknowledged=count(lambda history: len(history.acknowledged)),
        read=count(lambda history: len(history.offsets_of)),
        unknown=count(lambda history: len(history.sent_ids - history.acknowledged.keys() - history.failed)),
        not_judged={name: unjudged for name, history in partitions.items() if (unjudged := history.unjudged())},
        acknowledged_at_ms={name: sorted(set(history.acknowledged_at_ms)) for name, history in partitions.items()},
        violations=violations,
        examples=examples,
    )
