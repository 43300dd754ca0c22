"""Judges a history: did the cluster lose, repeat, reorder or invent records? Pure: events in, a verdict out.

Meaning of a history
--------------------
A producer *invokes* a send and learns one of three outcomes. ``ok``: the record is acknowledged, a promise. ``fail``:
it certainly was not written, a promise too. ``info``, or no word at all: unknown, it may be there or not. With acks=0
nothing is promised, so its outcome is ``info``. An ``ok`` at offset -1 promises the record, but not its place (a retry
that the broker knew already): it takes part in no rule about offsets.

A consumer's positions start anew at each ``assign``. The events from one to the next are a *run*; records of an earlier
run say nothing about a later one. A run with ``drained`` is a *reader*: it read to the end after the last write,
including writes of unknown outcome. The stored records, which the audit on Spark scans, are one more reader. Readers
decide about losses, each by its own records:

* A record belongs to the offset of its acknowledgement, or else to the offset at which it was read.
* A reader must get every acknowledged record, and every record that any consumer got (it was below the high watermark,
  so committed), at or above the reader's own start and the log start.
* A reader starts at the offset of its ``assign``; without one it has promised to read from the beginning.
* Records below ``log_start`` were deleted on purpose, by retention or DeleteRecords: readers need not get them. Only
  the history may say so. A log start that only the cluster reports would excuse any lost head.
* A record that is ``resent`` was sent again by its producer as a new one, so it may be there again. Brokers know a
  repetition by the producer's id, epoch and sequence; whoever says so has seen that these differ.
* An acknowledged record that no reader had to get is *not judged*: the verdict is not ok, since no reader looked.

The rules (``rules``), by the names of Jepsen's Kafka workload where it has the rule
-----------------------------------------------------------------------------------
* ``lost-write``              acknowledged, and missing for a reader that got later records
* ``unseen``                  acknowledged, and beyond the last record of a reader: the tail is gone
* ``dirty-read``              of unknown outcome, read by a consumer, and missing for a reader
* ``duplicate``               one record at two offsets, though its producer sent it once
* ``nonmonotonic-send``       a producer's later record at a lower offset than an earlier one
* ``nonmonotonic-poll``       a consumer got an offset below its position
* ``poll-skip``               an assigned consumer missed a record between its position and the next that it got
* ``phantom``                 read or acknowledged, but never sent
* ``aborted-read``            read, although its producer was told that it failed (G1a)
* ``inconsistent-offsets``    a record read at an offset at which another was acknowledged or read
* ``reused-offset``           two records acknowledged at one offset
* ``nonmonotonic-end-offset`` one process saw a partition's end move back

A missing record counts once, for any number of readers. The number of unknown outcomes and the longest time without a
write per partition are reported, and break no rule.

No rule depends on the order of events of different processes: a history of several files has none. Rules depend on the
order of each producer's sends, each consumer's records and each process's end offsets. So ``spark.pipelines.audit`` can
judge by the same rules what does not fit in memory. Both use ``sentences``; a test compares them on random histories.
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
    """The judgement: violations of each rule with some examples, and further figures."""

    sent: int
    acknowledged: int
    read: int
    unknown: int
    resent: int  # at several offsets, because their producer sent them so
    deleted: int  # acknowledged, and deleted on purpose, as the history says
    not_judged: dict[str, int]  # by partition, if any: acknowledged records that no reader looked for
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
            "resent": self.resent,
            "deleted": self.deleted,
        }

    @property
    def broken(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {rule: count for rule, count in self.violations.items() if count}

    def longest_gap_ms(self, since_ms: int = 0, until_ms: int | None = None) -> dict[str, int]:
        """By partition: the longest time without an acknowledged write that overlaps the given window."""
        return {
            name: max(
                (b - a for a, b in pairwise(times) if b > since_ms and (until_ms is None or a < until_ms)), default=0
            )
            for name, times in self.acknowledged_at_ms.items()
        }


def check(events: Iterable[Event]) -> Verdict:
    """Judge a whole history. Raises HistoryError for an invalid one."""
    return check_partitions(gather(events))


def check_partitions(partitions: Mapping[str, PartitionHistory]) -> Verdict:
    """Judge the histories of partitions, by name."""
    partitions = dict(sorted(partitions.items()))
    violations = dict.fromkeys(RULES, 0)
    examples: dict[str, list[str]] = {rule: [] for rule in RULES}
    for partition, history in partitions.items():  # all rules on one, while the processor's caches have it
        for name, rule in RULES.items():
            for sentence in rule(history):
                violations[name] += 1
                if violations[name] <= EXAMPLES_MAX:
                    examples[name].append(f"{partition}: {sentence}")

    def count(records: Callable[[PartitionHistory], int]) -> int:
        return sum(records(history) for history in partitions.values())

    return Verdict(
        sent=count(lambda history: len(history.sent_ids)),
        acknowledged=count(lambda history: len(history.acknowledged)),
        read=count(lambda history: len(history.offsets_of)),
        unknown=count(lambda history: len(history.sent_ids - history.acknowledged.keys() - history.failed)),
        resent=count(lambda history: sum(len(history.offsets_at(record)) > 1 for record in history.resent)),
        deleted=count(PartitionHistory.deleted),
        not_judged={name: unjudged for name, history in partitions.items() if (unjudged := history.unjudged())},
        acknowledged_at_ms={name: sorted(history.acknowledged_at_ms) for name, history in partitions.items()},
        violations=violations,
        examples={rule: sentences for rule, sentences in examples.items() if sentences},
    )
