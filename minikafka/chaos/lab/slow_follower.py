"""A slow follower: as long as it is in the ISR, every writer waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from minikafka.chaos.lab.clients import Stream, Writer, create_topic
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage

TOPIC: Final = "orders"
RATE: Final = 200
SIZE: Final = 1_000
SOME: Final = 200
LAG_MS: Final = 2_000
LATE_MS: Final = 300
NARROW: Final = 20_000


class SlowFollower(Lab):
    """A link to a follower that is late, and then one that is too narrow."""

    name = "slow-follower"
    summary = "a slow follower slows all writers down, until it leaves the ISR; it comes back by itself"
    watch = (
        f"A producer writes {RATE * SIZE // 1000} KB a second with acks=all. The link to one of the two followers gets "
        f"slow: first {LATE_MS} ms late, then too narrow ({NARROW // 1000} KB a second).",
        "Watch what an acknowledgement takes, and the ISR. A follower that is late but keeps up stays; one that cannot "
        "keep up leaves.",
    )
    matters = f"replica.lag.time.max.ms={LAG_MS} here (Kafka: 30000); min.insync.replicas=2 of 3"
    advice = (
        "Raise an alarm when UnderReplicatedPartitions is not 0, and when producers' latency rises: a follower that is "
        "late and keeps up is in no ISR alarm.",
        "replica.lag.time.max.ms (30 s in Kafka) is how long writers may wait for a follower that cannot keep up. Less "
        "lets it leave sooner, but also after a short hiccup. min.insync.replicas=2 of 3 lets writers go on without "
        "it.",
    )
    settings: ClassVar[Mapping[str, str]] = {"replica.lag.time.max.ms": str(LAG_MS)}

    def run(self, stage: Stage) -> None:
        cluster = stage.cluster
        controller = cluster.controller()
        leader, slow = (node for node in cluster.node_ids if node != controller)
        create_topic(stage.cluster, TOPIC, [[leader, slow, controller]], min_insync_replicas="2")
        with Stream(Writer(stage.servers, TOPIC, acks="all"), RATE, size=SIZE) as stream:
            well_ms = self._median_of_some(stage, stream)
            stage.say(f"node {leader} leads, ISR {self._isr(stage)}: median latency {well_ms:.1f} ms")

            cluster.slow(leader, slow, delay_ms=LATE_MS)
            stream.settle()
            late_ms = self._median_of_some(stage, stream)
            late_isr = self._isr(stage)
            stage.say(f"the link to node {slow} is {LATE_MS} ms late, ISR {late_isr}: median latency {late_ms:.0f} ms")

            cluster.slow(leader, slow, bytes_per_s=NARROW)
            before = len(stream.writer.fates)
            left_s = cluster.wait_for(lambda view: view.partitions[0].under_replicated, "the follower to leave the ISR")
            stream.settle()
            worst_ms = 1000 * max(fate.latency_s for fate in stream.writer.fates[before:])
            stage.say(
                f"the link passes {NARROW // 1000} KB a second: node {slow} left the ISR after {left_s:.1f} s; until "
                f"then records waited for up to {worst_ms:.0f} ms"
            )
            without_ms = self._median_of_some(stage, stream)
            without_isr = self._isr(stage)
            stage.say(f"ISR {without_isr}: median latency {without_ms:.1f} ms")

            cluster.join(leader, slow)
            back_s = cluster.wait_in_sync()
            stage.say(f"the link is as it was: node {slow} caught up, and is in the ISR after {back_s:.1f} s")
            stream.finish()
        errors = sum(fate.error is not None for fate in stream.writer.fates)
        stage.measure(
            well_ms=well_ms, late_ms=late_ms, worst_ms=worst_ms, without_ms=without_ms, left_s=left_s, back_s=back_s
        )
        stage.expect(
            "a follower that is late and keeps up stays in the ISR, and all writers wait for it",
            slow in late_isr and late_ms >= LATE_MS,
        )
        stage.expect("one that cannot keep up leaves the ISR", slow not in without_isr)
        stage.expect("without it writers wait less", without_ms < min(late_ms, worst_ms))
        stage.expect("it comes back by itself, and no record failed", not errors)
        stage.happened(
            f"acks=all waits for every member of the ISR, so the slowest one sets the pace: {well_ms:.1f} ms became "
            f"{late_ms:.0f} ms. A follower leaves only if it has not reached the end of the leader's log for "
            f"replica.lag.time.max.ms: one that is late all the time, but gets there, stays.",
            f"The narrow link cost writers up to {worst_ms:.0f} ms until the follower left. Then the two others were "
            "enough.",
        )

    def _median_of_some(self, stage: Stage, stream: Stream) -> float:
        """Median latency in ms of the next records."""
        before = len(stream.writer.fates)
        stage.wait(f"{SOME} acknowledged records", lambda: len(stream.writer.fates) >= before + SOME)
        return stream.median_latency_ms(before)

    def _isr(self, stage: Stage) -> list[int]:
        view = stage.wait("a view of the cluster", stage.cluster.view)
        return sorted(view.partitions[0].in_sync_replicas)
