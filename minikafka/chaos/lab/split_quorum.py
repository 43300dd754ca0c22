"""A split quorum: without a majority of the voters there is no controller, and nothing about the cluster changes."""

from __future__ import annotations

from typing import Final

from minikafka.chaos.lab.clients import Writer, create_topic, create_topic_error, read_all
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage

TOPIC: Final = "orders"
COUNT: Final = 100
GIVE_UP_MS: Final = 2_000


class SplitQuorum(Lab):
    """Three voters that do not hear each other, and a partition whose replicas do."""

    name = "split-quorum"
    summary = "without a majority of the voters: leaders go on, but nobody is elected and no topic is created"
    watch = (
        "The three voters of the controller quorum are cut off from each other. A partition has its replicas on a "
        "broker without a vote and on a voter, which still reach each other.",
        "Watch writes go on without a controller. Then watch what does not happen when the leader dies, and how soon "
        "it happens once the voters hear each other.",
    )
    matters = "controller.quorum.voters: three survive the loss of one, five that of two"
    advice = (
        "Three controllers, or five, in three zones or more: a majority must outlive the loss of any zone. Two zones "
        "are not enough, however many controllers there are.",
        "Raise an alarm when there is no active controller (ActiveControllerCount summed up is not 1): clients do not "
        "notice before the next broker fails.",
    )
    voters = 3
    more = 1

    def run(self, stage: Stage) -> None:
        cluster = stage.cluster
        voters, leader, follower = cluster.layout.voter_ids, cluster.node_ids[-1], cluster.layout.voter_ids[0]
        create_topic(stage.cluster, TOPIC, [[leader, follower]], min_insync_replicas="2")
        with Writer(stage.servers, TOPIC, acks="all") as writer:
            writer.write(f"before-{n}" for n in range(COUNT))
            stage.say(
                f"node {leader} (no vote) leads {TOPIC}, node {follower} (a voter) follows; controller: node "
                f"{cluster.controller()}"
            )
            for one in voters:
                for other in voters:
                    if one < other:
                        cluster.cut(one, other)
            stage.wait("that no voter knows a controller", lambda: not self._controllers(stage))
            stage.say("the voters are cut off from each other: none of them is or knows the controller")
            during = [fate.error for fate in writer.write(f"during-{n}" for n in range(COUNT))]
            acknowledged = list(writer.acknowledged)
        taken = during.count(None)
        stage.say(f"records go on: {taken} of {COUNT} acknowledged under acks=all, by nodes {leader} and {follower}")
        error = create_topic_error(stage.servers, "new", GIVE_UP_MS / 1000)
        stage.say(f"a new topic: {error or 'created'}")

        cluster.kill(leader)
        with Writer(stage.servers, TOPIC, acks="all", message_timeout_ms=GIVE_UP_MS) as writer:
            (fate,) = writer.write(["refused"])
        view = stage.wait("an answer of the follower", lambda: cluster.probe(follower))
        still = next(each.leader_id for each in view.partitions if each.topic == TOPIC)
        stage.say(
            f"node {leader} is killed; node {follower} is in sync, and not elected: {TOPIC} is led by node {still}, "
            f"and a record fails with {fate.error}"
        )

        cluster.mend(voters, what="links")
        seconds = cluster.wait_for(
            lambda view: any((each.topic, each.leader_id) == (TOPIC, follower) for each in view.partitions),
            "an election",
        )
        stage.say(
            f"the voters hear each other: node {cluster.controller()} is the controller, and node {follower} leads "
            f"{TOPIC} after {seconds:.1f} s"
        )
        cluster.start()
        cluster.wait_in_sync()
        lost = len({*acknowledged} - {*read_all(stage.servers, TOPIC)})
        stage.say(
            f"node {leader} is back, and all is in sync: {lost} of {len(acknowledged)} acknowledged records are lost"
        )
        stage.measure(acknowledged_without_controller=taken, election_s=seconds, lost=lost)
        stage.expect("leaders take records without a controller", taken == COUNT)
        stage.expect("no topic is created without a controller", error is not None)
        stage.expect("nobody is elected without a controller", still == leader and fate.error is not None)
        stage.expect("the in-sync replica leads when there is a controller again, and nothing is lost", lost == 0)
        stage.happened(
            "The controller is elected by a majority of the voters, and its decisions are theirs. Records do not pass "
            f"through it: leader and followers wrote {taken} of them without one. What needs a decision waits: "
            "elections, ISR changes, new topics.",
            f"That is what keeps two halves from electing two leaders. The first majority needed {seconds:.1f} s.",
        )

    def _controllers(self, stage: Stage) -> list[int]:
        """What the voters say."""
        answers = [stage.cluster.probe_quorum(voter) for voter in stage.cluster.layout.voter_ids]
        return [answer.leader_id for answer in answers if answer is not None and answer.leader_id is not None]
