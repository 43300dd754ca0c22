"""Zombies: a leader that does not know that it was replaced, and a transactional producer that does not either."""

from __future__ import annotations

from typing import Final

from minikafka.chaos.lab.clients import Writer, create_topic, failure, read_all
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage
from minikafka.chaos.layout import HOST

TOPIC: Final = "orders"
PAYMENTS: Final = "payments"
COUNT: Final = 20
REQUEST_MS: Final = 1_500


class ZombieLeader(Lab):
    """A leader that is cut off from the other brokers, but not from clients; then a producer that has a successor."""

    name = "zombie-leader"
    summary = "a leader that does not know that it was replaced: acks=all is safe from it, acks=1 is not"
    watch = (
        "The leader is cut off from the other brokers, but its clients still reach it. The others elect another one.",
        "Watch two leaders at once, what each of them acknowledges, and whose records are there at the end.",
        "Then two producers with one transactional id. Watch what the older one is told.",
    )
    matters = "acks of the producer; broker.session.timeout.ms of the controllers; transactional.id of the application"
    advice = (
        "acks=all with min.insync.replicas=2: a zombie cannot acknowledge alone. With acks=1 it can, for as long as "
        "clients reach it.",
        "One fixed transactional.id for each instance of an application: the instance that starts later fences the one "
        "that hangs. On a fatal error (fenced), close the producer, and do not retry.",
    )

    def run(self, stage: Stage) -> None:
        self._leaders(stage)
        self._producers(stage)

    def _leaders(self, stage: Stage) -> None:
        cluster = stage.cluster
        controller = cluster.controller()
        zombie, other = (node for node in cluster.node_ids if node != controller)
        create_topic(stage.cluster, TOPIC, [[zombie, other, controller]], min_insync_replicas="2")
        to_zombie = f"{HOST}:{cluster.layout.client_port(zombie)}"
        to_others = f"{HOST}:{cluster.layout.client_port(other)},{HOST}:{cluster.layout.client_port(controller)}"
        with (
            Writer(to_zombie, TOPIC, acks="1") as one,
            Writer(to_zombie, TOPIC, acks="all", retries=0, request_timeout_ms=REQUEST_MS) as every,
        ):
            one.write(f"early-1-{n}" for n in range(COUNT))
            every.write(f"early-all-{n}" for n in range(COUNT))
            stage.say(f"node {zombie} leads {TOPIC}; {2 * COUNT} records are in it")
            for node in (other, controller):
                cluster.cut(zombie, node)
            seconds = cluster.wait_for(
                lambda view: all(each.leader_id != zombie for each in view.partitions), "another leader"
            )
            leader = cluster.leader_of(TOPIC)
            stage.say(
                f"node {zombie} is cut off from nodes {other} and {controller}: after {seconds:.1f} s node {leader} "
                "leads"
            )
            view = stage.wait("an answer of the zombie", lambda: cluster.probe(zombie))
            thinks = next(each.leader_id for each in view.partitions if each.topic == TOPIC)
            stage.say(f"who leads? node {zombie} says: node {thinks}; node {leader} says: node {leader}")
            by_one = [fate.value for fate in one.write(f"zombie-1-{n}" for n in range(COUNT)) if fate.error is None]
            by_all = every.write(f"zombie-all-{n}" for n in range(COUNT))
            errors = {fate.error for fate in by_all}
        told = ", ".join(sorted(error or "acknowledged" for error in errors))
        stage.say(f"to the zombie, acks=1: {len(by_one)} of {COUNT} acknowledged; acks=all: {told}")
        with Writer(to_others, TOPIC, acks="all") as writer:
            writer.write(f"new-{n}" for n in range(COUNT))
            by_new = list(writer.acknowledged)
        stage.say(f"to the new leader, acks=all: {len(by_new)} of {COUNT} acknowledged")

        cluster.mend(what="links")
        seconds = cluster.wait_in_sync()
        stage.say(f"the links are whole: node {zombie} follows, and is in sync after {seconds:.1f} s")
        found = set(read_all(stage.servers, TOPIC))
        lost = len({*by_one} - found)
        appeared = sum(value.startswith("zombie-all") for value in found)
        stage.say(f"of the zombie's {len(by_one)} acknowledgements for acks=1, {lost} records are lost")
        stage.measure(zombie_acknowledged=len(by_one), zombie_lost=lost)
        stage.expect("the zombie believes that it leads", thinks == zombie)
        stage.expect("the zombie acknowledges acks=1, and the records are lost", bool(by_one) and lost == len(by_one))
        stage.expect("the zombie acknowledges nothing under acks=all", None not in errors and not appeared)
        stage.expect("what the new leader acknowledged is there", len(by_new) == COUNT and {*by_new} <= found)
        stage.happened(
            f"A leader that hears nobody cannot know that it was replaced. It acknowledged {len(by_one)} records under "
            "acks=1. Under acks=all it waits for its in-sync replicas, which do not answer, and cannot drop them: the "
            "ISR is the controller's.",
            "Each leader has an epoch. When it was back, the zombie heard of a higher one, cut its log where the new "
            f"leader's epoch began, and followed: {lost} records are lost.",
        )

    def _producers(self, stage: Stage) -> None:
        create_topic(stage.cluster, PAYMENTS, [stage.cluster.node_ids], min_insync_replicas="2")
        known = {"transactional_id": "payer", "acks": "all"}
        with Writer(stage.servers, PAYMENTS, **known) as old, Writer(stage.servers, PAYMENTS, **known) as new:
            old.client.init_transactions(30)
            old.client.begin_transaction()
            old.write(["paid by the older"])
            stage.say(
                "a transactional producer has written in an open transaction, and hangs; another takes its id over"
            )
            new.client.init_transactions(30)
            error = failure(lambda: old.client.commit_transaction(30))
            stage.say(f"the older one wakes, and commits: {error or 'done'}")
            new.client.begin_transaction()
            new.write(["paid by the newer"])
            new.client.commit_transaction(30)
        committed = read_all(stage.servers, PAYMENTS, committed=True)
        stage.say(f"committed are: {', '.join(committed)}")
        stage.measure(zombie_commit=error or "done")
        stage.expect("the older producer is fenced", error == "_FENCED")
        stage.expect("only the newer producer's record is committed", committed == ["paid by the newer"])
        stage.happened(
            "init_transactions of the newer producer aborted what was open, and raised the producer epoch. Whoever "
            f"comes with the older epoch is fenced ({error}).",
        )
