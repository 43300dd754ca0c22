"""Random schedules of LocalReplica's roles, cuts, syncs, damage and moves, with the real controller.

partition_model.py, with a disk that takes its time and goes bad. Syncs and cuts are jobs that end when the schedule
says so, one at a time per log. In half of the schedules every record is synced before it counts (``flush.messages=1``).
Then any number of machines may lose power at any time, and keep what was synced. In all of them the media of one
machine at a time may go bad: what its log holds from an offset on cannot be read any more, and its process finds out,
or the next one does. Or it does not, as with bytes that it wrote itself: it goes on sending them, and no follower can
append them. A replica may move between two directories.

Invariants, beside those of partition_model.py:

* what a leader shows with ``flush.messages=1`` is synced at that leader;
* nothing is appended to, led from or fetched into a log that is being cut;
* in the end every damaged replica is whole again, and is said to be where it is.
"""

from __future__ import annotations

from uuid import UUID

from partition_model import BROKERS, PartitionCluster, RealController, View, first_images
from replication_log import MemoryLog
from replication_model import WHERE, ViolationError

from minikafka.errors import ErrorCode, KafkaError
from minikafka.replication import replica_effects as do
from minikafka.replication.effects import Append
from minikafka.replication.local_replica import SYNC_DUE, LocalReplica
from minikafka.replication.replica_condition import Condition
from minikafka.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

UNSYNCED = 1 << 62
ANYTHING_LOST = -2
DIRECTORIES = {broker: (UUID(int=100 + broker), UUID(int=200 + broker)) for broker in BROKERS}


class BadRecords(tuple):
    """Records that fail their checksum."""


class SyncedLog(MemoryLog):
    """A log that is synced up to ``synced``."""

    synced = 0
    is_being_cut = False

    @property
    def recovery_point(self):
        return self.synced

    def extend(self, records):
        if self.is_being_cut:
            raise ViolationError("records are appended to a log that is being cut")
        super().extend(records)

    def truncate_to(self, offset):
        super().truncate_to(offset)
        self.synced = min(self.synced, self.log_end_offset)

    def restart_at(self, offset):
        super().restart_at(offset)
        self.synced = offset


class DirectoryController(RealController):
    """Brokers tell it of their directories, and of the topics that lose nothing with power."""

    syncs = False

    def registration_of(self, broker_id):
        topic = self.image.topics_by_name.get("t")
        synced = [topic.topic_id] if self.syncs and topic is not None else []
        return {"log_dirs": list(DIRECTORIES[broker_id]), "synced_topics": synced}

    def assign(self, broker_id, broker_epoch, directory_id):
        topic_id = self.image.topics_by_name["t"].topic_id
        topic = TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=0)])
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id, broker_epoch=broker_epoch, directories=[DirectoryData(id=directory_id, topics=[topic])]
        )
        return ErrorCode(self.ask(request).directories[0].topics[0].partitions[0].error_code)


FIRST_IMAGES = first_images(DirectoryController)


class LocalReplicaCluster(PartitionCluster):
    """One schedule."""

    def __init__(self, seed):
        self.damaged = {}  # by node id: the offset from which on its log cannot be read
        self.unnoticed = set()  # of them, those that do not know
        super().__init__(seed)

    def controller_type(self):
        controller = DirectoryController(FIRST_IMAGES[self.min_insync_replicas])
        self.flush_messages = 1 if self.random() < 0.5 else UNSYNCED
        controller.syncs = self.flush_messages == 1
        for node_id in BROKERS:
            controller.heartbeat(node_id, controller.image.broker(node_id).broker_epoch, controller.image.offset)
        return controller

    def new_log(self):
        return SyncedLog()

    def _swarm(self):
        for node in self.nodes:
            node.directory = DIRECTORIES[node.id][0]
            self.reset_disk(node)
        return {
            **super()._swarm(),
            self.end_job: self._weight(8, 40),
            self.tell: self._weight(2, 16),
            self.damage: self._fault(4),
            self.move: self._fault(3),
        }

    @staticmethod
    def reset_disk(node):
        node.running = None  # a sync up to an offset, or a cut
        node.wanted_cut = None
        node.wants_sync = False
        node.claim = None

    # -- actions ----------------------------------------------------------------------------------------------------

    def end_job(self):
        node = self.pick([node for node in self.nodes if node.alive and node.running is not None])
        if node is not None:
            self.end_job_of(node)

    def end_job_of(self, node):
        job, node.running = node.running, None
        if isinstance(job, int):
            node.log.synced = max(node.log.synced, job)
            self.say("n{} has synced up to {}", node.id, job)
            if node.replica is not None:
                self.on_moved(node, node.replica.on_synced(self.now_ms))
                self.pump(node)
        else:
            node.log.is_being_cut = False
            self.end_cut(node, job)
        self.next_job(node)

    def next_job(self, node):
        if node.running is not None:
            return
        if node.wanted_cut is not None:
            node.running, node.wanted_cut = node.wanted_cut, None
            node.log.is_being_cut = True
        elif node.wants_sync:
            node.running, node.wants_sync = node.log.log_end_offset, False

    def tell(self):
        """A claim reaches the controller."""
        node = self.pick([node for node in self.nodes if node.alive and node.claim is not None])
        if node is not None:
            self.tell_claim(node)

    def tell_claim(self, node):
        claim = node.claim
        try:
            error = self.controller.assign(node.id, node.broker_epoch, claim)
        except KafkaError as refusal:
            error = refusal.code
            if error is ErrorCode.STALE_BROKER_EPOCH:
                return
        self.say("n{} claims {}: {}", node.id, claim.int, error.name)
        node.claim = None

    def damage(self):
        """Bytes of one log go bad; as many at a time as power cuts."""
        more = not self.damaged and len(self.lost) < self.min_insync_replicas - 1
        node = self.pick([node for node in self.nodes if more and node.log.records])
        if node is not None:
            offset = int(self.random() * node.log.log_end_offset)
            self.lost.add(node.id)
            self.powerless.add(node.id)  # not to be counted on, until it is whole
            self.damaged[node.id] = offset
            self.checked = None
            self.say("n{} is damaged from {} on", node.id, offset)
            if node.alive and self.random() < 0.3:
                self.unnoticed.add(node.id)
            elif node.alive:
                self.carry_out(node, node.replica.on_damage(offset, self.now_ms))

    def verify(self, node, effect):
        """The leader reads again what a follower was sent in vain."""
        if self.is_bad(node, effect.offset, effect.size_in_bytes):
            offset = self.damaged[node.id]
            self.unnoticed.discard(node.id)
            self.say("n{} notices that it is damaged from {} on", node.id, offset)
            self.carry_out(node, node.replica.on_damage(offset, self.now_ms))

    def is_bad(self, node, offset, size):
        return node.id in self.damaged and offset + size > self.damaged[node.id]

    def move(self):
        """A replica that is at rest is moved to the other directory of its broker."""
        node = self.pick([node for node in self.nodes if self.may_move(node)])
        if node is not None:
            node.directory = next(one for one in DIRECTORIES[node.id] if one != node.directory)
            node.log.synced = node.log.log_end_offset
            self.say("n{} moves its replica to {}", node.id, node.directory.int)
            self.carry_out(node, node.replica.on_moved(node.log, node.directory, self.now_ms))
            self.pump(node)

    @staticmethod
    def may_move(node):
        replica = node.replica
        return node.alive and replica is not None and node.running is None and replica.condition.now is Condition.WHOLE

    def lose_power(self):
        if self.flush_messages != 1:
            super().lose_power()
            return
        node = self.pick([node for node in self.nodes if node.alive])
        if node is not None:
            log = node.log
            kept = log.synced + int(self.random() * (log.log_end_offset - log.synced + 1))
            self.end(node)
            log.truncate_to(kept)
            log.synced = log.log_end_offset
            node.checkpoint = 0
            self.checked = None
            self.say("n{} loses power, its log now ends at {}", node.id, log.log_end_offset)

    def end(self, node):
        """The process ends, in the middle of what its threads do."""
        node.log.is_being_cut = False
        if isinstance(node.running, do.Cut) and self.random() < 0.5:
            node.log.truncate_to(node.running.offset)
        self.reset_disk(node)
        super().end(node)

    def previous_broker_epoch(self, node):
        return ANYTHING_LOST if node.id in self.damaged else super().previous_broker_epoch(node)

    def start(self, node):
        if node.id in self.damaged and self.random() < 0.5:  # recovery found it, and cut it off
            node.log.truncate_to(self.damaged[node.id])
            node.checkpoint = min(node.checkpoint, node.log.log_end_offset)
        node.log.synced = node.log.log_end_offset  # what is found is synced before anything builds on it
        super().start(node)
        if node.id in self.damaged:
            self.powerless.add(node.id)
            self.unnoticed.discard(node.id)

    # -- the replica's driver ---------------------------------------------------------------------------------------

    def local_replica(self, node):
        replica = super().local_replica(node)
        return LocalReplica(
            replica.topic_partition,
            node.id,
            node.log,
            replica._settings,
            replica._surroundings,
            high_watermark=node.checkpoint,
            damage_offset=self.damaged.get(node.id),
            directory_id=node.directory,
            is_directory_told=True,
        )

    def directory_of(self, node):
        return node.metadata.partition.directory_id_of(node.id)

    def apply_metadata(self, node):
        super().apply_metadata(node)
        if node.id not in node.metadata.replicas:  # deleted, with its damage
            node.log.is_being_cut = False
            self.reset_disk(node)
            self.end_damage(node)

    def end_damage(self, node):
        if self.damaged.pop(node.id, None) is not None:
            self.unnoticed.discard(node.id)
            self.powerless.discard(node.id)

    def carry_out(self, node, effects):
        for effect in effects:
            kind = type(effect)
            if kind is do.Sync:
                self.request_sync(node)
            elif kind is do.Verify:
                self.verify(node, effect)
            elif kind is do.Claim:
                node.claim = effect.directory_id
            elif kind is do.MarkWhole:
                self.say("n{} is whole again", node.id)
                self.end_damage(node)
                self.checked = None
            elif kind is do.Say:
                self.say("n{} says: {}", node.id, effect.what.value)
                if effect.what is do.Saying.EPOCHS_BEYOND_METADATA:
                    raise ViolationError(f"n{node.id} has epochs that the controller does not know")
            else:
                super().carry_out(node, [effect])

    def begin_cut(self, node, effect):
        if node.running is None and type(effect) is do.Cut and effect.offset >= node.log.log_end_offset:
            self.end_cut(node, effect)
            return
        node.wanted_cut = effect
        self.next_job(node)

    def end_cut(self, node, effect):
        if node.id in self.unnoticed and effect.offset <= self.damaged[node.id]:
            self.end_damage(node)  # what was bad is gone
        super().end_cut(node, effect)
        if node.fetcher is not None and node.replica is not None:
            self.pump(node)

    def request_sync(self, node):
        node.wants_sync = True
        self.next_job(node)

    def on_moved(self, node, moved):
        if moved & SYNC_DUE:
            self.request_sync(node)
        super().on_moved(node, moved)

    def pump(self, node):
        """What was fetched is synced before the next fetch says that it is there."""
        replica = node.replica
        if replica is None:
            return
        if replica.leader is None and replica.is_sync_due and node.log.records and replica.cut is None:
            self.request_sync(node)
            return
        super().pump(node)

    def serving(self, node, current_leader_epoch):
        state = super().serving(node, current_leader_epoch)
        if node.log.is_being_cut:
            raise ViolationError(f"n{node.id} serves from a log that is being cut")
        return state

    def read(self, node, request, asked):
        data = super().read(node, request, asked)
        if not data.records:
            return data
        offset, size = asked.fetch_offset, len(data.records)
        self.carry_out(node, node.replica.on_records_sent(request.replica_state.replica_id, offset, size))
        if self.is_bad(node, offset, size):
            if node.id in self.unnoticed:
                data.records = BadRecords(data.records)
            else:
                data.records, data.error_code = (), ErrorCode.KAFKA_STORAGE_ERROR
        return data

    def do_fetch(self, node, effects):
        for effect in effects:
            if type(effect) is Append and isinstance(effect.records, BadRecords):
                self.say("n{} cannot append what it was sent", node.id)
                node.fetcher.on_append_failed(WHERE, ErrorCode.CORRUPT_MESSAGE, self.now_ms)
            else:
                super().do_fetch(node, [effect])

    # -- invariants -------------------------------------------------------------------------------------------------

    def on_high_watermark(self, node):
        super().on_high_watermark(node)
        if self.flush_messages == 1 and node.leader.high_watermark > node.log.synced:
            raise ViolationError(f"n{node.id} shows what it has not synced: {node.leader.high_watermark}")

    # -- the end ----------------------------------------------------------------------------------------------------

    def settle_round(self):
        for node in self.nodes:
            while node.running is not None:
                self.end_job_of(node)
            if node.claim is not None:
                self.tell_claim(node)
        super().settle_round()

    def is_settled(self):
        if self.damaged.keys() - self.unnoticed or any(
            node.claim is not None or node.running is not None for node in self.nodes
        ):
            return False
        return super().is_settled() and all(self.is_where_it_is_said(node) for node in self.nodes)

    def is_where_it_is_said(self, node):
        partition = View(self.controller.image).partition
        return node.id not in partition.replicas or partition.directory_id_of(node.id) == node.directory


def run(seed):
    """Run one schedule; raises what it violated."""
    LocalReplicaCluster(seed).run()


def trace_of(seed):
    """Every step of a schedule, with what it violated at its end."""
    cluster = LocalReplicaCluster(seed)
    cluster.trace = []
    try:
        cluster.run()
    except AssertionError as violation:
        cluster.say("VIOLATION: {}", violation)
    return "\n".join(cluster.trace)
