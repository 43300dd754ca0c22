"""Planted bugs: each breaks one decision of the controller, in a way that loses records, epochs or leaders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller_schedules import run
from planted.registry import Suite
from pytest import MonkeyPatch  # noqa: PT013

from minikafka.metadata import delta
from minikafka.metadata.controller import brokers as brokers_module
from minikafka.metadata.controller import configs as configs_module
from minikafka.metadata.controller import partition_change as rule
from minikafka.metadata.controller import partitions as partitions_module
from minikafka.metadata.controller.standing import Standing
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.image import BrokerImage, PartitionImage
from minikafka.model import NO_NODE
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest

SUITE = Suite("controller", "the controller's leaders, ISRs and ELRs, with replication and disks around it", run, 2_000)

# -- proposals --------------------------------------------------------------------------------------------------------


@SUITE.replaces(partitions_module, "_check_proposal", listed="stale ISR proposal accepted")
def stale_proposals_accepted(*_: Any) -> None:
    """ISR proposals are not checked against the state of the partition."""


@SUITE.replaces(partitions_module, "_ineligible")
def anybody_joins_the_isr(*_: Any) -> None:
    """A broker that is fenced, or another incarnation, joins the ISR."""


# -- epochs -----------------------------------------------------------------------------------------------------------


@SUITE.plants()
def partition_epoch_stands_still(patch: MonkeyPatch) -> None:
    """A change of the partition leaves its partition epoch as it was."""

    def changed(partition: PartitionImage, change: Any) -> PartitionImage:
        return replace(original(partition, change), partition_epoch=partition.partition_epoch)

    original = delta._changed
    patch.setattr(delta, "_changed", changed)


@SUITE.plants()
def leader_epoch_stands_still(patch: MonkeyPatch) -> None:
    """A new leader leads in the epoch of the one before."""

    def changed(partition: PartitionImage, change: Any) -> PartitionImage:
        return replace(original(partition, change), leader_epoch=partition.leader_epoch)

    original = delta._changed
    patch.setattr(delta, "_changed", changed)


# -- who leads, who is in sync, who may lead later --------------------------------------------------------------------


@SUITE.plants()
def election_outside_the_isr(patch: MonkeyPatch) -> None:
    """Whoever is alive may lead when nobody in sync is."""
    original = ControllerState.circumstances
    patch.setattr(
        ControllerState,
        "circumstances",
        lambda *given, **named: replace(original(*given, **named), is_unclean_allowed=lambda: True),
    )


@SUITE.replaces(brokers_module, "settle")
def fencing_leaves_partitions_alone(*_: Any, **__: Any) -> None:
    """A fenced broker stays leader and in the ISR."""


@SUITE.plants()
def nobody_is_eligible(patch: MonkeyPatch) -> None:
    """Who leaves the ISR does not become eligible, the last member neither."""
    original = rule.settled
    patch.setattr(partitions_module, "settled", lambda *given: replace(original(*given), elr=()))


@SUITE.plants()
def eligible_for_ever(patch: MonkeyPatch) -> None:
    """Who left the ISR stays eligible while records are committed without it."""
    patch.setattr(rule, "min_isr_of", lambda *_: 99)


@SUITE.replaces(rule, "_present")
def eligibility_goes_for_the_sake_of_the_dead(isr: tuple[int, ...], around: Any) -> tuple[int, ...]:
    """Brokers leave the ISR for those that a new controller merely presumes to be there."""
    return tuple(member for member in isr if around.standing(member) is not Standing.UNAVAILABLE)


@SUITE.replaces(rule, "_first")
def the_presumed_are_given_leadership(replicas: Any, around: Any) -> int:
    """A broker is named leader that the controller has not heard from."""
    return next((one for one in replicas if around.standing(one) is not Standing.UNAVAILABLE), NO_NODE)


@SUITE.replaces(rule, "_last_known")
def nobody_knows_who_led_last(*_: Any) -> tuple[int, ...]:
    """After a power cut of all nobody leads again."""
    return ()


# -- kills, power cuts and disks --------------------------------------------------------------------------------------


@SUITE.plants()
def power_cuts_are_not_noticed(patch: MonkeyPatch) -> None:
    """A broker that lost what it had not synced keeps its places."""
    original = brokers_module._lost
    patch.setattr(brokers_module, "_lost", lambda request, **how: original(request, **how | {"continues": True}))


@SUITE.replaces(brokers_module, "_continues")
def every_kill_is_a_power_cut(*_: Any) -> bool:
    """A broker whose process was killed is not counted on."""
    return False


@SUITE.replaces(brokers_module, "_continues")
def a_registration_that_was_not_written_down_is_held_against_it(
    existing: BrokerImage | None, previous_broker_epoch: int
) -> bool:
    """A broker killed between registering and writing it down is taken for one that lost power."""
    return existing is not None and previous_broker_epoch == existing.broker_epoch


@SUITE.replaces(brokers_module, "_continues")
def older_copies_are_believed(existing: BrokerImage | None, previous_broker_epoch: int) -> bool:
    """Disks that hold what they held in an earlier life of the broker count as they did then."""
    return existing is not None and previous_broker_epoch >= 0


@SUITE.plants()
def damaged_logs_are_believed(patch: MonkeyPatch) -> None:
    """A replica whose log is damaged or missing keeps its places in ISR and ELR."""
    original = brokers_module._lost

    def lost(request: BrokerRegistrationRequest, **how: Any) -> Any:
        request.whole = None
        return original(request, **how)

    patch.setattr(brokers_module, "_lost", lost)


@SUITE.replaces(brokers_module, "fail_directories")
def failed_directories_are_ignored(_state: Any, broker: BrokerImage, _failed: Any) -> BrokerImage:
    """A replica whose directory failed leads on."""
    return broker


# -- settings and reassignment ----------------------------------------------------------------------------------------


@SUITE.replaces(configs_module, "settle_topics")
def a_lowered_minimum_leaves_the_eligible(*_: Any) -> None:
    """Replicas stay eligible when a lower min.insync.replicas lets records be committed without them."""


@SUITE.plants()
def complete_before_the_target_is_in_sync(patch: MonkeyPatch) -> None:
    """A reassignment is completed as soon as one replica of the target is in sync."""

    def hasty(partition: PartitionImage, around: Any) -> PartitionImage | None:
        if not set(partition.isr) & set(partition.target_replicas):
            return None
        done = original(replace(partition, isr=(*partition.replicas,)), around)
        return done and replace(done, isr=tuple(one for one in done.isr if one in partition.isr))

    original = rule.completed
    patch.setattr(partitions_module, "completed", hasty)


@SUITE.plants()
def who_is_eligible_goes_before_the_target_is_in_sync(patch: MonkeyPatch) -> None:
    """A reassignment that adds nobody is complete at once, whatever the replicas that go are needed for."""
    original = rule._may_complete

    def hasty(partition: PartitionImage) -> bool:
        return original(partition) or (not partition.adding_replicas and bool(partition.isr))

    patch.setattr(rule, "_may_complete", hasty)


@SUITE.replaces(PartitionImage, "original_replicas")
def cancelled_to_somewhere_else(partition: PartitionImage) -> tuple[int, ...]:
    """A cancelled reassignment leaves the replicas that it had added."""
    return partition.replicas


@SUITE.plants()
def a_replica_goes_in_the_same_leader_epoch(patch: MonkeyPatch) -> None:
    """A replica that is removed and added again before it hears of either may join with a log that it then deletes."""
    original = rule.change_record

    def change_record(topic_id: Any, index: int, before: PartitionImage, after: PartitionImage, gone: Any = ()) -> Any:
        record = original(topic_id, index, before, after, gone)
        return record and replace(record, leader=record.leader if after.leader != before.leader else None)

    patch.setattr(partitions_module, "change_record", change_record)
