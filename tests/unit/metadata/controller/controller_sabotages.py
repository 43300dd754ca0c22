"""Planted bugs: each breaks one decision of the controller, in a way that loses records, epochs or leaders."""

from __future__ import annotations

from typing import Any

from controller_schedules import run
from planted.registry import Suite
from pytest import MonkeyPatch  # noqa: PT013

from minikafka.metadata import delta
from minikafka.metadata.controller import brokers as brokers_module
from minikafka.metadata.controller import partitions as partitions_module
from minikafka.metadata.controller.state import Standing
from minikafka.metadata.image import PartitionImage

SUITE = Suite("controller", "the controller's leaders and ISRs, with a model of replication around it", run, 1_000)


@SUITE.plants(listed="stale ISR proposal accepted")
def stale_proposals_accepted(patch: MonkeyPatch) -> None:
    """ISR proposals are not checked against the state of the partition."""

    def unchecked(*_: Any) -> None:
        return None

    patch.setattr(partitions_module, "_check_proposal", unchecked)


@SUITE.plants()
def fenced_members_accepted(patch: MonkeyPatch) -> None:
    """A broker that is fenced, or another incarnation, joins the ISR."""
    patch.setattr(partitions_module, "_ineligible", lambda *_: None)


@SUITE.plants()
def election_outside_the_isr(patch: MonkeyPatch) -> None:
    """Whoever is alive may lead when nobody in sync is."""
    patch.setattr(partitions_module, "_is_unclean_allowed", lambda *_: True)


@SUITE.plants()
def partition_epoch_stands_still(patch: MonkeyPatch) -> None:
    """A change of the partition leaves its partition epoch as it was."""

    def changed(partition: PartitionImage, change: Any) -> PartitionImage:
        after = original(partition, change)
        fields = {name: getattr(after, name) for name in ("replicas", "isr", "leader", "leader_epoch")}
        return PartitionImage(**fields, partition_epoch=partition.partition_epoch)

    original = delta._changed
    patch.setattr(delta, "_changed", changed)


@SUITE.plants()
def leader_epoch_stands_still(patch: MonkeyPatch) -> None:
    """A new leader leads in the epoch of the one before."""

    def changed(partition: PartitionImage, change: Any) -> PartitionImage:
        after = original(partition, change)
        return PartitionImage(
            after.replicas, after.isr, after.leader, partition.leader_epoch, partition_epoch=after.partition_epoch
        )

    original = delta._changed
    patch.setattr(delta, "_changed", changed)


@SUITE.plants()
def fencing_leaves_partitions_alone(patch: MonkeyPatch) -> None:
    """A fenced broker stays leader and in the ISR."""
    patch.setattr(brokers_module, "settle", lambda *_: None)


@SUITE.plants()
def last_member_leaves_the_isr(patch: MonkeyPatch) -> None:
    """The ISR becomes empty when its last member is fenced."""

    def emptied(partition: PartitionImage, standing: Any, unclean: Any) -> tuple[int, tuple[int, ...]]:
        leader, isr = original(partition, standing, unclean)
        return leader, tuple(one for one in isr if standing(one) is not Standing.UNAVAILABLE)

    original = partitions_module.settled
    patch.setattr(partitions_module, "settled", emptied)
