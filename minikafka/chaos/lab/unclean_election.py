"""Unclean election: a replica that is not in sync leads, and what it never had is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from minikafka.chaos.lab.clients import Writer, create_topic, read_all
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage

UNCLEAN: Final = "unclean"
CLEAN: Final = "clean"
COUNT: Final = 100
LAG_MS: Final = 1_000
GIVE_UP_MS: Final = 1_500


class UncleanElection(Lab):
    """Two topics that differ in one setting lose their only in-sync replica."""

    name = "unclean-election"
    summary = "an unclean election loses records that acks=all acknowledged; without it the partition waits"
    watch = (
        "Two topics with two replicas each and min.insync.replicas=1. A follower falls behind, then the leader dies.",
        f"Topic {UNCLEAN} may be led by whoever is left: watch what of acks=all is gone. Topic {CLEAN} may not: watch "
        "how long nobody can use it.",
    )
    matters = "unclean.leader.election.enable and min.insync.replicas of the topic"
    advice = (
        "unclean.leader.election.enable=false (the default) where records matter more than being there at once.",
        "Replication factor 3 with min.insync.replicas=2: acks=all then refuses records that one replica alone would "
        "have. With 1, acks=all may mean the leader only.",
    )
    settings: ClassVar[Mapping[str, str]] = {"replica.lag.time.max.ms": str(LAG_MS)}

    def run(self, stage: Stage) -> None:
        cluster = stage.cluster
        controller = cluster.controller()
        leader, follower = (node for node in cluster.node_ids if node != controller)
        for topic, unclean in ((UNCLEAN, "true"), (CLEAN, "false")):
            config = {"unclean_leader_election_enable": unclean, "min_insync_replicas": "1"}
            create_topic(stage.cluster, topic, [[leader, follower]], **config)
        acknowledged = {UNCLEAN: self._write(stage, UNCLEAN, "early"), CLEAN: self._write(stage, CLEAN, "early")}
        stage.say(f"node {leader} leads both topics, node {follower} follows; {COUNT} records are in each")

        cluster.cut(leader, follower)
        began_s = stage.seconds()
        for topic in (UNCLEAN, CLEAN):
            acknowledged[topic] += self._write(stage, topic, "late")
        cluster.wait_for(
            lambda view: all(each.in_sync_replicas == (leader,) for each in view.partitions),
            "the follower to leave the ISR",
        )
        stage.say(
            f"the link between them is cut; {COUNT} more records in each are acknowledged under acks=all, once node "
            f"{follower} has left both ISRs, after {stage.seconds() - began_s:.1f} s: by all of ISR [{leader}]"
        )

        cluster.kill(leader)
        seconds = cluster.wait_for(
            lambda view: any((each.topic, each.leader_id) == (UNCLEAN, follower) for each in view.partitions),
            "an unclean election",
        )
        stage.say(f"node {leader} is killed; node {follower}, which is behind, leads {UNCLEAN} after {seconds:.1f} s")
        self._look_while_down(stage)
        acknowledged[UNCLEAN] += self._write(stage, UNCLEAN, "new")

        cluster.join(leader, follower)
        cluster.start()
        cluster.wait_in_sync()
        stage.say(f"node {leader} is back, and all is in sync: it leads {CLEAN} again, and follows in {UNCLEAN}")
        lost = {topic: len({*records} - {*read_all(stage.servers, topic)}) for topic, records in acknowledged.items()}
        for topic, count in lost.items():
            stage.say(f"{topic}: {count} of {len(acknowledged[topic])} acknowledged records are lost")
        stage.measure(unclean_lost=lost[UNCLEAN], clean_lost=lost[CLEAN])
        stage.expect(f"topic {UNCLEAN} loses the {COUNT} records that the follower never had", lost[UNCLEAN] == COUNT)
        stage.expect(f"topic {CLEAN} loses nothing", lost[CLEAN] == 0)
        stage.happened(
            f"min.insync.replicas=1 let the leader acknowledge alone. The follower that led {UNCLEAN} next never had "
            f"those {lost[UNCLEAN]} records. The old leader still had them, and cut them off when it came back: a "
            "follower's log is that of its leader.",
            f"Topic {CLEAN} had no leader until the one in-sync replica was back, and lost {lost[CLEAN]}.",
        )

    def _look_while_down(self, stage: Stage) -> None:
        view = stage.cluster.view()
        leaderless = [] if view is None else [each.topic for each in view.leaderless]
        with Writer(stage.servers, CLEAN, message_timeout_ms=GIVE_UP_MS) as writer:
            (fate,) = writer.write(["refused"])
        stage.say(f"topic {CLEAN} has no leader: a record for it fails with {fate.error} after {GIVE_UP_MS / 1000:g} s")
        stage.expect(f"topic {CLEAN} has no leader, and takes no records", leaderless == [CLEAN] and bool(fate.error))

    def _write(self, stage: Stage, topic: str, name: str) -> list[str]:
        with Writer(stage.servers, topic, acks="all") as writer:
            writer.write(f"{name}-{n}" for n in range(COUNT))
            return list(writer.acknowledged)
