"""Planted bugs about what a node believes of its own disk: each lets damage on one machine cost what others have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planted.registry import Suite
from sim_faults import WEIGHTS
from sim_invariants import InvariantViolatedError
from sim_scenario import simulate

from minikafka.metadata.controller import brokers
from minikafka.storage.registration import Registrations

DURATION_S = 15.0
OTHERS = tuple(name for name in WEIGHTS if name != "media")


def run(seed: int) -> None:
    """One seed; InvariantViolatedError when it fails."""
    report = simulate(seed, DURATION_S, without=OTHERS)
    if not report.ok:
        raise InvariantViolatedError(report.violation)


def trace_of(seed: int) -> str:
    """Everything that happens with one seed."""
    return "\n".join(simulate(seed, DURATION_S, without=OTHERS, tracing=True).trace)


SUITE = Suite("media", "whole clusters whose disks go bad", run, 500, (InvariantViolatedError,), trace_of, is_slow=True)


@SUITE.plants()
def a_registration_is_believed_whatever_it_lacks(patch: Any) -> None:
    """A log that is missing, or that does not say whose it is, stays in ISR and ELR, and leads empty (row 1)."""
    lost = brokers._lost

    def believing(command: Any, *, continues: bool) -> Any:
        return lost(replace(command, whole=None), continues=continues)

    patch.setattr(brokers, "_lost", believing)


@SUITE.plants()
def damaged_replicas_are_claimed(patch: Any) -> None:
    """A node names every log it has as whole, those found damaged too."""

    def whole(registrations: Any) -> dict[Any, tuple[int, ...]]:
        found: dict[Any, list[int]] = {}
        for log in registrations._replicas():
            found.setdefault(log.topic_id, []).append(log.topic_partition.partition)
        return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in found.items()}

    patch.setattr(Registrations, "whole_replicas", whole)
