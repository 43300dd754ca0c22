"""min.insync.replicas: with too few in-sync replicas acks=all is refused, and reads go on."""

from __future__ import annotations

from typing import Final

from minikafka.chaos.lab.clients import Writer, create_topic, read_all
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage

THREE: Final = "three-replicas"
TWO: Final = "two-replicas"
COUNT: Final = 10
REFUSED: Final = "NOT_ENOUGH_REPLICAS"


class MinIsr(Lab):
    """Two topics with min.insync.replicas=2, of three replicas and of two, when one broker dies."""

    name = "min-isr"
    summary = "with fewer in-sync replicas than min.insync.replicas, acks=all is refused and reads go on"
    watch = (
        f"Two topics with min.insync.replicas=2: {THREE}, and {TWO}. One broker is killed.",
        f"Watch {THREE}, which can spare one. In {TWO} watch what acks=all is told, what acks=1 is told, what a reader "
        "gets, and what becomes of a producer that retries.",
    )
    matters = (
        "min.insync.replicas and the replication factor of the topic; acks and delivery.timeout.ms of the producer"
    )
    advice = (
        "Replication factor 3 with min.insync.replicas=2: one broker may be down, also for an upgrade. With 2 of 2, "
        "each restart stops writers; with 1 of 3, acks=all may mean one copy.",
        "Let producers retry: a long delivery.timeout.ms (librdkafka: message.timeout.ms) outlasts a broker's restart.",
    )

    def run(self, stage: Stage) -> None:
        cluster = stage.cluster
        controller = cluster.controller()
        leader, victim = (node for node in cluster.node_ids if node != controller)
        create_topic(stage.cluster, THREE, [[leader, victim, controller]], min_insync_replicas="2")
        create_topic(stage.cluster, TWO, [[leader, victim]], min_insync_replicas="2")
        for topic in (THREE, TWO):
            self._write(stage, topic, "before", acks="all")
        stage.say(f"node {leader} leads both topics; {COUNT} records are in each")

        cluster.kill(victim)
        cluster.wait_for(
            lambda view: all(victim not in each.in_sync_replicas for each in view.partitions), "the ISRs to shrink"
        )
        stage.say(f"node {victim} is killed: the ISR of {THREE} has 2 nodes, that of {TWO} has 1")
        spare = self._write(stage, THREE, "three", acks="all")
        stage.say(f"{THREE}, acks=all: {self._told(spare)}")
        refused = self._write(stage, TWO, "refused", acks="all", retries=0)
        stage.say(f"{TWO}, acks=all without retries: {self._told(refused)}")
        leader_only = self._write(stage, TWO, "one", acks="1", retries=0)
        stage.say(f"{TWO}, acks=1: {self._told(leader_only)}; min.insync.replicas does not count for it")
        found = read_all(stage.servers, TWO)
        stage.say(
            f"{TWO}, a reader: all {self._count(found, 'before')} records from before, "
            f"{self._count(found, 'refused')} that were refused, and "
            f"{self._count(found, 'one')} with acks=1, which one replica alone has"
        )

        with Writer(stage.servers, TWO, acks="all") as patient:
            patient.send("patient")
            patient.client.flush(1)
            waited = not patient.fates
            stage.say(
                f"{TWO}, acks=all with retries: {'no answer yet' if waited else 'answered'}; node {victim} is started"
            )
            cluster.start()
            (fate,) = patient.write(()) or patient.fates
        handed_out = self._count(read_all(stage.servers, TWO), "one")
        told = "acknowledged" if fate.error is None else f"failed: {fate.error}"
        stage.say(
            f"the record was {told}, {fate.latency_s:.1f} s after it was sent; {handed_out} with acks=1 are handed out"
        )

        stage.measure(waited_s=fate.latency_s, refused=sum(error == REFUSED for error in refused))
        stage.expect(f"{THREE} takes records with one broker down", spare == [None] * COUNT)
        stage.expect(f"{TWO} refuses acks=all with {REFUSED}", refused == [REFUSED] * COUNT)
        stage.expect(f"{TWO} takes acks=1", leader_only == [None] * COUNT)
        stage.expect(
            "reads go on, and nothing that was refused is there",
            len(found) >= COUNT and not self._count(found, "refused"),
        )
        stage.expect(
            "what one replica alone has is handed out once a second has it",
            self._count(found, "one") == 0 and handed_out == COUNT,
        )
        stage.expect("a record that is retried is acknowledged once the broker is back", waited and fate.error is None)
        stage.happened(
            "acks=all waits for all in-sync replicas, however few are left. min.insync.replicas is the least number "
            f"for which that is a promise: below it the leader refuses a record before it writes it ({REFUSED}). "
            "Readers go on. They get what acks=1 wrote once a second replica has it.",
            f"The error is retriable: the producer that retries waited {fate.latency_s:.1f} s, and lost nothing.",
        )

    def _write(self, stage: Stage, topic: str, name: str, **settings: object) -> list[str | None]:
        """The errors, None for an acknowledgement."""
        with Writer(stage.servers, topic, **settings) as writer:
            return [fate.error for fate in writer.write(f"{name}-{n}" for n in range(COUNT))]

    def _told(self, errors: list[str | None]) -> str:
        acknowledged = errors.count(None)
        names = ", ".join(sorted({error for error in errors if error is not None}))
        return f"{acknowledged} of {len(errors)} acknowledged" + (f", the others {names}" if names else "")

    def _count(self, values: list[str], name: str) -> int:
        return sum(value.startswith(name) for value in values)
