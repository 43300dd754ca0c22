"""acks=1: the leader alone acknowledges, so its death takes acknowledged records along."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.chaos.lab.clients import Stream, Writer, create_topic, read_places
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage

LATE_MS: Final = 300
RATE: Final = 500
BEFORE: Final = 400
AFTER: Final = 100


class _Failover(NamedTuple):
    lost: int
    latency_ms: float
    """Median, before the leader died."""


class AcksOne(Lab):
    """The same failover under acks=1 and under acks=all."""

    name = "acks-one"
    summary = "acks=1 loses acknowledged records when the leader dies; acks=all loses none"
    watch = (
        f"Replication is {LATE_MS} ms late, as between distant data centres. A producer writes, and the leader is "
        "killed.",
        "Watch the acknowledged records that are gone afterwards. No client gets an error for them.",
        "Then the same again with acks=all. Watch the losses, and what an acknowledgement costs.",
    )
    matters = "acks=1 or acks=all of the producer; replication factor 3 and min.insync.replicas=2 of the topic"
    advice = (
        "Producers: acks=all (the default of librdkafka, and of Java's client since 3.0) and enable.idempotence=true. "
        "Topics: replication factor 3 and min.insync.replicas=2.",
        "acks=1 is for records that may be lost, such as samples of a metric.",
    )

    def run(self, stage: Stage) -> None:
        one = self._fail_over(stage, "1")
        stage.cluster.start()
        stage.cluster.mend(what="links")
        stage.cluster.wait_in_sync()
        stage.say("the killed leader is back, and in sync; now the same with acks=all")
        every = self._fail_over(stage, "all")
        stage.expect("acks=1 loses acknowledged records", one.lost > 0)
        stage.expect("acks=all loses no acknowledged record", every.lost == 0)
        stage.happened(
            f"With acks=1 the leader acknowledged after {one.latency_ms:.1f} ms, before any follower had the record. "
            f"What they had not fetched when it died was lost: {one.lost} records. The next leader gives their offsets "
            "to others.",
            f"With acks=all the producer waited {every.latency_ms:.0f} ms, until all in-sync replicas had it. The next "
            f"leader is one of them, so it has every acknowledged record: {every.lost} lost.",
        )

    def _fail_over(self, stage: Stage, acks: str) -> _Failover:
        cluster, topic = stage.cluster, f"acks-{acks}"
        leader = cluster.controller()
        one, other = (node for node in cluster.node_ids if node != leader)
        create_topic(stage.cluster, topic, [[leader, one, other]], min_insync_replicas="2")
        for follower in (one, other):
            cluster.slow(leader, follower, delay_ms=LATE_MS)
        stage.say(f"topic {topic}: node {leader} leads; nodes {one} and {other} get its records {LATE_MS} ms late")
        with Stream(Writer(stage.servers, topic, acks=acks), RATE) as stream:
            fates = stream.writer.fates
            stage.wait(f"{BEFORE} acknowledged records", lambda: len(fates) >= BEFORE)
            latency_ms = stream.median_latency_ms(since=BEFORE // 2)
            cluster.kill(leader)
            before = len(fates)
            stage.say(f"node {leader} is killed after {before} acknowledgements (median {latency_ms:.1f} ms)")
            stage.wait("acknowledgements by another leader", lambda: len(fates) >= before + AFTER)
            stage.say(f"node {cluster.leader_of(topic)} leads, and acknowledges; the producer went on by itself")
            stream.finish()
        acknowledged, errors = stream.writer.acknowledged, sum(fate.error is not None for fate in fates)
        found = read_places(stage.servers, topic)
        lost = sorted(acknowledged.keys() - set(found.values()))
        stage.say(f"{len(acknowledged)} acknowledged, {errors} errors; {len(lost)} of the acknowledged are not there")
        if lost and (instead := found.get((0, acknowledged[lost[0]]))):
            stage.say(
                f"for example: offset {acknowledged[lost[0]]} was acknowledged for {lost[0]}; now {instead} is there"
            )
        told = {"acknowledged": len(acknowledged), "errors": errors, "lost": len(lost), "latency_ms": latency_ms}
        stage.measure(**{f"acks_{acks}_{name}": value for name, value in told.items()})
        return _Failover(len(lost), latency_ms)
