"""Random schedules of a partition among four brokers, with the real controller: replication_model.py, whole.

What was modelled there is real here, too: registration and fencing, elections, the checks on ISR proposals, eligible
leader replicas (KIP-966), reassignment (KIP-455), and controllers that take over from one another. Machines lose power:
a replica loses any part of its log, and nobody knows before its broker registers again (or is fenced meanwhile).

Promise P2 bounds that: at most ``min.insync.replicas`` - 1 brokers lose power at a time. "At a time" ends when the ISR,
without them, has the minimum again. Processes may be killed at any time, in any number (P1).

Invariants, beside those of replication_model.py:

* everybody in the controller's ISR **and** ELR has every committed record, unless it lost power and has not registered
  since;
* a leader is in the ISR; there is no ELR while the ISR has the minimum; epochs do not go back;
* in the end the reassignment that was asked for last is complete, and all its replicas are equal.
"""

from __future__ import annotations

import random
from uuid import UUID

from replication_model import Cluster, ViolationError

from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.controller import Controller
from minikafka.metadata.controller.elections import ElectionType
from minikafka.metadata.image import EMPTY_IMAGE
from minikafka.model import NO_EPOCH, NO_NODE, TopicPartition
from minikafka.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

BROKERS = (0, 1, 2, 3)
FIRST_REPLICAS = (0, 1, 2)
WHERE = TopicPartition("t", 0)
LISTENERS = [Listener(name="CLIENT", host="h", port=1)]
CONFIG = BrokerConfig({})
TARGETS = ((0, 1, 2), (1, 2, 3), (3, 0, 1), (2, 3, 0), (0, 1), (3, 2), (2, 1), (3,), (0,))


class View:
    """One committed image, as brokers look at it."""

    __slots__ = ("brokers", "image", "partition", "stopping")

    def __init__(self, image):
        self.image = image
        self.partition = image.topics_by_name["t"].partitions[0]
        self.brokers = image.brokers

    leader = property(lambda self: self.partition.leader)
    leader_epoch = property(lambda self: self.partition.leader_epoch)
    partition_epoch = property(lambda self: self.partition.partition_epoch)
    isr = property(lambda self: self.partition.isr)
    replicas = property(lambda self: self.partition.replicas)
    elr = property(lambda self: self.partition.elr)
    unclean_leader_epoch = property(lambda self: self.partition.unclean_leader_epoch)

    @property
    def fenced(self):
        return {broker_id for broker_id, broker in self.brokers.items() if broker.fenced}


def first_images(controller_type):
    """What every schedule begins with, by ``min.insync.replicas``: four live brokers, and a partition on three."""
    images = {}
    for minimum in (1, 2):
        controller = controller_type(EMPTY_IMAGE)
        for broker_id in BROKERS:
            controller.register(broker_id, NO_EPOCH)
            controller.heartbeat(broker_id, controller.image.broker(broker_id).broker_epoch, controller.image.offset)
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(FIRST_REPLICAS))],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(minimum))],
        )
        result = controller.ask(CreateTopicsRequest(topics=[topic])).topics[0]
        assert not result.error_code, result
        images[minimum] = controller.image
    return images


class RealController:
    """The controller with its log of committed images. What it writes is committed at once."""

    def __init__(self, image):
        self.image = image
        self.log = []
        self.incarnations = image.offset + 100  # none that the image has
        self.epoch = image.epoch
        self.now_ms = 0
        self.take_over()

    @property
    def now(self):
        return self.log[-1]

    def take_over(self):
        """Another controller becomes active, from what is committed."""
        self.epoch += 1
        self.machine = Controller(1, "c", CONFIG, random.Random(self.epoch))
        self.machine.activate(self.image, self.epoch, self.now_ms)
        self._commit()

    def ask(self, request):
        self.now_ms += 1
        response = self.machine.handle(request, self.now_ms).response
        self._commit()
        return response

    def _commit(self):
        if self.machine.image is not self.image or not self.log:
            self.image = self.machine.image
            if "t" in self.image.topics_by_name:
                self.log.append(View(self.image))

    def register(self, broker_id, previous_broker_epoch):
        """The new broker epoch."""
        self.incarnations += 1
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="c",
            incarnation_id=UUID(int=self.incarnations),
            listeners=LISTENERS,
            previous_broker_epoch=previous_broker_epoch,
            **self.registration_of(broker_id),
        )
        return self.ask(request).broker_epoch

    def registration_of(self, _broker_id):
        """What a broker says besides."""
        return {}

    def heartbeat(self, broker_id, broker_epoch, offset, **wishes):
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=broker_epoch, current_metadata_offset=offset, **wishes
        )
        return self.ask(request)

    def fence(self, broker_id):
        self.now_ms += 1
        self.machine.fence_gone(broker_id, self.image.broker(broker_id).broker_epoch, self.now_ms)
        self._commit()

    def move_leader(self, _node_id):
        topics = [TopicPartitions(topic=WHERE.topic, partitions=[WHERE.partition])]
        self.ask(ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=topics))

    def reassign(self, replicas):
        target = None if replicas is None else list(replicas)
        partition = ReassignablePartition(partition_index=0, replicas=target)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[partition])])
        return ErrorCode(self.ask(request).responses[0].partitions[0].error_code)

    def alter_partition(self, proposal, proposer, broker_epoch):
        """(error, isr, partition epoch)."""
        change = AlterPartitionData(
            partition_index=0,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.new_isr
            ],
        )
        topic = AlterPartitionTopic(topic_id=self.image.topics_by_name["t"].topic_id, partitions=[change])
        request = AlterPartitionRequest(broker_id=proposer, broker_epoch=broker_epoch, topics=[topic])
        try:
            result = self.ask(request).topics[0].partitions[0]
        except KafkaError as error:
            return error.code, None, None
        return ErrorCode(result.error_code), tuple(result.isr), result.partition_epoch


FIRST_IMAGES = first_images(RealController)


class PartitionCluster(Cluster):
    """One schedule."""

    node_ids = BROKERS

    def __init__(self, seed):
        self.powerless = set()  # lost power and have not registered since
        self.lost = set()  # lost power since the ISR had the minimum without them
        self.judged = None  # the image that the controller was judged by last
        super().__init__(seed)

    def controller_type(self):
        controller = RealController(FIRST_IMAGES[self.min_insync_replicas])
        for node_id in BROKERS:
            controller.heartbeat(node_id, controller.image.broker(node_id).broker_epoch, controller.image.offset)
        return controller

    def _swarm(self):
        for node in self.nodes:
            node.applied = 0
            node.broker_epoch = self.controller.image.broker(node.id).broker_epoch
        return {
            **super()._swarm(),
            self.reassign: self._fault(3),
            self.cancel_reassignment: self._fault(2),
            self.change_controller: self._fault(3),
            self.heartbeat: self._weight(4, 16),
            self.shut_down: self._fault(3),
        }

    # -- actions ----------------------------------------------------------------------------------------------------

    def reassign(self):
        target = self.pick([target for target in TARGETS if len(target) >= self.min_insync_replicas])
        error = self.controller.reassign(target)
        self.say("reassign to {}: {}", target, error.name)

    def cancel_reassignment(self):
        error = self.controller.reassign(None)
        self.say("cancel the reassignment: {}", error.name)

    def change_controller(self):
        self.say("the controller is replaced")
        self.controller.take_over()

    def heartbeat(self):
        """A broker says how far it is with the metadata."""
        node = self.pick([node for node in self.nodes if node.alive])
        if node is not None:
            self.beat(node)

    def beat(self, node, **wishes):
        offset = self.controller.log[node.applied].image.offset
        return self.controller.heartbeat(node.id, node.broker_epoch, offset, **wishes)

    def shut_down(self):
        """A broker asks to be stopped, again and again until it may."""
        node = self.pick([node for node in self.nodes if node.alive])
        if node is not None and self.beat(node, want_shut_down=True).should_shut_down:
            self.say("n{} stops in order", node.id)
            self.end(node)
            node.checkpoint = node.log.high_watermark

    def session_expires(self):
        """The controller has not heard of a broker for too long, dead or not."""
        node = self.pick([node for node in self.nodes if node.id not in self.controller.now.fenced])
        if node is not None and (not node.alive or self.random() < 0.3):
            self.say("n{} is fenced", node.id)
            self.controller.fence(node.id)

    def crash(self):
        """The process is killed; its log stays, its high watermark is as old as the checkpoint."""
        node = self.pick([node for node in self.nodes if node.alive])
        if node is not None:
            self.say("n{} crashes", node.id)
            node.checkpoint = int(self.random() * (self.high_watermark_of(node) + 1))
            self.end(node)

    def lose_power(self):
        """A machine stops, with any part of its log; as many of them as P2 allows."""
        more = len(self.lost) < self.min_insync_replicas - 1
        node = self.pick([node for node in self.nodes if node.alive and (more or node.id in self.lost)])
        if node is not None:
            self.lost.add(node.id)
            self.powerless.add(node.id)
            node.log.truncate_to(max(int(self.random() * (node.log.log_end_offset + 1)), self.durable_end(node)))
            node.checkpoint = 0
            self.end(node)
            self.checked = None
            self.say("n{} loses power, its log now ends at {}", node.id, node.log.log_end_offset)

    @staticmethod
    def durable_end(_node):
        """What no power cut takes away."""
        return 0

    @staticmethod
    def end(node):
        node.alive = False
        node.reset()

    def start(self, node):
        """It registers, if its former process is not believed alive, and acts on metadata from its registration on."""
        try:
            node.broker_epoch = self.controller.register(node.id, self.previous_broker_epoch(node))
        except KafkaError as error:
            if error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                raise
            return
        self.powerless.discard(node.id)
        node.alive = True
        node.applied = len(self.controller.log) - 1
        self.say("n{} starts, epoch {}", node.id, node.broker_epoch)
        self.apply_metadata(node)

    def previous_broker_epoch(self, node):
        """Whose records are all there."""
        return NO_EPOCH if node.id in self.powerless else node.broker_epoch

    # -- roles ------------------------------------------------------------------------------------------------------

    def apply_metadata(self, node):
        if node.id in self.controller.log[node.applied].replicas:
            super().apply_metadata(node)
            return
        node.metadata = self.controller.log[node.applied]
        if node.replica is not None or node.log.records:
            self.say("n{} deletes its replica", node.id)
            if node.replica is not None:
                self.carry_out(node, node.replica.on_removed())
            node.replica = node.fetcher = node.token = node.proposing = None
            node.log = self.new_log()
            node.checkpoint = 0
            self.checked = None

    def is_eligible(self, node, replica_id, broker_epoch):
        broker = node.metadata.brokers[replica_id]
        return not broker.fenced and not broker.in_controlled_shutdown and broker_epoch == broker.broker_epoch

    # -- invariants -------------------------------------------------------------------------------------------------

    def check(self):
        now, committed = self.controller.now, self.committed
        length = len(committed)
        if self.checked == (now, length):
            return
        self.checked = now, length
        if now is not self.judged:
            self.judged = now
            self.check_controller(now.partition)
        for node_id in now.isr + now.partition.elr:
            if node_id not in self.powerless and self.nodes[node_id].log.records[:length] != committed:
                place = "ISR" if node_id in now.isr else "ELR"
                raise ViolationError(f"n{node_id} is in the true {place} and lacks committed records")
        if len([member for member in now.isr if member not in self.powerless]) >= self.minimum(now.partition):
            self.lost &= self.powerless

    def minimum(self, partition):
        return min(self.min_insync_replicas, len(partition.original_replicas))

    def check_controller(self, partition):
        if partition.leader != NO_NODE and partition.leader not in partition.isr:
            raise ViolationError(f"n{partition.leader} leads and is not in the ISR {partition.isr}")
        if partition.elr and len(partition.isr) >= self.minimum(partition):
            raise ViolationError(f"ELR {partition.elr} beside the ISR {partition.isr}")
        if not {*partition.isr, *partition.elr} <= {*partition.replicas}:
            raise ViolationError(f"ISR {partition.isr} or ELR {partition.elr} beyond the replicas {partition.replicas}")
        before = self.controller.log[-2].partition if len(self.controller.log) > 1 else partition
        if before.is_reassigning and not partition.is_reassigning:
            self.say("the controller completes the reassignment to {}", partition.replicas)
        if partition.leader in before.elr:
            self.say("n{} is elected from the ELR", partition.leader)
        if (partition.leader_epoch, partition.partition_epoch) < (before.leader_epoch, before.partition_epoch):
            raise ViolationError("epochs go back")

    # -- the end ----------------------------------------------------------------------------------------------------

    def bring_up(self, node):
        if not node.alive:
            self.controller.fence(node.id)  # the session of its former process ends
            self.start(node)

    def settle_round(self):
        for node in self.nodes:
            while node.applied < len(self.controller.log) - 1:
                node.applied += 1
                self.apply_metadata(node)
            self.settle_heartbeat(node)
        super().settle_round()

    def settle_heartbeat(self, node):
        broker = self.controller.image.broker(node.id)
        if broker.in_controlled_shutdown:  # nobody stops any more: it starts anew instead
            self.crash_of(node)
            self.controller.fence(node.id)
            self.start(node)
        self.beat(node)

    def crash_of(self, node):
        node.checkpoint = self.high_watermark_of(node)
        self.end(node)

    def is_settled(self):
        return not self.controller.now.partition.is_reassigning and super().is_settled()


def run(seed):
    """Run one schedule; raises what it violated."""
    PartitionCluster(seed).run()


def trace_of(seed):
    """Every step of a schedule, with what it violated at its end."""
    cluster = PartitionCluster(seed)
    cluster.trace = []
    try:
        cluster.run()
    except AssertionError as violation:
        cluster.say("VIOLATION: {}", violation)
    return "\n".join(cluster.trace)
