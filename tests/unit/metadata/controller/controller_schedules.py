"""The controller under random schedules, with a small model of replication around it.

One partition on brokers 1 to 4. Brokers are killed (their logs stay), lose power (what they had not synced goes) and
return; logs go bad between two starts, or an older copy of all disks is put back; log directories fail, are repaired or
replaced; brokers replay metadata late, fetch, and propose ISRs whose messages are delivered late or never; the
partition is reassigned; ``min.insync.replicas`` changes; controllers are replaced; time passes.
``controller_invariants`` says what must hold after every step. Above all, *whoever is in ISR or ELR has every
acknowledged record*, so whoever is elected from them loses nothing; and who is elected from outside of them is so only
when all of them lost theirs, or uncleanly by request.

In the end all processes are killed. Either one that has everything returns alone, and must lead; or all return, and the
partition must have a leader again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import controller_requests as ask
from controller_brokers import POWER_LOST, Broker, Entry, Proposal
from controller_cluster import Cluster
from controller_invariants import (
    check_change,
    check_complete,
    check_completion,
    check_reassignment,
    check_served,
    check_state,
    lossy_election,
)

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.controller.elections import ElectionType
from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.metadata.snapshot import snapshot_records
from minikafka.model import NO_NODE, UNASSIGNED_DIRECTORY, Endpoint, OffsetAndEpoch, TopicPartition
from minikafka.wire.schema import Message

WHERE = TopicPartition("t", 0)
IDS = (1, 2, 3, 4)
STEPS = 300
LISTENERS = {"CLIENT": Endpoint("localhost", 1)}
MIN_INSYNC_REPLICAS = "min.insync.replicas"
SESSION_MS = 3000

WAIT_FOR_METADATA = {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NOT_CONTROLLER}


class Model:
    """Brokers around a controller."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.cluster = Cluster()
        self.cluster.is_encoding = seed % 16 == 0
        self.is_calm = seed % 3 == 0  # nothing is ever lost: long lives without an election that loses records
        self.syncs = seed % 5 == 4  # flush.messages=1: what is acknowledged is synced
        self.is_damaging = seed % 4 == 1 and not self.is_calm  # logs go bad between two starts
        self.is_restoring = seed % 8 == 6 and not self.is_calm  # older copies of disks are put back
        self.brokers = {broker_id: Broker(broker_id) for broker_id in IDS}
        self.images: list[MetadataImage] = []
        self.network: list[tuple[Broker, Proposal]] = []
        self.acknowledged: list[Entry] = []
        self.numbers = self.lossy_elections = self.reassignments = 0
        self.lossy_epoch = 0  # since which records count that are acknowledged
        self.is_lossy = False  # nobody leads yet who lost nothing
        self.is_asked = False  # a reassignment was asked for in this step
        self.is_gone = False  # a replica is for good, and may have been the last
        self.told: set[int] = set()  # brokers that were said, in this step, to have lost records
        self.answer: Any = None
        self._begin(rng.choice((1, 2)))

    def _begin(self, directories: int) -> None:
        for broker in self.brokers.values():
            broker.directories = [UUID(int=100 * broker.broker_id + number) for number in range(directories)]
            self._register(broker)
            self.cluster.heartbeat(broker.broker_id)
        configs = {MIN_INSYNC_REPLICAS: str(self.rng.choice((1, 2, 2, 3)))} | (
            {"flush.messages": "1"} if self.syncs else {}
        )
        replicas = tuple(self.rng.sample(IDS, 3))
        self.cluster.create("t", replicas, configs=tuple(tuple(one) for one in configs.items()))
        self.target = replicas
        self.images.append(self.cluster.image)
        for broker in self.brokers.values():
            broker.begins = 0
            self._act(broker)
        self.cluster.records.clear()
        self.told.clear()

    # -- what happens -----------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        usual = [
            *[self.append] * 8,
            *[self.fetch] * 36,
            *[self.propose] * 8,
            *[self.deliver] * 10,
            *[self.replay] * 32,
            *[self.heartbeat] * 20,
            *[self.restart] * 10,
            *[self.fence] * 2,
            *[self.time_passes] * 2,
            *[self.sync] * 3,
            *[self.place] * 3,
            *[self.kill, self.drop],
        ]
        rare: list[Callable[[], None]] = [
            *[self.reassign] * 5,
            *[self.kill_all, self.stop, self.freeze, self.set_minimum] * 2,
            *[self.set_minimum] * 2,
            self.rebalance,
        ]
        if not self.is_calm:
            rare += [*[self.lose_power, self.fail_directory] * 2, self.unregister, self.elect_uncleanly]
        if self.is_restoring:
            usual += [self.kill_all] * 2  # several lives each, the last of them in ISR or ELR
        for _ in range(steps):
            self.step(self.rng.choice(rare if self.rng.random() < 0.03 else usual))

    def step(self, act: Callable[[], None]) -> None:
        act()
        self.images.append(self.cluster.image)
        self.check()
        if self.is_restoring:
            self._keep_copies()

    def _keep_copies(self) -> None:
        for broker in self.brokers.values():
            known = self.cluster.image.broker(broker.broker_id)
            if known is not None and not known.fenced:
                broker.lived = known.broker_epoch
            if self.rng.random() < 0.05:
                broker.keep_copy()

    def check(self) -> None:
        old, new = self.images[-2].partition(WHERE), self.images[-1].partition(WHERE)
        assert old is not None
        assert new is not None
        records, self.cluster.records = self.cluster.records, []
        excused = {one for one in IDS if self.brokers[one].lost} | self.told
        lossy = lossy_election(old, records, excused)
        self.told.clear()
        if lossy is not None:
            self.lossy_elections += 1
            self.lossy_epoch, self.is_lossy = new.leader_epoch, True
        check_state(self.cluster, new, self._minimum(self.cluster.image))
        check_change(old, new)
        check_reassignment(new, self.target)
        check_served(self.cluster, old, new)
        if not self.is_asked:
            check_completion(old, records)
        self.is_asked = False
        if not self.is_lossy:
            check_complete(self.brokers, new, self.acknowledged)

    def any_broker(self) -> Broker:
        return self.brokers[self.rng.choice(IDS)]

    def partition(self, broker: Broker) -> PartitionImage:
        partition = self.images[broker.view].partition(WHERE)
        assert partition is not None
        return partition

    def current(self) -> PartitionImage:
        return self.cluster.partition()

    @staticmethod
    def _minimum(image: MetadataImage) -> int:
        return int(image.topic_overrides("t")[MIN_INSYNC_REPLICAS])

    def is_leader(self, broker: Broker) -> bool:
        return broker.takes_part and self.partition(broker).leader == broker.broker_id

    # -- metadata ---------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        broker = self.any_broker()
        if broker.up:
            broker.view = self.rng.randint(broker.view, len(self.images) - 1)
            self._act(broker)

    def _act(self, broker: Broker) -> None:
        """Bring the replica in line with what the broker has replayed."""
        partition = self.partition(broker)
        if not broker.up or broker.view < broker.begins:
            return
        if broker.broker_id not in partition.replicas:
            broker.make_log(None)
        elif broker.placed is None:
            self._create(broker, partition.directory_id_of(broker.broker_id))
        if self.is_leader(broker):
            self._lead(broker, partition)

    def _create(self, broker: Broker, assigned: UUID) -> None:
        """A replica whose directory failed is not made anew elsewhere."""
        if assigned in broker.online:
            broker.make_log(assigned)
        elif assigned == UNASSIGNED_DIRECTORY or not broker.failed:
            broker.make_log(self.rng.choice(broker.online))

    def _lead(self, broker: Broker, partition: PartitionImage) -> None:
        broker.minimum = self._minimum(self.images[broker.view])  # settings before states
        if partition.leader_epoch != broker.led_epoch:
            broker.lead(partition.leader_epoch)
            if self.is_lossy and partition.leader_epoch >= self.lossy_epoch:
                pairs = zip(broker.log, self.acknowledged, strict=False)
                kept = next(
                    (i for i, (a, b) in enumerate(pairs) if a != b), min(len(broker.log), len(self.acknowledged))
                )
                del self.acknowledged[kept:]
                broker.high_watermark = min(broker.high_watermark, kept)
                self.is_lossy = False
        if broker.commit(partition.isr, partition.partition_epoch):
            broker.replicas = partition.replicas
            broker.fetched = {one: at for one, at in broker.fetched.items() if one in partition.replicas}

    # -- records ----------------------------------------------------------------------------------------------------

    def append(self) -> None:
        for broker in self.brokers.values():  # a replaced leader, too, that has not heard of it yet
            if self.is_leader(broker):
                self.numbers += 1
                self._store(broker, [(broker.led_epoch, self.numbers)])
                self._acknowledge(broker)

    def _store(self, broker: Broker, entries: list[Entry]) -> None:
        broker.log += entries
        if self.syncs:
            broker.synced = len(broker.log)

    def fetch(self) -> None:
        follower = self.any_broker()
        view = self.partition(follower)
        leader = self.brokers.get(view.leader)
        if not follower.takes_part or leader is None or leader is follower or not self.is_leader(leader):
            return
        if leader.led_epoch != view.leader_epoch or follower.broker_id not in leader.replicas:
            return  # fenced by leader epoch, or not a replica to the leader
        if follower.broker_epoch < leader.fetched.get(follower.broker_id, (0, -1))[1]:
            return
        common = next(
            (i for i, (a, b) in enumerate(zip(follower.log, leader.log, strict=False)) if a != b),
            min(len(follower.log), len(leader.log)),
        )
        follower.cut(common)
        leader.fetched[follower.broker_id] = (len(follower.log), follower.broker_epoch)
        self._acknowledge(leader)
        self._store(follower, leader.log[common : common + self.rng.randint(1, 3)])
        follower.high_watermark = min(len(follower.log), leader.high_watermark)

    def _acknowledge(self, leader: Broker) -> None:
        """What is below the high watermark is acknowledged."""
        leader.high_watermark = leader.committed_end()
        if leader.led_epoch < self.lossy_epoch or self.is_lossy:
            return  # what a leader from before an unclean election still acknowledges is lost with it
        below = leader.log[: leader.high_watermark]
        shorter = min(len(below), len(self.acknowledged))
        assert below[:shorter] == self.acknowledged[:shorter], "an acknowledged record was replaced"
        if len(below) > len(self.acknowledged):
            self.acknowledged = below

    def sync(self) -> None:
        broker = self.any_broker()
        broker.synced = len(broker.log)

    # -- proposals --------------------------------------------------------------------------------------------------

    def propose(self) -> None:
        leader = self.any_broker()
        if not self.is_leader(leader):
            return
        if leader.proposed:
            leader.proposed.sent += 1  # no answer came: once more
            self.network.append((leader, leader.proposed))
            return
        isr = set(leader.isr)
        others = [one for one in leader.replicas if one != leader.broker_id]
        if not others:
            return
        other = self.rng.choice(others)
        if other in isr:
            if self.rng.random() < 0.3:
                isr.remove(other)
        elif leader.may_join(other):
            isr.add(other)
        self._send(leader, isr, counted=isr)

    def _send(self, leader: Broker, isr: set[int], counted: set[int]) -> None:
        members = tuple(ask.member(one, leader.epoch_of(one)) for one in sorted(isr))
        topic_id = self.images[0].topics_by_name["t"].topic_id
        change = ask.proposal(topic_id, 0, leader.led_epoch, leader.partition_epoch, members)
        leader.proposed = Proposal(leader.broker_epoch, change, counted)
        self.network.append((leader, leader.proposed))

    def deliver(self) -> None:
        """Some proposal arrives; its answer may get lost."""
        if not self.network:
            return
        sender, proposal = self.network.pop(self.rng.randrange(len(self.network)))
        request = ask.propose(sender.broker_id, proposal.broker_epoch, proposal.change)
        refused = not self._ask(request)
        error = ErrorCode.STALE_BROKER_EPOCH if refused else ErrorCode.of(ask.proposed(self.answer)[0].error_code)
        if sender.proposed is not proposal or self.rng.random() < 0.2:
            return
        if error is ErrorCode.NONE:
            result = ask.proposed(self.answer)[0]
            sender.commit(tuple(result.isr), result.partition_epoch, is_answer=True)
        elif error not in WAIT_FOR_METADATA:
            if proposal.sent == 1:
                sender.proposed = None
            else:  # another copy may be accepted yet, unless a proposal that changes nothing comes first
                self._send(sender, set(sender.isr), proposal.counted)

    def drop(self) -> None:
        if self.network:
            self.network.pop()

    # -- brokers come and go ----------------------------------------------------------------------------------------

    def heartbeat(self, **wishes: bool) -> None:
        broker = self.any_broker()
        if broker.up:
            self._heartbeat(broker, **wishes)

    def _heartbeat(self, broker: Broker, **wishes: bool) -> None:
        offset, failed = self.images[broker.view].offset, tuple(sorted(broker.failed))
        heartbeat = ask.heartbeat(broker.broker_id, broker.broker_epoch, offset, offline_log_dirs=failed, **wishes)
        if self._ask(heartbeat) and broker.placed in broker.failed:
            partition = self.current()
            told = partition.directory_id_of(broker.broker_id) == broker.placed
            assert not told or partition.leader != broker.broker_id, "leads on a directory that failed"

    def stop(self) -> None:
        self.heartbeat(want_shut_down=True)

    def fence(self) -> None:
        """Somebody finds the port of a broker refused; once in a while wrongly."""
        broker = self.any_broker()
        if not broker.up or self.rng.random() < 0.1:
            self.cluster.now_ms += 1
            self.cluster.fence_gone(broker.broker_id, self.cluster.epochs[broker.broker_id])

    def kill(self) -> None:
        self.any_broker().forget()

    def kill_all(self) -> None:
        for broker in self.brokers.values():
            broker.forget()
        self.cluster.fail_over()

    def lose_power(self) -> None:
        """A machine, or all of them."""
        for broker in self.rng.choice((list(self.brokers.values()), [self.any_broker()])):
            broker.forget()
            broker.memory = min(broker.memory, POWER_LOST)
            self._lose(broker, self.rng.randint(broker.synced, len(broker.log)))

    @staticmethod
    def _lose(broker: Broker, end: int) -> None:
        if end < len(broker.log):
            broker.cut(end)
            broker.lost = True

    def restart(self) -> None:
        broker = self.any_broker()
        if not broker.up:
            for directory in sorted(broker.failed):
                self.rng.choice((self._repair, self._replace, lambda *_: None))(broker, directory)
            self._start(broker)

    def _repair(self, broker: Broker, directory: UUID) -> None:
        """What a directory that failed shows when it works again."""
        broker.failed.remove(directory)
        if broker.placed == directory:
            self._lose(broker, self.rng.randint(broker.synced, len(broker.log)))

    def _replace(self, broker: Broker, directory: UUID) -> None:
        broker.failed.remove(directory)
        broker.directories[broker.directories.index(directory)] = UUID(int=self.rng.randrange(1 << 64) + 1000)
        if broker.placed == directory:
            broker.make_log(None)
            broker.lost = self.is_gone = True

    def _start(self, broker: Broker) -> None:
        """A new process with the log and the copy of the metadata log that the old one left."""
        if self.is_damaging and broker.log and self.rng.random() < 0.2:
            broker.cut(self.rng.randrange(len(broker.log)))
            broker.lost = broker.damaged = True
        if self.is_restoring and self.rng.random() < 0.5:
            broker.put_copy_back(is_other_boot=self.rng.random() < 0.5)
        if broker.online and self._register(broker):
            broker.synced = len(broker.log)
            broker.up, broker.begins = True, len(self.images)

    def _register(self, broker: Broker) -> bool:
        self.cluster.incarnations += 1
        is_whole = broker.placed in broker.online and broker.placed not in broker.forgotten and not broker.damaged
        topics = self.cluster.image.topics() if is_whole else ()
        request = ask.register(
            LISTENERS,
            broker_id=broker.broker_id,
            cluster_id="cluster",
            incarnation_id=UUID(int=self.cluster.incarnations),
            log_dirs=tuple(broker.online),
            previous_broker_epoch=broker.memory,
            recorded_broker_epoch=broker.recorded,
            synced_topics=tuple(one.topic_id for one in self.cluster.image.topics()) if self.syncs else (),
            whole=tuple(ask.whole(topic.topic_id, 0) for topic in topics),
        )
        if not self._ask(request):
            return False
        self.cluster.epochs[broker.broker_id] = self.answer.broker_epoch
        if broker.memory < 0 or not is_whole or broker.is_copy:
            self.told.add(broker.broker_id)
        broker.damaged = False
        broker.lost = broker.placed in broker.failed
        if self.rng.random() < 0.1 and len(self.images) > 1:
            return False  # killed before it wrote its registration down
        broker.is_copy = False
        broker.forgotten.clear()
        broker.broker_epoch = broker.memory = broker.recorded = self.answer.broker_epoch
        return True

    def unregister(self) -> None:
        broker = self.any_broker()
        if not broker.up and self._ask(ask.unregister(broker.broker_id)):
            self.told.add(broker.broker_id)
            self.is_gone = True

    def time_passes(self) -> None:
        for _ in range(self.rng.randrange(20)):
            self._tick(100)
            if self.rng.random() < 0.5:
                self.heartbeat()

    def freeze(self) -> None:
        """Nobody is heard for longer than a session, though all are alive."""
        for _ in range(40):
            self._tick(100)

    def _tick(self, milliseconds: int) -> None:
        self.cluster.now_ms += milliseconds
        self.cluster.log(self.cluster.controller.tick(self.cluster.now_ms))

    # -- directories ------------------------------------------------------------------------------------------------

    def fail_directory(self) -> None:
        broker = self.any_broker()
        if broker.up:
            directory = self.rng.choice(broker.directories)
            broker.failed.add(directory)
            broker.forgotten.add(directory)
            broker.lost |= broker.placed == directory
            if not broker.online:
                broker.forget()

    def place(self) -> None:
        """A broker tells where its replica is; sometimes it has moved it before."""
        broker = self.any_broker()
        if not broker.up or broker.view < broker.begins or broker.placed is None:
            return
        if broker.takes_part and self.rng.random() < 0.2:
            broker.placed = self.rng.choice(broker.online)
        topic_id = self.images[0].topics_by_name["t"].topic_id
        assignment = ask.placed(topic_id, 0, broker.placed)
        self._ask(ask.assign(broker.broker_id, broker.broker_epoch, assignment))

    # -- administration ---------------------------------------------------------------------------------------------

    def reassign(self) -> None:
        live = [broker.broker_id for broker in self.cluster.image.live_brokers()]
        wish = None
        if live and self.rng.random() < 0.8:
            wish = tuple(self.rng.sample(live, self.rng.randint(1, min(3, len(live)))))
        present, self.is_asked = self.current(), True
        original = tuple(one for one in present.replicas if one not in present.adding_replicas)
        topic = ask.wish("t", (0, wish))
        if self._ask(ask.reassign(topic)):
            result = self.answer.responses[0].partitions[0]
            if not result.error_code:
                self.reassignments += 1
                self.target = original if wish is None else wish

    def set_minimum(self) -> None:
        operation = (MIN_INSYNC_REPLICAS, AlterConfigOp.SET, str(self.rng.randint(1, 3)))
        alteration = ask.change(ConfigResourceType.TOPIC, "t", operation)
        self._ask(ask.alter(alteration))

    def rebalance(self) -> None:
        self._ask(ask.elect(ElectionType.PREFERRED, (WHERE,)))

    def elect_uncleanly(self) -> None:
        self.told.update(IDS)
        self._ask(ask.elect(ElectionType.UNCLEAN, (WHERE,)))

    def _ask(self, request: Message) -> bool:
        self.cluster.now_ms += 1
        try:
            self.answer = self.cluster.ask(request)
        except KafkaError:
            return False
        return True

    # -- the end ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """All are killed; one with everything returns, or all do."""
        self.step(self.kill_all)
        self.is_damaging = self.is_restoring = False
        partition = self.current()
        complete = [one for one in (*partition.isr, *partition.elr) if self._is_whole(self.brokers[one])]
        alone = [self.rng.choice(complete)] if complete and self.rng.random() < 0.7 else []
        self._return(alone or IDS)
        partition = self.current()
        if alone:
            assert partition.leader == alone[0], f"{alone[0]} returned alone, and has everything"
        elif not self.is_gone:
            assert partition.leader != NO_NODE, "all returned"

    @staticmethod
    def _is_whole(broker: Broker) -> bool:
        is_claimed = broker.placed not in broker.forgotten and broker.memory >= 0
        return is_claimed and not broker.lost and not broker.is_copy and not broker.failed

    def _return(self, back: tuple[int, ...] | list[int]) -> None:
        for broker_id in back:
            broker = self.brokers[broker_id]
            for directory in sorted(broker.failed):
                self._repair(broker, directory)
            while not broker.up:
                self.step(lambda broker=broker: self._start(broker))
                self.step(lambda: self._tick(100))
        for _ in range(SESSION_MS // 100 + 5):
            for broker_id in back:
                broker = self.brokers[broker_id]
                broker.view = len(self.images) - 1
                self._act(broker)
                self.step(lambda broker=broker: self._heartbeat(broker))
                self.step(lambda broker=broker: self._place_all(broker))
            self.step(lambda: self._tick(100))

    def _place_all(self, broker: Broker) -> None:
        assigned = self.current().directory_id_of(broker.broker_id)
        if broker.placed is not None and assigned not in (UNASSIGNED_DIRECTORY, broker.placed):
            topic_id = self.images[0].topics_by_name["t"].topic_id
            assignment = ask.placed(topic_id, 0, broker.placed)
            self._ask(ask.assign(broker.broker_id, broker.broker_epoch, assignment))

    def check_log(self) -> None:
        """The image is what the log says, also by way of a snapshot."""
        image = self.cluster.image
        assert replay_records(EMPTY_IMAGE, snapshot_records(image), OffsetAndEpoch(image.offset, image.epoch)) == image


def run(seed: int, steps: int = STEPS) -> Model:
    """One schedule; raises AssertionError when an invariant breaks."""
    model = Model(seed)
    model.run(steps)
    model.end()
    model.check_log()
    return model
