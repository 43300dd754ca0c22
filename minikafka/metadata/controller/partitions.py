"""Leaders and ISRs of partitions (rows C4, R20).

Theory. Two parties change a partition. Its leader proposes the ISR it observes (:func:`alter_partition`); the
controller acts when the standing of a broker changes (:func:`settle`). Each change is a new partition epoch, and a
proposal made from an older one is refused, so neither overwrites what it has not seen. Naming a leader is a new leader
epoch, which fences everything the leader before may still send.

Invariants, whatever happens:

* the ISR is a subset of the replicas and never empty;
* the leader is a member of the ISR that was not fenced when it was named, or -1;
* leader epoch and partition epoch never go back;
* outside the ISR a leader is named only by unclean election, allowed or asked for.

:func:`settled` is the whole rule. Members of the ISR have every committed record, and keep it when only their process
dies. So while no member is available the ISR stays as it is, fenced members and all: whichever returns first leads.
Once one is available the unavailable ones leave, so that writes need not wait for them. After a crash of all nodes
this needs no particular order of return, and the partition is served again as soon as one ISR member is back.

(A machine that loses power may lose what its processes wrote. Telling such a return from this one, and eligible
leader replicas, KIP-966, come with the fields ``elr`` and ``last_known_elr``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import (
    AlterPartition,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrChange,
    IsrMember,
)
from minikafka.metadata.controller.state import ControllerState, Standing
from minikafka.metadata.image import PartitionImage, TopicImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import NO_EPOCH, NO_NODE

# -- the controller's own changes -------------------------------------------------------------------------------------


def settle(state: ControllerState, brokers: Iterable[int]) -> None:
    """The standing of ``brokers`` changed: give every partition they have a replica of its leader and ISR."""
    changed = frozenset(brokers)
    affected = (found for found in state.image.partitions() if not changed.isdisjoint(found[2].replicas))
    _settle_all(state, affected)


def settle_topics(state: ControllerState, topics: Iterable[TopicImage]) -> None:
    """What unclean election may do changed for these topics."""
    _settle_all(state, ((topic, index, one) for topic in topics for index, one in topic.partitions.items()))


def _settle_all(state: ControllerState, found: Iterable[tuple[TopicImage, int, PartitionImage]]) -> None:
    changes = []
    for topic, index, partition in found:
        leader, isr = settled(partition, state.standing, partial(_is_unclean_allowed, state, topic))
        change = change_record(topic, index, partition, leader, isr)
        if change is not None:
            changes.append(change)
    state.write(*changes)


def settled(
    partition: PartitionImage, standing: Callable[[int], Standing], unclean_allowed: Callable[[], bool]
) -> tuple[int, tuple[int, ...]]:
    """The leader and ISR a partition should have."""
    in_sync = [replica for replica in partition.replicas if replica in partition.isr]
    available = [replica for replica in in_sync if standing(replica) is Standing.AVAILABLE]
    isr = partition.isr
    if available:
        isr = tuple(replica for replica in isr if standing(replica) is not Standing.UNAVAILABLE)
    if partition.leader in isr and standing(partition.leader) is not Standing.UNAVAILABLE:
        return partition.leader, isr
    if available:
        return available[0], isr
    # A presumed member of the ISR may turn out to be there: nothing is lost by waiting for its session.
    waits = any(standing(replica) is Standing.PRESUMED for replica in in_sync)
    if not waits and unclean_allowed():
        for replica in partition.replicas:
            if standing(replica) is Standing.AVAILABLE:
                return replica, (replica,)
    return NO_NODE, isr


def _is_unclean_allowed(state: ControllerState, topic: TopicImage) -> bool:
    """Whether the topic prefers availability to its acknowledged records."""
    return state.topic_config(topic.name).unclean_leader_election_enable


def change_record(
    topic: TopicImage, index: int, partition: PartitionImage, leader: int, isr: tuple[int, ...]
) -> PartitionChangeRecord | None:
    """The record that gives a partition that leader and ISR; None when it has them."""
    if leader == partition.leader and isr == partition.isr:
        return None
    return PartitionChangeRecord(
        topic.topic_id,
        index,
        isr=isr if isr != partition.isr else None,
        leader=leader if leader != partition.leader else None,
    )


# -- what leaders propose ---------------------------------------------------------------------------------------------


def alter_partition(state: ControllerState, command: AlterPartition) -> AlterPartitionResponse:
    """Validate and record ISR proposals, each on its own."""
    state.registered(command.broker_id, command.broker_epoch)
    return AlterPartitionResponse(tuple(_alter_one(state, command.broker_id, change) for change in command.partitions))


def _alter_one(state: ControllerState, proposer: int, change: IsrChange) -> AlterPartitionResult:
    try:
        topic = state.topic_by_id(change.topic_id)
        partition = topic.partitions.get(change.partition)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {change.partition}"
            )
        _check_proposal(state, proposer, partition, change)
    except KafkaError as error:
        return AlterPartitionResult(change.topic_id, change.partition, error.code, error.message)
    proposed = {member.broker_id for member in change.new_isr}
    isr = tuple(replica for replica in partition.replicas if replica in proposed)
    # Also when nothing changes: the new partition epoch voids proposals that are still on their way. A leader that got
    # no answer to one asks for this before it goes back to counting the committed ISR alone.
    state.write(PartitionChangeRecord(topic.topic_id, change.partition, isr=isr))
    partition = state.topic_by_id(change.topic_id).partitions[change.partition]
    return AlterPartitionResult(
        change.topic_id,
        change.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
    )


def _check_proposal(state: ControllerState, proposer: int, partition: PartitionImage, change: IsrChange) -> None:
    """Row R20: only the current leader, from the current state, may propose, and only members fit to be in sync."""
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the leader knows a later epoch than this controller")
    if change.leader_epoch < partition.leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {partition.leader_epoch} is current, not {change.leader_epoch}",
        )
    if proposer != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {proposer} does not lead the partition")
    if change.partition_epoch < partition.partition_epoch:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"partition epoch {partition.partition_epoch} is current, not {change.partition_epoch}",
        )
    members = [member.broker_id for member in change.new_isr]
    if len(set(members)) != len(members) or not set(members) <= set(partition.replicas) or proposer not in members:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"ISR {members} must have the leader {proposer} and otherwise only replicas of {list(partition.replicas)}",
        )
    for member in change.new_isr:
        problem = _ineligible(state, partition, member)
        if problem is not None:
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} {problem}")


def _ineligible(state: ControllerState, partition: PartitionImage, member: IsrMember) -> str | None:
    broker = state.image.broker(member.broker_id)
    if broker is None or broker.fenced:
        return "is fenced"
    if broker.in_controlled_shutdown:
        return "is stopping"
    if member.broker_epoch == NO_EPOCH and member.broker_id in partition.isr:
        return None
    if member.broker_epoch != broker.broker_epoch:
        return f"is registered in epoch {broker.broker_epoch}, not {member.broker_epoch}"
    return None
