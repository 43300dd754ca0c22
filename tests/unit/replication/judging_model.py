"""Random schedules in which one log is damaged in a way that nothing local shows: which one of two is cut?

local_replica_model.py, with three more faults, one in a schedule. A dead node's log loses its tail, and its next
process registers as having lost nothing. Or a dead node's log comes to hold a false leader epoch: one that no other
log has, or, for its last record, one that others have later on. (Not for a last record that others do not have: after
a kill the log itself knows that epoch, and after a power cut nobody does, decision 0022.) Leaders and followers find
out from what the other one says, if at all: what is lost then may be lost for good. So from such a fault on nothing is
said of committed records. What must hold (row R26):

* nobody is cut below its high watermark, unless that was made void by an unclean election, or metadata says that nobody
  counts on it;
* who is in the true ISR or ELR and whole does not take itself for damaged on the word of a leader that lost its tail;
* in the end all replicas are equal, in sync and whole: nobody hangs.
"""

from __future__ import annotations

from local_replica_model import BadRecords, LocalReplicaCluster
from replication_model import WHERE, ViolationError

from minikafka.model import NO_NODE
from minikafka.replication import replica_effects as do
from minikafka.replication.effects import Append, TruncateTo


class JudgedCluster(LocalReplicaCluster):
    """One schedule."""

    def __init__(self, seed):
        self.seed = seed
        self.ill = None  # the node with the damage
        self.is_short = False  # it lost its tail; else its epochs are false
        self.ill_epochs = []  # the leader epochs that it began since
        super().__init__(seed)

    def _swarm(self):
        fault = self.lose_tail if self.random() < 0.5 else self.spoil_epochs
        if self.seed % 4 == 3:
            fault = self.spoil_last_record
        return {**super()._swarm(), self.crash: 3, self.restart: 4, fault: 10}

    # -- actions ----------------------------------------------------------------------------------------------------

    def lose_tail(self):
        node = self.pick([node for node in self.nodes if not node.alive and node.log.records])
        if node is not None and self.ill is None and not self.damaged:
            self.ill, self.is_short = node, True
            node.log.truncate_to(int(self.random() * node.log.log_end_offset))
            node.checkpoint = min(node.checkpoint, node.log.log_end_offset)
            self.say("n{} loses its tail, its log now ends at {}", node.id, node.log.log_end_offset)

    def spoil_epochs(self):
        node = self.pick([node for node in self.nodes if not node.alive and node.log.epochs])
        if node is None or self.ill is not None or self.damaged:
            return
        *before, (_, start) = node.log.epochs
        taken = {epoch for each in self.nodes for epoch, _ in each.log.epochs}
        lowest = before[-1][0] + 1 if before else 0
        past = min((each.metadata.leader_epoch for each in self.nodes if each.alive), default=0)
        free = [epoch for epoch in range(lowest, past) if epoch not in taken]
        if free:
            self.ill, epoch, log = node, self.pick(free), node.log
            log.epochs[-1] = (epoch, start)
            at = max(0, start - log.log_start_offset)
            log.records[at:] = [(epoch, value) for _, value in log.records[at:]]
            self.say("n{} has false epochs {}", node.id, log.epochs)

    def spoil_last_record(self):
        node = self.pick([node for node in self.nodes if not node.alive and len(node.log.records) > 1])
        if node is None or self.ill is not None or self.damaged:
            return
        log, at = node.log, node.log.log_end_offset - 1
        others = [each.log.read(at, 1) for each in self.nodes if each is not node and each.log.log_end_offset > at]
        if not others or any(other != log.read(at, 1) for other in others):
            return
        begun = [entry for each in self.nodes for entry in each.log.epochs if entry[0] > log.latest_epoch]
        later = {epoch for epoch, _ in begun} - {epoch for epoch, start in begun if start < log.log_end_offset}
        if later:
            self.ill, epoch = node, self.pick(sorted(later))
            (_, value), start = log.records[-1], log.log_end_offset - 1
            log.records[-1] = (epoch, value)
            log.epochs = [entry for entry in log.epochs if entry[1] < start] + [(epoch, start)]
            self.say("n{} has a false epoch in its last record {}", node.id, log.epochs)

    def damage(self):
        """One damage in a schedule is enough."""
        if self.ill is None:
            super().damage()

    # -- who says what ----------------------------------------------------------------------------------------------

    def carry_out(self, node, effects):
        for effect in effects:
            kind = type(effect)
            if kind is do.Leads and node is self.ill:
                self.ill_epochs.append(node.leader.leader_epoch)
            elif kind is do.Cut and effect.is_refetch and self.is_counted_on(node):
                raise ViolationError(f"n{node.id} is cut while others may count on it")
            elif kind is do.Say and effect.what is do.Saying.FOLLOWER_DIVERGES:
                self.judge(node)
            elif kind is do.Say and effect.what is do.Saying.LOSS_BY_TRUNCATION:
                self.judge_loss(node)
            super().carry_out(node, [effect])

    def is_counted_on(self, node):
        partition = self.controller.now.partition
        return node.id in (*partition.isr, *partition.elr)

    def judge(self, node):
        """It takes itself for damaged. Where the ill one led before, its records are in the way of what is right."""
        epoch = node.replica.leader_epoch
        misled = [each for each in self.ill_epochs if each < epoch or (each == epoch and not self.is_short)]
        if node is not self.ill and node.id not in self.damaged and self.is_counted_on(node) and not misled:
            raise ViolationError(f"n{node.id} is whole, and takes itself for damaged in leader epoch {epoch}")

    def judge_loss(self, node):
        if self.controller.now.unclean_leader_epoch <= node.log.latest_epoch:
            raise ViolationError(f"n{node.id} is cut below its high watermark without an unclean election")

    def do_fetch(self, node, effects):
        for effect in effects:
            if type(effect) is Append and (epoch := falling_epoch(node.log, effect.records)) is not None:
                self.say("n{} is sent records of epoch {} after later ones", node.id, epoch)
                node.fetcher.on_epochs_fall(WHERE, epoch, self.now_ms)
                continue
            high_watermark = node.replica.high_watermark
            super().do_fetch(node, [effect])
            cut = node.replica.cut or node.wanted_cut
            is_refetch = isinstance(cut, do.Cut) and cut.is_refetch
            if type(effect) is TruncateTo and node.replica.high_watermark < high_watermark and not is_refetch:
                self.judge_loss(node)

    # -- invariants -------------------------------------------------------------------------------------------------

    def on_high_watermark(self, node):
        if self.ill is not None:
            self.committed = []  # who is right may never be known
        super().on_high_watermark(node)

    def check(self):
        if self.ill is None:
            super().check()
        elif self.controller.now is not self.judged:
            self.judged = self.controller.now
            self.check_controller(self.judged.partition)

    def is_settled(self):
        leader_id = self.controller.now.leader
        if self.ill is None or leader_id == NO_NODE:
            return super().is_settled()
        self.committed = self.nodes[leader_id].log.records
        values = [value for _, value in self.committed]
        for node in self.nodes:
            if [value for _, value in node.log.records] == values:  # a false epoch below another may stay unseen
                node.log.records = self.committed.copy()
        return super().is_settled()


def falling_epoch(log, records):
    """The epoch of the first of these records that is older than what comes before it, if any."""
    latest = log.latest_epoch
    for epoch, _ in () if isinstance(records, BadRecords) else records:
        if epoch < latest:
            return epoch
        latest = epoch
    return None


def run(seed):
    """Run one schedule; raises what it violated."""
    JudgedCluster(seed).run()


def trace_of(seed):
    """Every step of a schedule, with what it violated at its end."""
    cluster = JudgedCluster(seed)
    cluster.trace = []
    try:
        cluster.run()
    except AssertionError as violation:
        cluster.say("VIOLATION: {}", violation)
    return "\n".join(cluster.trace)
