"""Golden scenarios: the replicas A, B and C, their controller, and every message and effect between them.

A file of ``tests/golden/replication`` is a list of commands; below each, indented, is what it makes happen. The
replicas are those of the random schedules (replication_model.py), but nothing moves unless a command says so. Offsets
and leader epochs begin at 1, A leads, and all three are in sync. The commands are the ``do_*`` methods.
"""

from __future__ import annotations

import re

from replication_model import LAG_TIME_MAX_MS, WHERE, Cluster, Controller

from minikafka.errors import ErrorCode
from minikafka.model import NO_NODE
from minikafka.replication.effects import SendFetch, SendListOffsets, SendOffsetsForLeaderEpoch, Wait
from minikafka.replication.fetcher import ReplicaFetcher
from minikafka.replication.replica_facts import ReplicaSettings

NAMES = "ABC"


def play(text):
    """The scenario with its output as it is now."""
    scenario = Scenario()
    out = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        out.append(line)
        if line and not line.startswith("#"):
            out += [f"  {said}" for said in scenario.run_line(line)]
    return "\n".join(out) + "\n"


class _Controller(Controller):
    first_leader_epoch = 1


class Scenario(Cluster):
    """The cluster, moved by hand, that says everything."""

    controller_type = _Controller
    first_offset = 1

    def __init__(self):
        self.said = []
        super().__init__(seed=0)
        self.min_insync_replicas = 1
        for node in self.nodes:
            node.reset()
            self.apply_metadata(node)

    def run_line(self, line):
        verb, *words = line.split()
        self.said = []
        getattr(self, f"do_{verb.replace('-', '_')}")(*words)
        return [as_named(said) for said in self.said]

    # -- commands ---------------------------------------------------------------------------------------------------

    def do_produce(self, name, count="1"):
        """Append so many records at a leader."""
        node = self.named(name)
        values = range(self.next_value, self.next_value + int(count))
        self.next_value = values.stop
        node.log.append(node.leader.leader_epoch, *values)
        self.note(f"n{node.id} appends {len(values)}, ends at {node.log.log_end_offset}")
        self.on_moved(node, node.replica.on_written(self.now_ms))

    def do_exchange(self, *names):
        """A follower's request goes to its leader and the answer comes back; one after the other."""
        for name in names:
            node = self.named(name)
            at = [message for message in self.network if message[2] is node and message[0] != self.receive]
            if not at or at[-1][3] != node.token:
                self.note(f"n{node.id} has no request out")
                continue
            self.network.remove(at[-1])
            self.say_request(node, at[-1][4])
            handler, *arguments = at[-1]
            handler(*arguments)
            answers = [message for message in self.network if message[0] == self.receive and message[1] is node]
            if not answers:
                self.note("no answer")
                node.token = None
                node.fetcher.on_request_failed(self.now_ms)
                continue
            self.network.remove(answers[-1])
            self.say_answer(answers[-1])
            self.receive(*answers[-1][1:])

    def do_proposals(self):
        """What was proposed reaches the controller, and its verdicts the leaders."""
        sent, self.network = _partitioned(self.network, self.serve_proposal)
        for handler, *arguments in sent:
            handler(*arguments)
        verdicts, self.network = _partitioned(self.network, self.receive_verdict)
        for handler, *arguments in verdicts:
            handler(*arguments)

    def do_no_verdict(self, name):
        """The controller does not answer; the proposal is still on its way."""
        node = self.named(name)
        proposal, node.proposing = node.proposing, None
        self.propose(node, node.replica.on_proposal_refused(proposal, ErrorCode.REQUEST_TIMED_OUT, self.now_ms))

    def do_last_proposal(self):
        """The one sent last overtakes the others."""
        sent, others = _partitioned(self.network, self.serve_proposal)
        self.network = [*others, sent[-1]]
        self.do_proposals()
        self.network = [*sent[:-1], *self.network]

    def do_elect(self, name):
        """The controller moves the leadership to a member of the ISR."""
        self.controller.move_leader(self.named(name).id)
        self.say_metadata()

    def do_elect_uncleanly(self, name):
        """The controller names a leader from outside the ISR."""
        node = self.named(name)
        self.controller._commit(
            leader=node.id, leader_epoch=self.controller.now.leader_epoch + 1, isr=frozenset({node.id})
        )
        self.say_metadata()

    def do_fence(self, name):
        """The controller holds a broker for dead."""
        self.controller.fence(self.named(name).id)
        self.say_metadata()

    def do_unfence(self, name):
        """It hears of the broker again."""
        self.controller.unfence(self.named(name).id)
        self.say_metadata()

    def do_learn(self, *names):
        """These brokers, or all that live, apply what is committed."""
        for node in [self.named(name) for name in names] or [node for node in self.nodes if node.alive]:
            while node.applied < len(self.controller.log) - 1:
                node.applied += 1
                self.apply_metadata(node)

    def do_kill(self, name):
        """A process ends; its log stays."""
        node = self.named(name)
        node.alive = False
        node.checkpoint = self.high_watermark_of(node)
        node.reset()

    def do_start(self, name):
        """It starts again and has caught up with the metadata."""
        self.start(self.named(name))

    def do_wait(self, milliseconds):
        """Time passes; leaders look after their ISR, followers go on after a back-off."""
        self.now_ms += int(milliseconds)
        for node in self.nodes:
            if node.replica is not None:
                self.carry_out(node, node.replica.check_lagging(self.now_ms))
            self.pump(node)

    def do_min_insync_replicas(self, count):
        """The topic's setting."""
        self.min_insync_replicas = int(count)
        for node in self.nodes:
            if node.replica is not None:
                settings = ReplicaSettings(int(count), self.flush_messages, LAG_TIME_MAX_MS)
                self.carry_out(node, node.replica.configure(settings, self.now_ms))

    def do_acks(self, name, required_offset):
        """Is an acks=all append that ends there acknowledged?"""
        replica = self.named(name).replica
        error = replica.acknowledgement_of(int(required_offset), replica.leader_epoch, needs_all=True)
        self.note("waits" if error is None else f"answered{'' if error is ErrorCode.NONE else ' ' + error.name}")

    def do_forget_sessions(self, name):
        """A leader evicts every fetch session."""
        self.named(name).forget_sessions()

    def do_forget_epoch_start(self, name):
        """A leader that did not note where its epoch begins."""
        self.named(name).log.epochs.pop()

    def do_delete_before(self, name, offset):
        """Retention moves a leader's log start."""
        node = self.named(name)
        node.log.follow(node.log.high_watermark, int(offset))
        node.followers.note(WHERE)

    def do_state(self):
        """Every log: epochs with their first offsets, end, high watermark."""
        for node in self.nodes:
            epochs = " ".join(f"{epoch}:{start}.." for epoch, start in node.log.epochs) or "empty"
            role = "leads" if node.leader else "follows" if node.fetcher else "is down" if not node.alive else "waits"
            end, high_watermark = node.log.log_end_offset, self.high_watermark_of(node)
            self.note(f"n{node.id} {role}, log [{node.log.log_start_offset},{end}) of {epochs} HW {high_watermark}")

    # -- what is said -----------------------------------------------------------------------------------------------

    def named(self, name):
        return self.nodes[NAMES.index(name)]

    def note(self, text):
        self.said.append(text)

    def say(self, what, *values):
        self.note(what.format(*values))

    def say_metadata(self):
        now = self.controller.now
        leader = "nobody" if now.leader == NO_NODE else f"n{now.leader}"
        in_sync = ",".join(f"n{node_id}" for node_id in sorted(now.isr))
        self.note(f"controller: {leader} leads epoch {now.leader_epoch}, ISR {in_sync}, version {now.partition_epoch}")

    def say_request(self, node, request):
        source = f"n{node.id} -> n{node.fetcher.source_id}"
        if isinstance(request, SendListOffsets):
            self.note(f"{source}: where does your log begin and end?")
        elif hasattr(request, "session_epoch"):
            wanted = [_wanted(each) for topic in request.topics for each in topic.partitions]
            session = f"session {'new' if not request.session_epoch else request.session_epoch}"
            self.note(f"{source}: fetch, {session}{''.join(', ' + each for each in wanted)}")
        else:
            asked = request.topics[0].partitions[0]
            self.note(f"{source}: where does epoch {asked.leader_epoch} end? (in {asked.current_leader_epoch})")

    def say_answer(self, message):
        _, node, _, receive, *responses = message
        arrow = f"n{node.id} <- n{node.fetcher.source_id}"
        if receive is ReplicaFetcher.on_fetch_response:
            (response,) = responses
            data = [each for topic in response.responses for each in topic.partitions]
            said = ErrorCode(response.error_code).name if response.error_code else "; ".join(map(_told, data))
            self.note(f"{arrow}: {said or 'nothing new'}")
        elif receive is ReplicaFetcher.on_epoch_end_offsets:
            end = responses[0].topics[0].partitions[0]
            said = f"epoch {end.leader_epoch} ends at {end.end_offset}"
            self.note(f"{arrow}: {ErrorCode(end.error_code).name if end.error_code else said}")
        else:
            earliest, latest = (response.topics[0].partitions[0] for response in responses)
            said = f"it is [{earliest.offset},{latest.offset})"
            self.note(f"{arrow}: {ErrorCode(earliest.error_code).name if earliest.error_code else said}")

    def do_fetch(self, node, effects):
        quiet = (SendFetch, SendOffsetsForLeaderEpoch, SendListOffsets, Wait)
        for effect in effects:
            if not isinstance(effect, quiet):
                self.note(f"n{node.id}   {_effect(effect)}")
            super().do_fetch(node, [effect])

    def on_high_watermark(self, node):
        node.followers.note(WHERE)
        self.note(f"n{node.id} high watermark {node.leader.high_watermark}")


def as_named(text):
    """n0 -> A, [0, 1] -> A,B."""
    text = re.sub(r"[\[{](\d(?:, \d)*)[\]}]", lambda found: re.sub(r"(\d)(, )?", r"n\1,", found[1]).rstrip(","), text)
    return re.sub(r"\bn([012])\b", lambda found: NAMES[int(found[1])], text)


def _partitioned(network, handler):
    of_handler = [message for message in network if message[0] == handler]
    return of_handler, [message for message in network if message[0] != handler]


def _wanted(partition):
    last = "" if partition.last_fetched_epoch < 0 else f" after epoch {partition.last_fetched_epoch}"
    return f"{WHERE} from {partition.fetch_offset}{last} (in {partition.current_leader_epoch})"


def _told(data):
    if data.error_code:
        return ErrorCode(data.error_code).name
    if data.diverging_epoch is not None:
        return f"diverging, epoch {data.diverging_epoch.epoch} ends at {data.diverging_epoch.end_offset}"
    of_epochs = " ".join(f"@{epoch}" for epoch, _ in data.records)
    return f"records {of_epochs or 'none'}, HW {data.high_watermark}"


def _effect(effect):
    fields = {name: value for name, value in effect._asdict().items() if name not in ("topic_partition", "records")}
    said = " ".join(f"{name}={getattr(value, 'name', value)}" for name, value in fields.items() if value is not None)
    return f"{type(effect).__name__} {said}"
