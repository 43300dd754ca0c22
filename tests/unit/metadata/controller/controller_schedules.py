"""The controller under random schedules, with a small model of replication around it.

One partition on three brokers. Brokers crash (``kill -9``: logs stay) and return, replay metadata late, fetch, and
propose ISRs whose messages are delivered late or never; controllers are replaced; time passes. After every step:

* the leader is a live member of the ISR or there is none, the ISR is part of the assignment and never empty, epochs do
  not go back, and while somebody in sync is available nobody unavailable is in the ISR;
* *everybody in the ISR has every acknowledged record*: whoever is elected from it loses nothing (promise P1).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from controller_cluster import Cluster

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller import commands as ask
from minikafka.metadata.controller.state import Standing
from minikafka.metadata.image import MetadataImage, PartitionImage
from minikafka.metadata.snapshot import load_snapshot, snapshot_records
from minikafka.model import NO_NODE, Endpoint, OffsetAndEpoch, TopicPartition

WHERE = TopicPartition("t", 0)
IDS = (1, 2, 3)
STEPS = 300
LISTENERS = {"CLIENT": Endpoint("localhost", 1)}

Entry = tuple[int, int]  # (leader epoch, number)


WAIT_FOR_METADATA = {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NOT_CONTROLLER}


@dataclass
class Proposal:
    """An ISR on its way to the controller, once or more often; ``counted`` may be in sync until it is settled."""

    broker_epoch: int
    change: ask.IsrChange
    counted: set[int]
    sent: int = 1


@dataclass
class Broker:
    """A replica as R4, R18 and R21 have it; its view of the metadata may be old.

    A new process acts on metadata from its own registration on: before, it could see itself lead in a former epoch
    with an ISR that its former process had proposed to change, and acknowledge what the added member does not have.
    """

    broker_id: int
    log: list[Entry] = field(default_factory=list)
    view: int = 0
    up: bool = True
    begins: int = 0  # the first view that has its registration
    broker_epoch: int = -1
    led_epoch: int = -1
    epoch_start: int = 0
    high_watermark: int = 0
    fetched: dict[int, tuple[int, int]] = field(default_factory=dict)  # follower: (its log end, its broker epoch)
    isr: tuple[int, ...] = ()  # while leading: as last heard, from metadata or in an answer
    partition_epoch: int = -1
    proposed: Proposal | None = None


class Model:
    """Brokers around a controller."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.brokers = {broker_id: Broker(broker_id) for broker_id in IDS}
        self.images: list[MetadataImage] = []
        self.network: list[tuple[Broker, Proposal]] = []
        self.acknowledged: list[Entry] = []
        self.numbers = 0
        cluster.create("t", IDS)
        self.images.append(cluster.image)
        for broker in self.brokers.values():
            broker.broker_epoch = cluster.epochs[broker.broker_id]
            self.take_view(broker)

    # -- steps ------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        choices = [
            *[self.append] * 8,
            *[self.fetch] * 20,
            *[self.propose] * 5,
            *[self.deliver] * 6,
            *[self.replay] * 20,
            *[self.heartbeat] * 12,
            *[self.restart] * 6,
            *[self.fence] * 2,
            *[self.time_passes] * 2,
            *[self.crash, self.drop],
        ]
        for _ in range(steps):
            self.rng.choice(choices)()
            if self.rng.random() < 0.01:
                self.rng.choice([self.crash_of_all, self.shut_down, self.freeze])()
            self.images.append(self.cluster.image)
            self.check()

    def any_broker(self) -> Broker:
        return self.brokers[self.rng.choice(IDS)]

    def partition(self, broker: Broker) -> PartitionImage:
        partition = self.images[broker.view].partition(WHERE)
        assert partition is not None
        return partition

    def is_leader(self, broker: Broker) -> bool:
        return self.takes_part(broker) and self.partition(broker).leader == broker.broker_id

    @staticmethod
    def takes_part(broker: Broker) -> bool:
        return broker.up and broker.view >= broker.begins

    def replay(self) -> None:
        broker = self.any_broker()
        if broker.up:
            broker.view = self.rng.randint(broker.view, len(self.images) - 1)
            self.take_view(broker)

    def take_view(self, broker: Broker) -> None:
        partition = self.partition(broker)
        if not self.is_leader(broker):
            return
        if partition.leader_epoch != broker.led_epoch:
            broker.led_epoch, broker.epoch_start = partition.leader_epoch, len(broker.log)
            broker.fetched, broker.partition_epoch = {}, -1
        self.commit(broker, partition.isr, partition.partition_epoch)

    @staticmethod
    def commit(leader: Broker, isr: tuple[int, ...], partition_epoch: int, *, is_answer: bool = False) -> None:
        """What is newer, or answers the proposal, settles it."""
        if partition_epoch > leader.partition_epoch or (is_answer and partition_epoch == leader.partition_epoch):
            leader.proposed = None
            leader.isr, leader.partition_epoch = isr, partition_epoch

    def append(self) -> None:
        leaders = [broker for broker in self.brokers.values() if self.is_leader(broker)]
        for broker in leaders:  # a replaced one, too, that has not heard of it yet
            self.numbers += 1
            broker.log.append((broker.led_epoch, self.numbers))
            self.acknowledge(broker)

    def fetch(self) -> None:
        follower = self.any_broker()
        view = self.partition(follower)
        leader = self.brokers.get(view.leader)
        if not self.takes_part(follower) or leader is None or leader is follower or not self.is_leader(leader):
            return
        if leader.led_epoch != view.leader_epoch:
            return  # fenced by leader epoch
        common = next(
            (i for i, (a, b) in enumerate(zip(follower.log, leader.log, strict=False)) if a != b),
            min(len(follower.log), len(leader.log)),
        )
        del follower.log[common:]
        leader.fetched[follower.broker_id] = (len(follower.log), follower.broker_epoch)
        self.acknowledge(leader)
        follower.log += leader.log[common : common + self.rng.randint(1, 3)]
        follower.high_watermark = min(len(follower.log), leader.high_watermark)

    def acknowledge(self, leader: Broker) -> None:
        """The high watermark by the larger ISR; what is below it is acknowledged."""
        isr = set(leader.isr)
        if leader.proposed:
            isr |= leader.proposed.counted
        ends = [leader.fetched.get(member, (0, 0))[0] for member in isr if member != leader.broker_id]
        leader.high_watermark = max(leader.high_watermark, min([len(leader.log), *ends]))
        below = leader.log[: leader.high_watermark]
        shorter = min(len(below), len(self.acknowledged))
        assert below[:shorter] == self.acknowledged[:shorter], "an acknowledged record was replaced"
        if len(below) > len(self.acknowledged):
            self.acknowledged = below

    def propose(self) -> None:
        leader = self.any_broker()
        if not self.is_leader(leader):
            return
        if leader.proposed:
            leader.proposed.sent += 1  # no answer came: once more
            self.network.append((leader, leader.proposed))
            return
        isr = set(leader.isr)
        other = self.rng.choice([one for one in IDS if one != leader.broker_id])
        end = leader.fetched.get(other, (-1, 0))[0]
        if other in isr:
            if self.rng.random() < 0.3:
                isr.remove(other)
        elif end >= max(leader.high_watermark, leader.epoch_start):
            isr.add(other)
        self.send(leader, isr, counted=isr)

    def send(self, leader: Broker, isr: set[int], counted: set[int]) -> None:
        members = tuple(ask.IsrMember(one, self.epoch_of(leader, one)) for one in sorted(isr))
        topic_id = self.images[0].topics_by_name["t"].topic_id
        change = ask.IsrChange(topic_id, 0, leader.led_epoch, leader.partition_epoch, members)
        leader.proposed = Proposal(leader.broker_epoch, change, counted)
        self.network.append((leader, leader.proposed))

    @staticmethod
    def epoch_of(leader: Broker, member: int) -> int:
        return leader.broker_epoch if member == leader.broker_id else leader.fetched.get(member, (0, -1))[1]

    def deliver(self) -> None:
        """Some proposal arrives; its answer may get lost."""
        if not self.network:
            return
        sender, proposal = self.network.pop(self.rng.randrange(len(self.network)))
        command = ask.AlterPartition(sender.broker_id, proposal.broker_epoch, (proposal.change,))
        error = self.answer.partitions[0].error if self.handled(command) else ErrorCode.STALE_BROKER_EPOCH
        if sender.proposed is not proposal or self.rng.random() < 0.2:
            return
        if error is ErrorCode.NONE:
            result = self.answer.partitions[0]
            self.commit(sender, result.isr, result.partition_epoch, is_answer=True)
        elif error not in WAIT_FOR_METADATA:
            if proposal.sent == 1:
                sender.proposed = None
            else:  # another copy may be accepted yet, unless a proposal that changes nothing comes first
                self.send(sender, set(sender.isr), proposal.counted)

    def drop(self) -> None:
        if self.network:
            self.network.pop()

    def heartbeat(self, **wishes: bool) -> None:
        broker = self.any_broker()
        if broker.up:
            offset = self.images[broker.view].offset
            self.handled(ask.BrokerHeartbeat(broker.broker_id, broker.broker_epoch, offset, **wishes))

    def shut_down(self) -> None:
        self.heartbeat(want_shutdown=True)

    def fence(self) -> None:
        """Somebody finds the port of a broker refused; once in a while wrongly."""
        broker = self.any_broker()
        if not broker.up or self.rng.random() < 0.1:
            self.handled(ask.FenceBroker(broker.broker_id, self.cluster.epochs[broker.broker_id]))

    def crash(self) -> None:
        self.any_broker().up = False

    def restart(self) -> None:
        """The process is new, its log and its copy of the metadata log are the old ones."""
        broker = self.any_broker()
        if broker.up:
            return
        broker.led_epoch, broker.fetched, broker.proposed = -1, {}, None
        self.cluster.incarnations += 1
        command = ask.RegisterBroker(broker.broker_id, "cluster", UUID(int=self.cluster.incarnations), LISTENERS)
        if self.handled(command):
            broker.up, broker.begins = True, len(self.images)
            broker.broker_epoch = self.cluster.epochs[broker.broker_id] = self.answer.broker_epoch

    def crash_of_all(self) -> None:
        for broker in self.brokers.values():
            broker.up = False
        self.cluster.fail_over()

    def time_passes(self) -> None:
        for _ in range(self.rng.randrange(20)):
            self.cluster.now_ms += 100
            self.cluster.log(self.cluster.controller.tick(self.cluster.now_ms))
            if self.rng.random() < 0.5:
                self.heartbeat()

    def freeze(self) -> None:
        """Nobody is heard for longer than a session, though all are alive."""
        for _ in range(40):
            self.cluster.now_ms += 100
            self.cluster.log(self.cluster.controller.tick(self.cluster.now_ms))

    def handled(self, command: ask.Command[Any]) -> bool:
        self.cluster.now_ms += 1
        try:
            self.answer = self.cluster.ask(command)
        except KafkaError:
            return False
        return True

    # -- invariants -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        before, image = self.images[-2], self.images[-1]
        old, new = before.partition(WHERE), image.partition(WHERE)
        assert old is not None
        assert new is not None
        assert set(new.isr) <= set(new.replicas), "ISR outside the assignment"
        assert new.isr, "ISR empty"
        assert len(set(new.isr)) == len(new.isr)
        assert new.leader in (NO_NODE, *new.isr), "leader outside the ISR"
        assert new.leader == NO_NODE or image.is_live(new.leader), "leader fenced"
        assert new.leader_epoch >= old.leader_epoch, "leader epoch went back"
        assert new.partition_epoch >= old.partition_epoch, "partition epoch went back"
        assert new == old or new.partition_epoch > old.partition_epoch, "changed in the same partition epoch"
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch, "two leaders of one epoch"
        standing = {one: self.cluster.controller._state.standing(one) for one in IDS}
        if any(standing[member] is Standing.AVAILABLE for member in new.isr):
            assert new.leader != NO_NODE, "somebody could lead"
            assert all(standing[member] is not Standing.UNAVAILABLE for member in new.isr), "HW waits for the dead"
        length = len(self.acknowledged)
        for member in new.isr:
            assert self.brokers[member].log[:length] == self.acknowledged, f"{member} in the ISR lost something"

    def check_log(self) -> None:
        """The image is what the log says, also by way of a snapshot."""
        image = self.cluster.image
        assert load_snapshot(snapshot_records(image), OffsetAndEpoch(image.offset, image.epoch)) == image


def run(seed: int, steps: int = STEPS) -> Model:
    """One schedule; raises AssertionError when an invariant breaks."""
    cluster = Cluster()
    cluster.join(*IDS)
    model = Model(cluster, seed)
    model.run(steps)
    model.check_log()
    return model
