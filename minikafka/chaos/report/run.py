"""All that is known of a run when it is over. Times are in milliseconds since its history began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from minikafka.ledger.judging import HistoryVerdict
from minikafka.ledger.verdict import RESENT


class Fault(NamedTuple):
    """Something that was broken, from its begin to its mending; None: never mended."""

    kind: str  # "kill", "pause", ...
    sentence: str
    begin_ms: int
    end_ms: int | None


class PartitionState(NamedTuple):
    """A partition as metadata had it."""

    partition: str  # "topic-0"
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class Sample(NamedTuple):
    """The cluster at one time."""

    t_ms: int
    partitions: tuple[PartitionState, ...]  # none: nobody answered
    acknowledged: int  # records so far
    read: int


class Finding(NamedTuple):
    """A check after the run."""

    name: str  # "replicas are byte-equal up to the high watermark"
    ok: bool
    sentence: str  # what was looked at, or what is wrong


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """A run and its verdict."""

    command: str  # which runs it again
    seed: int
    versions: Mapping[str, str]  # of minikafka, Python, the clients
    settings: Mapping[str, str]
    workload: str
    client: str
    duration_ms: int
    load_begin_ms: int
    load_end_ms: int  # of the load; then the cluster is mended and read to the end
    faults: Sequence[Fault]
    samples: Sequence[Sample]
    verdict: HistoryVerdict
    findings: Sequence[Finding]
    succeeded: int  # operations
    needed: int  # so many for a proof

    @property
    def ok(self) -> bool:
        """True when every promise was kept and judged, every check passed, and enough was done."""
        return self.verdict.ok and not self.failed and self.succeeded >= self.needed

    @property
    def failed(self) -> list[Finding]:
        """The checks that did not pass."""
        return [finding for finding in self.findings if not finding.ok]

    @property
    def sentence(self) -> str:
        """The verdict for somebody who knows nothing of the project."""
        records = self.verdict.records
        if self.verdict.outcome == "broken":
            return f"The cluster broke its word: {self._broken()}."
        if self.failed:
            known = "" if self.verdict.ok else f" as far as is known ({self._unproved()})"
            return f"No record is wrong{known}, but a check of the cluster failed: {self.failed[0].name}."
        if not self.verdict.ok:
            return f"Nothing wrong was found, but this proves nothing: {self._unproved()}."
        if self.succeeded < self.needed:
            return (
                f"Nothing wrong was found, but too little was done to prove anything: {self.succeeded:,} operations "
                f"succeeded, and {self.needed:,} were needed."
            )
        # Of a cluster that was there somebody else may have broken something.
        faults = f" during {len(self.faults):,} fault{'' if len(self.faults) == 1 else 's'}" if self.faults else ""
        return (
            f"The cluster kept its word: of {records.acknowledged:,} records that it acknowledged{faults} in "
            f"{self.duration_ms / 1000:.0f} s, none was lost, doubled, reordered or changed"
            + (f"; {records.resent:,} {RESENT}." if records.resent else ".")
        )

    @property
    def last_ms(self) -> int:
        """When the last of all that is known was seen: the cluster heals after the load's time."""
        ends = [fault.end_ms for fault in self.faults if fault.end_ms is not None]
        return max([self.load_end_ms, *ends, *(sample.t_ms for sample in self.samples)])

    @property
    def lost(self) -> int:
        """Acknowledged records that are gone."""
        return self.verdict.records.violations["lost-write"] + self.verdict.records.violations["unseen"]

    @property
    def other_anomalies(self) -> int:
        """Violations that are no lost record."""
        return sum(sum(each.broken.values()) for each in self.verdict.judgements.values()) - self.lost

    def _broken(self) -> str:
        named = {"duplicate": "there twice", "nonmonotonic-send": "in the wrong order"}
        broken, words = self.verdict.records.broken, []
        if self.lost:
            verb = "is" if self.lost == 1 else "are"
            words.append(f"{self.lost:,} of {self.verdict.records.acknowledged:,} acknowledged records {verb} gone")
        for rule, what in named.items():
            if count := broken.get(rule):
                words.append(f"1 record is {what}" if count == 1 else f"{count:,} records are {what}")
        others = self.other_anomalies - sum(broken.get(rule, 0) for rule in named)
        if others:
            words.append(f"{others:,} {'other ' if words else ''}anomal{'y was' if others == 1 else 'ies were'} found")
        return ", ".join(words)

    def _unproved(self) -> str:
        figures = next(each for each in self.verdict.judgements.values() if not each.ok).figures
        if figures["unjudged"]:
            return f"{figures['unjudged']:,} acknowledged records were not looked for afterwards"
        return "nothing was acknowledged, or nothing was read"

    def faults_between(self, begin_ms: int, end_ms: int) -> list[Fault]:
        """Those in force at any time of it."""
        return [
            fault
            for fault in self.faults
            if fault.begin_ms <= end_ms and (fault.end_ms is None or fault.end_ms >= begin_ms)
        ]
