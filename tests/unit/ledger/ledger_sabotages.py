"""What a checker of histories gets wrong easily, planted: the schedules are histories of chance, honest and not."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from pytest import MonkeyPatch  # noqa: PT013

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger_random import MUTATIONS, honest
from planted.registry import Suite

from minikafka.ledger import partition
from minikafka.ledger.checker import check
from minikafka.ledger.events import Event
from minikafka.ledger.offsets import UNKNOWN
from minikafka.ledger.partition import PartitionHistory, Reader
from minikafka.ledger.rules import RULES


def run(seed: int) -> None:
    """An honest history is not flagged; the same with one wrong thing is, by a rule that says so."""
    rng = random.Random(seed)
    tale = honest(rng)
    verdict = check(tale.events())
    assert verdict.outcome in ("kept", "nothing proved"), f"an honest history: {verdict.sentence}"
    mutate = rng.choice(MUTATIONS)
    if expected := mutate(tale, rng):
        verdict = check(tale.events())
        assert not verdict.ok, f"nobody noticed that {mutate.__name__}"
        assert expected & {verdict.outcome, *verdict.broken}, f"{mutate.__name__}: {verdict.sentence}"


LEDGER = Suite("ledger", "the checker of histories", run, bound=400)


@LEDGER.plants()
def what_was_polled_once_counts_as_read(patch: MonkeyPatch) -> None:
    """A record that any consumer was ever handed is not looked for any more: a tail or head may be lost afterwards."""
    found = PartitionHistory.gone.func

    def gone(self: PartitionHistory) -> object:
        return {record: where for record, where in found(self).items() if record not in self.offsets_of}

    patch.setattr(PartitionHistory, "gone", property(gone))


@LEDGER.plants()
def one_readers_word_is_enough(patch: MonkeyPatch) -> None:
    """What one reader was handed is not looked for at the others."""
    found = PartitionHistory.gone.func

    def gone(self: PartitionHistory) -> object:
        seen = frozenset[str]().union(*(reader.records for reader in self.readers))
        return {record: where for record, where in found(self).items() if record not in seen}

    patch.setattr(PartitionHistory, "gone", property(gone))


@LEDGER.plants()
def an_earlier_assignment_counts_for_a_later_one(patch: MonkeyPatch) -> None:
    """A reader is judged by all that its consumer was ever handed."""

    def readers(self: PartitionHistory) -> list[Reader]:
        return [
            Reader(
                consumer,
                0,
                max((offset for run in runs for offset, _ in run.handed), default=-1),
                frozenset(record for run in runs for _, record in run.handed),
            )
            for consumer, runs in sorted(self.runs.items())
            if any(run.is_drained for run in runs)
        ]

    patch.setattr(PartitionHistory, "readers", property(readers))


@LEDGER.replaces(PartitionHistory, "unjudged")
def nobody_looked_and_that_is_fine(self: PartitionHistory) -> int:
    """A partition that nobody read to the end is ok."""
    return 0


@LEDGER.replaces(PartitionHistory, "must_hand")
def readers_start_at_the_beginning(self: PartitionHistory, reader: Reader, offset: int | None) -> bool:
    """A reader that began later must have been handed what lies before."""
    return (0 if offset is None else offset) >= self.log_start


@LEDGER.plants()
def retention_is_loss(patch: MonkeyPatch) -> None:
    """What was deleted on purpose is looked for."""
    patch.delitem(partition._TAKEN, ("log_start", "ok"))


@LEDGER.plants()
def no_place_is_a_place(patch: MonkeyPatch) -> None:
    """Offset -1 of an acknowledgement counts as an offset: twice there is an offset used again."""

    def take(partitions: partition.Partitions, event: Event) -> None:
        for name, record, offset in event.items(str, str, int):
            partitions[name].acknowledged.add(record, -2 if offset == UNKNOWN else offset)

    patch.setitem(partition._TAKEN, ("send", "ok"), take)


@LEDGER.plants()
def only_promises_are_looked_for(patch: MonkeyPatch) -> None:
    """A record of unknown outcome that somebody was handed may be gone afterwards."""
    patch.setitem(RULES, "dirty-read", lambda history: iter(()))


@LEDGER.plants()
def missing_without_a_place_is_not_missing(patch: MonkeyPatch) -> None:
    """A record that was acknowledged without an offset, and is nowhere, is not lost."""
    found = PartitionHistory.gone.func

    def gone(self: PartitionHistory) -> object:
        return {record: where for record, where in found(self).items() if where[0] is not None}

    patch.setattr(PartitionHistory, "gone", property(gone))
