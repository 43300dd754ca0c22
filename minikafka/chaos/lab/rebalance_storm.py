"""A rebalance storm: members come and go, and the others stand still, or do not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import ClassVar, Final

from minikafka.chaos.lab.clients import create_topic
from minikafka.chaos.lab.group_member import GroupMember
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage

TOPIC: Final = "orders"
PARTITIONS: Final = 12
STEADY: Final = 4
GUESTS: Final = 2
BUSY_S: Final = 1.0
HEARTBEAT_MS: Final = 500
CLASSIC: Final = "classic"
NEWER: Final = "consumer"


class RebalanceStorm(Lab):
    """The same comings and goings in a group of the classic protocol, and in one of the newer."""

    name = "rebalance-storm"
    summary = "members come and go: a classic group stands still each time, one of KIP-848 works on"
    watch = (
        f"A group of {STEADY} members has {PARTITIONS} partitions. One member is busy: it works {BUSY_S:g} s on each "
        f"batch. {GUESTS} guests come and leave, one after the other: first with group.protocol={CLASSIC}, then with "
        f"group.protocol={NEWER} (KIP-848).",
        "Watch what is taken from the members that stay, and how long those that are not busy have nothing to do.",
    )
    matters = f"group.protocol and partition.assignment.strategy of consumers; heartbeats every {HEARTBEAT_MS} ms here"
    advice = (
        "group.protocol=consumer, where brokers (Kafka 4.0) and clients have it. In classic groups the "
        "cooperative-sticky assignor instead of range.",
        "Keep members from coming and going: group.instance.id for restarts, and a session.timeout.ms that outlasts a "
        "deployment. Poll often (small max.poll.records): a classic group waits for its busiest member.",
    )
    settings: ClassVar[Mapping[str, str]] = {
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    }

    def run(self, stage: Stage) -> None:
        brokers = stage.cluster.node_ids
        create_topic(stage.cluster, TOPIC, [brokers] * PARTITIONS, min_insync_replicas="2")
        idle_s, revoked = {}, {}
        for protocol in (CLASSIC, NEWER):
            with ExitStack() as stack:
                members = [stack.enter_context(self._member(stage, protocol, BUSY_S))]
                members += [stack.enter_context(self._member(stage, protocol)) for _ in range(STEADY - 1)]
                self._storm(stage, protocol, members)
            idle_s[protocol] = max(member.idle_s for member in members[1:])
            revoked[protocol] = sum(member.revoked for member in members)
            longest_s = max(member.longest_idle_s for member in members[1:])
            pause = f"stood still for {idle_s[protocol]:.1f} s, up to {longest_s:.1f} s at a time"
            stage.say(
                f"{protocol}: {revoked[protocol]} partitions were taken from members that stay; one that is not busy "
                f"{pause if longest_s else 'never stood still'}"
            )
            stage.measure(**{f"{protocol}_idle_s": idle_s[protocol], f"{protocol}_revoked": revoked[protocol]})
        least = 2 * GUESTS * PARTITIONS * STEADY // (STEADY + 1)
        stage.expect("each coming and going takes all partitions from a classic group", revoked[CLASSIC] >= least)
        stage.expect("the newer protocol takes away what moves only", revoked[NEWER] < revoked[CLASSIC] / 2)
        stage.expect(
            "members of the classic group stand still, those of the newer one never",
            idle_s[NEWER] == 0 < idle_s[CLASSIC],
        )
        stage.happened(
            "With an eager assignor of the classic protocol every member gives everything up, and waits until the last "
            f"one has joined again: the busy one, which joins when it polls. {revoked[CLASSIC]} partitions were given "
            f"up in {2 * GUESTS} rebalances, and a member stood still for {idle_s[CLASSIC]:.1f} s.",
            "In the newer protocol the coordinator assigns, and each heartbeat tells a member what changes for it, and "
            f"no more: {revoked[NEWER]} partitions moved, and the others were read meanwhile.",
        )

    def _storm(self, stage: Stage, protocol: str, members: list[GroupMember]) -> None:
        def have_all(*more: GroupMember) -> bool:
            """Somebody has each partition, and everybody has some."""
            held = [member.held for member in (*members, *more)]
            return sum(held) == PARTITIONS and all(held)

        stage.wait("the members to share all partitions", have_all)
        stage.say(f"{protocol}: the {STEADY} members have {self._shares(members)} partitions")
        for member in members:
            member.is_counting = True
        for _ in range(GUESTS):
            with self._member(stage, protocol) as guest:
                stage.wait("a guest to get partitions", lambda guest=guest: have_all(guest))  # type: ignore[misc]
                stage.say(f"{protocol}: a guest came and has {guest.held}; the members have {self._shares(members)}")
            stage.wait("the members to have all partitions again", have_all)
            stage.say(f"{protocol}: it left; the members have {self._shares(members)}")

    def _member(self, stage: Stage, protocol: str, busy_s: float = 0.0) -> GroupMember:
        settings: dict[str, object] = {"group.protocol": protocol, "group.id": f"{protocol}-group"}
        if protocol == CLASSIC:
            settings |= {"heartbeat.interval.ms": HEARTBEAT_MS, "partition.assignment.strategy": "range"}
        return GroupMember(stage.servers, TOPIC, busy_s, settings)

    def _shares(self, members: list[GroupMember]) -> str:
        return ", ".join(str(member.held) for member in members)
