"""A full disk: its broker ends, its leaderships move, and it catches up when there is room again."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.chaos.lab.clients import Stream, Writer, create_topic, read_all
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage
from minikafka.chaos.last_words import last_words
from minikafka.client import Admin
from minikafka.model import TopicPartition

TOPIC: Final = "orders"
PARTITIONS: Final = 6
RATE: Final = 300
SOME: Final = 300


class FullDisk(Lab):
    """The disk of one of three brokers gets full while a producer writes."""

    name = "full-disk"
    summary = "a broker whose disk is full ends; its leaderships move, nothing is lost, and it catches up"
    watch = (
        f"A producer writes to {PARTITIONS} partitions with acks=all. The disk of one of three brokers gets full.",
        "Watch what the broker does, who leads its partitions then, and whether the producer notices. When there is "
        "room again, watch the replicas catch up, and who leads.",
    )
    matters = "replication factor and min.insync.replicas of the topic; log.dirs and log.retention.* of the brokers"
    advice = (
        "Raise an alarm long before a disk is full, and bound what topics may take: log.retention.bytes is for each "
        "partition, and unlimited by default.",
        "A full disk fills others: brokers with the same load fill up at the same time. With replication factor 3 and "
        "min.insync.replicas=2 one may fail, and two stop the writers.",
    )

    def run(self, stage: Stage) -> None:
        cluster = stage.cluster
        victim = next(node for node in cluster.node_ids if node != cluster.controller())
        brokers = cluster.node_ids
        turns = [[*brokers[n % 3 :], *brokers[: n % 3]] for n in range(PARTITIONS)]
        create_topic(stage.cluster, TOPIC, turns, min_insync_replicas="2")
        with Stream(
            Writer(stage.servers, TOPIC, acks="all", enable_idempotence=True), RATE, partitions=PARTITIONS
        ) as stream:
            fates = stream.writer.fates
            stage.wait(f"{SOME} acknowledged records", lambda: len(fates) >= SOME)
            led = self._led(stage, victim)
            stage.say(f"{len(fates)} records are acknowledged; node {victim} leads {led} of {PARTITIONS} partitions")

            cluster.disk(victim, full=True)
            stage.say(f"the disk of node {victim} is full")
            stage.wait(f"node {victim} to end", lambda: cluster.process(victim) is None)
            words = last_words(cluster.layout, victim) or "(nothing)"
            stage.say(f"node {victim} has ended; the last words in its log: {words}")
            moved_s = cluster.wait_for(
                lambda view: not view.leaderless and all(each.leader_id != victim for each in view.partitions),
                "other leaders",
            )
            before = len(fates)
            stage.wait("more acknowledgements", lambda: len(fates) >= before + SOME)
            stage.say(
                f"{moved_s:.1f} s after its end others lead all partitions; {len(fates) - before} more "
                f"records are acknowledged by nodes {', '.join(str(node) for node in brokers if node != victim)}"
            )

            began_s = stage.seconds()
            cluster.start()
            cluster.wait_in_sync()
            in_sync_s = stage.seconds() - began_s
            stage.say(
                f"there is room again, and node {victim} is started: in sync after {in_sync_s:.1f} s; it leads "
                f"{self._led(stage, victim)} partitions"
            )
            self._elect_preferred(stage)
            stage.wait("the preferred leaders", lambda: self._led(stage, victim) == led)
            stage.say(f"after an election of preferred leaders it leads {led} again")
            stream.finish()
        errors = sum(fate.error is not None for fate in fates)
        acknowledged = stream.writer.acknowledged
        lost = len(acknowledged.keys() - {*read_all(stage.servers, TOPIC, PARTITIONS)})
        stage.say(f"{len(acknowledged)} acknowledged, {errors} errors; {lost} of the acknowledged are not there")
        stage.measure(acknowledged=len(acknowledged), errors=errors, lost=lost, moved_s=moved_s, in_sync_s=in_sync_s)
        stage.expect("the broker ends, and says why", "No space left" in words)
        stage.expect("no record fails, and none is lost", errors == 0 and lost == 0)
        stage.happened(
            "A broker that cannot write its logs cannot keep its promises, so it ends. (With several log.dirs it goes "
            f"on with the others.) The {led} partitions that it led went to in-sync replicas, and the producer's "
            f"retries bridged the gap: {errors} errors, {lost} lost.",
            "A broker that comes back follows until it has caught up. It leads again by an election of preferred "
            "leaders, which auto.leader.rebalance.enable makes from time to time.",
        )

    def _led(self, stage: Stage, node: int) -> int:
        """How many partitions it leads."""
        view = stage.wait("a view of the cluster", stage.cluster.view)
        return sum(each.topic == TOPIC and each.leader_id == node for each in view.partitions)

    def _elect_preferred(self, stage: Stage) -> None:
        async def elect() -> None:
            async with Admin(stage.servers) as admin:
                await admin.elect_leaders("preferred", [TopicPartition(TOPIC, n) for n in range(PARTITIONS)])

        asyncio.run(elect())
