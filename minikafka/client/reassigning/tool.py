"""--execute, --verify, --cancel and --list, as in Kafka's tool (rows A4, A6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from minikafka.client.admin import Admin, ConfigEntry, LogDirectory, Reassignment
from minikafka.client.cluster import Cluster
from minikafka.client.reassigning.checks import (
    check_brokers,
    check_directories,
    check_nothing_under_way,
    check_plan,
    current_assignment,
    in_plan,
)
from minikafka.client.reassigning.plan import Plan, PlanError, placed
from minikafka.client.reassigning.progress import (
    DirectoryMove,
    Progress,
    ReplicaMove,
    directory_moves,
    measure,
)
from minikafka.client.reassigning.proposal import check_racks, propose, propose_without
from minikafka.client.reassigning.throttles import BROKER_SETTINGS, TOPIC_SETTINGS, Throttle, throttle_for
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition

POLL_INTERVAL_S: Final = 0.25
SIZES_TIMEOUT_S: Final = 1.0
DIRECTORY_TIMEOUT_S: Final = 10.0
DIRECTORY_RETRY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Begun:
    """A plan that was begun: what would undo it, and the replicas that move."""

    plan: Plan
    rollback: Plan
    moves: tuple[ReplicaMove, ...]
    throttle: Throttle = field(default_factory=lambda: Throttle({}, {}))


class Reassigner:
    """Plans on the cluster of an ``Admin``."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    # -- proposals ----------------------------------------------------------------------------------------------------

    async def generate(
        self, topics: Iterable[str], brokers: Iterable[int], *, rack_aware: bool = True
    ) -> tuple[Plan, Plan]:
        """(where the topics are, a balanced proposal on these brokers). PlanError when it cannot be."""
        cluster = await self._admin.describe_cluster()
        chosen = list(brokers)
        check_brokers(chosen, cluster)
        racks = {broker: cluster.racks.get(broker) if rack_aware else None for broker in chosen}
        check_racks(racks)
        current = current_assignment(cluster, topics)
        return placed(current), placed(propose(current, racks))

    async def drain(self, broker: int) -> Plan:
        """A plan that moves every replica off a broker, to the live ones that have fewest. PlanError."""
        cluster = await self._admin.describe_cluster()
        others = {other: cluster.racks.get(other) for other in cluster.brokers if other != broker}
        racks = others if all(rack is not None for rack in others.values()) else dict.fromkeys(others)
        current = current_assignment(cluster, cluster.topics)
        affected = [tp for tp, replicas in current.items() if broker in replicas]
        for tp in affected:
            if len(current[tp]) > len(racks):
                raise PlanError(
                    f"{tp} has {len(current[tp])} replicas, and without broker {broker} there are "
                    f"{len(racks)} live brokers; add one, or reassign the topic to fewer replicas"
                )
        # Those that cannot move (another of their brokers is down, say) stay out of it.
        relevant = {tp: replicas for tp, replicas in current.items() if len(replicas) <= len(racks)}
        proposed = propose_without(relevant, racks)
        return placed({tp: proposed[tp] for tp in affected})

    async def live_brokers(self) -> list[int]:
        """The ids of all live brokers."""
        return sorted((await self._admin.describe_cluster()).brokers)

    # -- carrying out -------------------------------------------------------------------------------------------------

    async def execute(
        self,
        plan: Plan,
        *,
        throttle: int | None = None,
        log_dir_throttle: int | None = None,
        additional: bool = False,
        allow_replication_factor_change: bool = True,
        on_checked: Callable[[Plan], None] = lambda _rollback: None,
    ) -> Begun:
        """Begin. PlanError before anything changes; then ``on_checked`` is told what would undo it. Throttles in bytes
        a second. KafkaError names the first partition that the cluster refused; the others go on."""
        ongoing, cluster = await self._admin.describe_reassignments()
        check_plan(plan, cluster, allow_replication_factor_change=allow_replication_factor_change)
        if not additional:
            check_nothing_under_way(ongoing)
        named = list(directory_moves(plan))
        check_directories(plan, await self._directories({move.broker for move in named}))
        current = current_assignment(cluster, sorted({tp.topic for tp in plan} | {each.topic for each in ongoing}))
        rollback = in_plan(plan, current, ongoing)
        on_checked(rollback)
        settings = throttle_for(plan, current, ongoing, rate=throttle, log_dir_rate=log_dir_throttle)
        await self._set(settings)
        # Replicas that are not there yet are to be made in the right directory.
        await self._place(named)
        outcomes = await self._admin.alter_partition_reassignments(
            {tp: placement.replicas for tp, placement in plan.items()},
            allow_replication_factor_change=allow_replication_factor_change,
        )
        refused = {tp: error for tp, error in outcomes.items() if error is not None}
        if len(refused) == len(plan):
            await self._clear_throttles(plan, cluster)
        for tp, error in sorted(refused.items()):
            raise KafkaError(error.code, f"cannot reassign {tp}: {error.message}{_more(len(refused) - 1)}")
        await self._place_until_done(named)
        moves = tuple(
            ReplicaMove(tp, broker)
            for tp, placement in plan.items()
            for broker in placement.replicas
            if broker not in current[tp] or broker in (ongoing[tp].adding if tp in ongoing else ())
        )
        return Begun(plan, rollback, moves, settings)

    async def progress(self, plan: Plan, moves: Iterable[ReplicaMove] | None = None) -> Progress:
        """How far it is. Without ``moves``, those that the cluster lists as under way are counted."""
        ongoing, cluster = await self._admin.describe_reassignments()
        if moves is None:
            moves = [ReplicaMove(tp, broker) for tp in plan if tp in ongoing for broker in ongoing[tp].adding]
        moves = list(moves)
        named = {move.broker for move in directory_moves(plan)} & set(cluster.brokers)
        counted = {move.broker for move in moves} | {cluster.leader_of(move.tp) for move in moves}
        sizes = await self._sizes((counted & set(cluster.brokers)) - named)
        directories = await self._directories(named) | sizes
        return measure(plan, moves, cluster, ongoing, directories)

    async def wait(
        self, plan: Plan, moves: Iterable[ReplicaMove] | None, on_progress: Callable[[Progress], None]
    ) -> Progress:
        """Wait until nothing of the plan is under way; ``on_progress`` is told meanwhile, at least once."""
        listed = None if moves is None else list(moves)
        while True:
            progress = await self.progress(plan, listed)
            on_progress(progress)
            if not progress.is_under_way:
                return progress
            await asyncio.sleep(POLL_INTERVAL_S)

    async def ongoing(self) -> dict[TopicPartition, Reassignment]:
        """Everything that is being reassigned, in order."""
        return dict(sorted((await self._admin.list_partition_reassignments()).items()))

    async def cancel(self, plan: Plan) -> dict[TopicPartition, Reassignment]:
        """End what is under way of the plan's partitions: they go back to where they were. What was cancelled; its
        throttles stay."""
        ongoing = await self._admin.list_partition_reassignments(plan)
        await self._cancel_directory_moves(plan)
        if ongoing:
            outcomes = await self._admin.alter_partition_reassignments(dict.fromkeys(ongoing))
            for tp, error in sorted(outcomes.items()):
                if error is not None and error.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    raise KafkaError(error.code, f"cannot cancel the reassignment of {tp}: {error.message}")
        return ongoing

    # -- throttles ----------------------------------------------------------------------------------------------------

    async def clear_throttles(self, plan: Plan) -> Throttle:
        """Remove what throttles the plan's topics, and when nothing is being reassigned the rates of all live brokers.
        What was removed."""
        return await self._clear_throttles(plan, await self._admin.describe_cluster())

    async def _clear_throttles(self, plan: Plan, cluster: Cluster) -> Throttle:
        ongoing = await self._admin.list_partition_reassignments()
        removed = Throttle({}, {})
        for topic in sorted({tp.topic for tp in plan} - {tp.topic for tp in ongoing}):
            if topic in cluster.topics and not cluster.topics[topic].error:
                found = _set_ones(TOPIC_SETTINGS, await self._admin.describe_configs(topic))
                if found:
                    await self._admin.alter_configs(topic, dict.fromkeys(found))
                    removed.topics[topic] = found
        for broker in () if ongoing else sorted(cluster.brokers):
            found = _set_ones(BROKER_SETTINGS, await self._admin.describe_broker_configs(broker))
            if found:
                await self._admin.alter_broker_configs(broker, dict.fromkeys(found))
                removed.brokers[broker] = found
        return removed

    async def _set(self, settings: Throttle) -> None:
        for topic, values in settings.topics.items():
            await self._admin.alter_configs(topic, values)
        for broker, values in settings.brokers.items():
            await self._admin.alter_broker_configs(broker, values)

    # -- log directories ----------------------------------------------------------------------------------------------

    async def _directories(self, brokers: Iterable[int]) -> dict[int, list[LogDirectory]]:
        wanted = sorted(brokers)
        return await self._admin.describe_log_dirs(wanted) if wanted else {}

    async def _sizes(self, brokers: Iterable[int]) -> dict[int, list[LogDirectory]]:
        """For counting bytes only: without those that do not tell, replicas are counted all the same."""
        found: dict[int, list[LogDirectory]] = {}
        for broker in sorted(brokers):
            try:
                async with asyncio.timeout(SIZES_TIMEOUT_S):
                    found |= await self._directories([broker])
            except (KafkaError, TimeoutError):
                continue
        return found

    async def _place(self, moves: Iterable[DirectoryMove]) -> list[DirectoryMove]:
        """Ask for these; those whose broker does not have the replica yet. KafkaError for any other refusal."""
        by_broker: dict[int, dict[TopicPartition, str]] = {}
        for move in moves:
            by_broker.setdefault(move.broker, {})[move.tp] = move.path
        missing = []
        for broker, paths in by_broker.items():
            for tp, error in (await self._admin.alter_replica_log_dirs(broker, paths)).items():
                if error is None:
                    continue
                if error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                    raise error
                missing.append(DirectoryMove(tp, broker, paths[tp]))
        return missing

    async def _place_until_done(self, moves: list[DirectoryMove]) -> None:
        """A broker may take a moment to have what was just given to it."""
        deadline_s = asyncio.get_running_loop().time() + DIRECTORY_TIMEOUT_S
        while moves := await self._place(moves):
            if asyncio.get_running_loop().time() > deadline_s:
                tp, broker, path = moves[0]
                message = f"broker {broker} has no replica of {tp} to move to {path}{_more(len(moves) - 1)}"
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, message)
            await asyncio.sleep(DIRECTORY_RETRY_S)

    async def _cancel_directory_moves(self, plan: Plan) -> None:
        """A replica that is told to be where it is drops its future copy."""
        moves = list(directory_moves(plan))
        directories = await self._directories({move.broker for move in moves})
        for tp, broker, path in moves:
            holding = {
                replica.is_future: directory.path
                for directory in directories[broker]
                if (replica := directory.replicas.get(tp)) is not None
            }
            if holding.get(True) == path and False in holding:
                await self._admin.alter_replica_log_dirs(broker, {tp: holding[False]})


def _set_ones(names: Iterable[str], entries: Iterable[ConfigEntry]) -> dict[str, str]:
    return {each.name: each.value for each in entries if each.name in names and not each.is_default and each.value}


def _more(count: int) -> str:
    return f" (and {count} more)" if count else ""
