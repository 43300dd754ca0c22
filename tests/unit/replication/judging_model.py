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

In a fifth of the schedules the log is compacted: each replica drops records that a later one below its high watermark
supersedes, in its own time. Then there may be unclean elections, too. In the end every replica has those of the newest
records of all keys that the leader has: none was dropped for the sake of one that was cut off since. (Who is elected
uncleanly may lack some: it may have been fetching what another leader had cleaned.)
"""

from __future__ import annotations

from local_replica_model import BadRecords, LocalReplicaCluster, SyncedLog
from replication_model import WHERE, ViolationError

from minikafka.metadata.controller.elections import ElectionType
from minikafka.model import NO_NODE
from minikafka.replication import replica_effects as do
from minikafka.replication.effects import Append, TruncateTo
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

KEYS = 3


class Dropped(tuple):
    """A record that the cleaner dropped: it is equal to itself, so that logs can be compared, and is not there."""


class CleanedLog(SyncedLog):
    """The log of a compacted topic."""

    is_cleaned = True
    noted = 0  # the high watermark of the last pass of the cleaner, on the disk before the new files
    cleaned_to = 0  # it reads what is synced

    def clean(self, high_watermark):
        """Drop the records that a later one below the high watermark supersedes; returns their number."""
        last, count = {}, 0
        self.noted, self.cleaned_to = high_watermark, min(high_watermark, self.synced)
        for at in reversed(range(self.cleaned_to - self.log_start_offset)):
            key = self.records[at][1] % KEYS
            if last.setdefault(key, at) != at and not isinstance(self.records[at], Dropped):
                self.records[at] = Dropped(self.records[at])
                count += 1
        return count

    def truncate_to(self, offset):
        super().truncate_to(offset)
        self.noted = min(self.noted, self.log_end_offset)
        self.cleaned_to = min(self.cleaned_to, self.log_end_offset)

    def restart_at(self, offset):
        super().restart_at(offset)
        self.noted = self.cleaned_to = offset

    def lacks(self):
        """The newest records of keys that are not there."""
        newest = {record[1] % KEYS: record for record in self.records}
        return {record for record in newest.values() if isinstance(record, Dropped)}


class JudgedCluster(LocalReplicaCluster):
    """One schedule."""

    def __init__(self, seed):
        self.seed = seed
        self.ill = None  # the node with the damage
        self.is_short = False  # it lost its tail; else its epochs are false
        self.ill_epochs = []  # the leader epochs that it began since
        self.is_compacted = seed % 5 == 3
        self.was_unclean = False
        super().__init__(seed)

    def new_log(self):
        return CleanedLog() if self.is_compacted else super().new_log()

    def _swarm(self):
        fault = self.lose_tail if self.random() < 0.5 else self.spoil_epochs
        if self.seed % 4 == 3:
            fault = self.spoil_last_record
        compaction = {self.clean: 12, self.elect_uncleanly: 4} if self.is_compacted else {}
        return {**super()._swarm(), self.crash: 3, self.restart: 4, fault: 10, **compaction}

    @staticmethod
    def durable_end(node):
        return node.log.cleaned_to if isinstance(node.log, CleanedLog) else 0

    def start(self, node):
        if self.is_compacted:
            node.checkpoint = max(node.checkpoint, node.log.noted)
        super().start(node)

    # -- actions ----------------------------------------------------------------------------------------------------

    def lose_tail(self):
        node = self.pick([node for node in self.nodes if not node.alive and node.log.records])
        if node is not None and self.ill is None and not self.damaged:
            self.ill, self.is_short = node, True
            left = int(self.random() * node.log.log_end_offset)
            node.log.truncate_to(max(left, self.durable_end(node)))  # a loss below the recovery point shows
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
        """One loss in a schedule is enough."""
        if not self.has_loss:
            super().damage()

    def clean(self):
        node = self.pick([node for node in self.nodes if node.alive and node.replica and not node.log.is_being_cut])
        if node is not None:
            count = node.log.clean(self.high_watermark_of(node))
            self.say("n{} drops {} records", node.id, count)

    def elect_uncleanly(self):
        """All complete replicas are gone, and an operator has another one lead."""
        partition = self.controller.now.partition
        complete = {*partition.isr, *partition.elr}
        others = [node for node in self.nodes if node.alive and node.id in {*partition.replicas} - complete]
        if not others or self.damaged:
            return
        for node in self.nodes:
            if node.id in complete:
                if node.alive:
                    self.crash_of(node)
                self.controller.fence(node.id)
        topics = [TopicPartitions(topic=WHERE.topic, partitions=[WHERE.partition])]
        self.controller.ask(ElectLeadersRequest(election_type=ElectionType.UNCLEAN, topic_partitions=topics))
        self.was_unclean = True
        self.say("n{} is elected uncleanly", self.controller.now.leader)

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

    @property
    def has_loss(self):
        """Nothing can be said of committed records any more."""
        return self.ill is not None or self.was_unclean

    def on_high_watermark(self, node):
        if self.has_loss:
            self.committed = []  # who is right may never be known
        if self.was_unclean:  # by one that had not synced all it knew as committed
            super(LocalReplicaCluster, self).on_high_watermark(node)
        else:
            super().on_high_watermark(node)

    def check(self):
        if not self.has_loss:
            super().check()
        elif self.controller.now is not self.judged:
            self.judged = self.controller.now
            self.check_controller(self.judged.partition)

    def is_settled(self):
        leader_id = self.controller.now.leader
        if not self.has_loss or leader_id == NO_NODE:
            return super().is_settled()
        self.committed = self.nodes[leader_id].log.records
        values = [value for _, value in self.committed]
        for node in self.nodes:
            if [value for _, value in node.log.records] == values:  # a false epoch below another may stay unseen
                pairs = zip(node.log.records, self.committed, strict=True)
                node.log.records = [type(held)(record) for held, record in pairs]
        return super().is_settled()

    def settle(self):
        super().settle()
        for node_id in self.controller.now.replicas if self.is_compacted else ():
            log = self.nodes[node_id].log
            leader = self.nodes[self.controller.now.leader].log
            if lacks := log.lacks() - leader.lacks():
                raise ViolationError(f"n{node_id} dropped {lacks}, which nothing supersedes any more")


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
