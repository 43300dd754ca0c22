"""Random schedules of three replicas, a controller and a slow, lossy network, around the real machines.

Everything that decides is real: LocalReplica with its LeaderState, ReplicaFetcher, both sides of fetch sessions, the
epoch rules. Modelled
are the logs (in memory), the controller (elections, fencing, the checks on ISR proposals), the committed metadata that
each node applies when the schedule says so, and messages, which are delivered in any order, twice-sent or never.

After every step:

* every member of the true (the controller's) ISR has every committed record, where *committed* is whatever was below
  the high watermark of anyone who presumed to lead; this is "no acknowledged record is lost" and "whoever presumes
  leadership agrees below its high watermark with every member of the true ISR" in one;
* the high watermark of a leader never falls within its epoch;
* no follower finds itself in a state it calls impossible.

At the end everything is brought up and delivered: the replicas must be equal, in sync and fully committed, and know it.
"""

from __future__ import annotations

import random

from replication_log import MemoryLog

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, UNASSIGNED_DIRECTORY, TopicPartition
from minikafka.replication import epochs
from minikafka.replication import replica_effects as do
from minikafka.replication.effects import (
    Append,
    FollowOffsets,
    MarkFailed,
    RestartAt,
    SendFetch,
    SendListOffsets,
    SendOffsetsForLeaderEpoch,
    TruncateTo,
    Wait,
)
from minikafka.replication.fetch_state import FollowedPartition
from minikafka.replication.fetcher import FetcherSettings, ReplicaFetcher
from minikafka.replication.local_replica import HIGH_WATERMARK_MOVED, LocalReplica
from minikafka.replication.replica_facts import CommittedPartition, ReplicaSettings, Surroundings
from minikafka.replication.server_session import Follower, SessionsByPartition
from minikafka.replication.session_cache import FetchSessionCache
from minikafka.wire.messages.fetch import EpochEndOffset as DivergingEpoch
from minikafka.wire.messages.fetch import FetchResponse, PartitionData
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

STEPS = 200
SETTLE_ROUNDS = 100
WHERE = TopicPartition("t", 0)
NODES = (0, 1, 2)
LAG_TIME_MAX_MS = 40
SETTINGS = FetcherSettings(backoff_ms=5)
FETCH_VERSION = 12


class ViolationError(AssertionError):
    """An invariant does not hold; the message names it."""


class Metadata:
    """One committed version of the partition and of the brokers' liveness."""

    __slots__ = ("broker_epochs", "fenced", "isr", "leader", "leader_epoch", "partition_epoch")
    replicas = NODES
    elr = ()
    unclean_leader_epoch = -1

    def __init__(self, leader_id, leader_epoch, partition_epoch, isr, fenced, broker_epochs):
        self.leader = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.fenced = fenced
        self.broker_epochs = broker_epochs

    def but(self, **changes):
        return Metadata(
            changes.get("leader", self.leader),
            changes.get("leader_epoch", self.leader_epoch),
            changes.get("partition_epoch", self.partition_epoch),
            changes.get("isr", self.isr),
            changes.get("fenced", self.fenced),
            changes.get("broker_epochs", self.broker_epochs),
        )


class Controller:
    """The true state: a list of committed versions, the last one being the truth."""

    checks_partition_epoch = True
    checks_broker_epoch = True
    first_leader_epoch = 0

    def __init__(self):
        broker_epochs = dict.fromkeys(NODES, 1)
        self.log = [Metadata(0, self.first_leader_epoch, 0, frozenset(NODES), frozenset(), broker_epochs)]

    @property
    def now(self):
        return self.log[-1]

    def alter_partition(self, proposal, _proposer, _broker_epoch):
        """(error, isr, partition epoch), as the real controller's validation (row R20, KIP-903)."""
        now = self.now
        if proposal.leader_epoch != now.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, None, None
        if self.checks_partition_epoch and proposal.partition_epoch != now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, None, None
        for broker_id, broker_epoch in proposal.new_isr:
            is_stale = self.checks_broker_epoch and broker_epoch not in (-1, now.broker_epochs[broker_id])
            if broker_id in now.fenced or is_stale:
                return ErrorCode.INELIGIBLE_REPLICA, None, None
        self._commit(is_proposal=True, isr=proposal.broker_ids)
        return ErrorCode.NONE, self.now.isr, self.now.partition_epoch

    def fence(self, node_id):
        """Its session is over: out of the ISR unless it is the last member, and somebody else leads."""
        now = self.now
        if node_id in now.fenced:
            return
        in_sync = now.isr - {node_id} or now.isr
        changes = {"fenced": now.fenced | {node_id}, "isr": in_sync}
        if now.leader == node_id:
            candidates = in_sync - changes["fenced"]
            changes["leader"] = min(candidates, default=NO_NODE)
            changes["leader_epoch"] = now.leader_epoch + 1
        self._commit(**changes)

    def register(self, node_id):
        """A new incarnation: whatever the old one was is over."""
        self.fence(node_id)
        broker_epochs = self.now.broker_epochs
        self._commit(broker_epochs={**broker_epochs, node_id: broker_epochs[node_id] + 1})

    def unfence(self, node_id):
        """It is heard of, and let in again."""
        now = self.now
        changes = {"fenced": now.fenced - {node_id}}
        if now.leader == NO_NODE and node_id in now.isr:
            changes.update(leader=node_id, leader_epoch=now.leader_epoch + 1)
        self._commit(**changes)

    def move_leader(self, node_id):
        """A preferred-leader election, or a controlled shutdown of the old leader."""
        now = self.now
        if node_id in now.isr and node_id not in now.fenced and node_id != now.leader != NO_NODE:
            self._commit(leader=node_id, leader_epoch=now.leader_epoch + 1)

    def _commit(self, *, is_proposal=False, **changes):
        """The partition epoch counts changes of the partition, not of brokers; a proposal counts even as a fence."""
        now, after = self.now, self.now.but(**changes)
        is_partition_changed = (now.leader, now.leader_epoch, now.isr) != (after.leader, after.leader_epoch, after.isr)
        if is_proposal or is_partition_changed:
            after.partition_epoch += 1
        self.log.append(after)


class Node:
    """One broker: a log that survives, and what is lost when its process ends."""

    def __init__(self, node_id, log, rng):
        self.id = node_id
        self.log = log
        self.checkpoint = 0
        self.rng = rng
        self.alive = True
        self.broker_epoch = 1
        self.applied = 0  # how much of the committed metadata it has taken up
        self.metadata = None
        self.reset()

    @property
    def leader(self):
        return None if self.replica is None else self.replica.leader

    def reset(self):
        self.replica = None
        self.fetcher = None
        self.token = None  # of the request that is out
        self.unanswered = None  # the token of one that reached nobody
        self.proposing = None  # the proposal whose answer is awaited
        self.forget_sessions()

    def forget_sessions(self):
        """Those of its followers."""
        self.followers = SessionsByPartition()
        self.sessions = FetchSessionCache(self.rng, lambda _id: None, self.followers)


class Cluster:
    """One schedule."""

    controller_type = Controller
    node_ids = NODES
    first_offset = 0
    flush_messages = 1 << 62  # nothing waits for syncs

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.now_ms = 1000
        self.min_insync_replicas = self.rng.choice((1, 2, 2))
        self.controller = self.controller_type()
        self.nodes = [Node(node_id, self.new_log(), self.rng) for node_id in self.node_ids]
        self.network = []  # (handler, argument, ...) in flight
        self.committed = []  # what was ever below a presumed leader's high watermark
        self.checked = None  # what cannot have changed since; None when a log may have lost something
        self.high_watermarks = {}  # by (node, incarnation, leader epoch)
        self.records_per_fetch = 3
        self.next_value = 0
        self.next_token = 0
        self.trace = None
        self.actions, self.weights = self._cumulative(self._swarm())
        for node in self.nodes:
            self.apply_metadata(node)

    def _swarm(self):
        """Each schedule favours some faults and leaves out others: rare combinations become likely somewhere."""
        return {
            self.deliver: 40,
            self.produce: self._weight(2, 16),
            self.learn: self._weight(2, 20),
            self.tick: self._weight(2, 10),
            self.restart: 3,
            self.heartbeat: self._weight(1, 8),
            self.crash: self._fault(2),
            self.lose_power: self._fault(2),
            self.session_expires: self._fault(8),
            self.move_leader: self._fault(8),
            self.lose_connection: self._fault(8),
            self.give_up_proposal: self._fault(30),
        }

    @staticmethod
    def _cumulative(actions):
        total, cumulative = 0.0, []
        for weight in actions.values():
            total += weight
            cumulative.append(total)
        return list(actions), cumulative

    def _weight(self, low, high):
        return low * (high / low) ** self.random()

    def _fault(self, high):
        return self._weight(high / 20, high) if self.random() < 0.6 else 0

    def new_log(self):
        return MemoryLog(log_start_offset=self.first_offset)

    def run(self, steps=STEPS):
        choices = self.rng.choices
        for action in choices(self.actions, cum_weights=self.weights, k=steps):
            action()
            self.check()
        self.settle()

    def say(self, what, *values):
        """Note what happens; it is put into words only where somebody reads them."""
        if self.trace is not None:
            self.trace.append(what.format(*values))

    # -- actions ----------------------------------------------------------------------------------------------------

    def pick(self, candidates):
        return candidates[int(self.random() * len(candidates))] if candidates else None

    def deliver(self):
        network = self.network
        if network:
            at = int(self.random() * len(network))
            network[at], network[-1] = network[-1], network[at]
            handler, *arguments = network.pop()
            handler(*arguments)

    def produce(self):
        node = self.pick([node for node in self.nodes if node.leader is not None])
        if node is None:
            return
        log, state = node.log, node.leader
        values = range(self.next_value, self.next_value + 1 + int(self.random() * 2))
        self.next_value = values.stop
        log.append(state.leader_epoch, *values)
        self.say(
            "n{} appends {} in epoch {}, ends at {}", node.id, list(values), state.leader_epoch, log.log_end_offset
        )
        self.on_moved(node, node.replica.on_written(self.now_ms))

    def learn(self):
        """A node applies the next committed metadata."""
        node = self.pick([node for node in self.nodes if node.alive and node.applied < len(self.controller.log) - 1])
        if node is not None:
            node.applied += 1
            self.apply_metadata(node)

    def tick(self):
        self.now_ms += 1 + int(self.random() * LAG_TIME_MAX_MS)
        for node in self.nodes:
            if node.replica is not None:
                self.carry_out(node, node.replica.check_lagging(self.now_ms))
            self.pump(node)

    def crash(self):
        """The process dies; its log stays, its high watermark is as old as the checkpoint."""
        node = self.pick([node for node in self.nodes if node.alive])
        if node is not None:
            self.say("n{} crashes", node.id)
            node.alive = False
            node.checkpoint = int(self.random() * (self.high_watermark_of(node) + 1))
            node.reset()

    def lose_power(self):
        """A replica loses the end of its log, and the controller knows before anything else happens (KIP-966)."""
        now = self.controller.now
        node = self.pick([node for node in self.nodes if node.alive and now.isr != {node.id}])
        if node is not None:
            self.controller.fence(node.id)
            node.alive = False
            node.log.truncate_to(int(self.random() * (node.log.log_end_offset + 1)))
            self.checked = None
            node.checkpoint = 0
            node.reset()
            self.say("n{} loses power, its log now ends at {}", node.id, node.log.log_end_offset)

    def restart(self):
        node = self.pick([node for node in self.nodes if not node.alive])
        if node is not None:
            self.start(node)

    def start(self, node):
        self.controller.register(node.id)
        self.controller.unfence(node.id)
        node.alive = True
        node.broker_epoch = self.controller.now.broker_epochs[node.id]
        node.applied = len(self.controller.log) - 1  # it serves only once it has caught up with the metadata
        self.say("n{} starts, epoch {}", node.id, node.broker_epoch)
        self.apply_metadata(node)

    def session_expires(self):
        """The controller has not heard of a node for too long, dead or not."""
        node = self.pick([node for node in self.nodes if node.id not in self.controller.now.fenced])
        if node is not None and (not node.alive or self.random() < 0.5):
            self.say("n{} is fenced", node.id)
            self.controller.fence(node.id)

    def heartbeat(self):
        """A node that was fenced without being dead is heard of again."""
        node = self.pick([node for node in self.nodes if node.alive and node.id in self.controller.now.fenced])
        if node is not None:
            self.say("n{} is unfenced", node.id)
            self.controller.unfence(node.id)

    def move_leader(self):
        self.controller.move_leader(int(self.random() * len(NODES)))

    def lose_connection(self):
        """A follower gives up on its request, which may still be on its way to the leader."""
        node = self.pick([node for node in self.nodes if node.token is not None])
        if node is not None:
            self.give_up_request(node)

    def give_up_request(self, node):
        self.say("n{} loses its connection", node.id)
        node.token = None
        node.fetcher.on_request_failed(self.now_ms)

    def give_up_proposal(self):
        """The controller did not answer in time; the proposal may still reach it."""
        node = self.pick([node for node in self.nodes if node.proposing is not None])
        if node is not None:
            proposal, node.proposing = node.proposing, None
            self.say("n{} gives up on {}", node.id, [member.broker_id for member in proposal.new_isr])
            self.propose(node, node.replica.on_proposal_refused(proposal, ErrorCode.NETWORK_EXCEPTION, self.now_ms))

    # -- roles ------------------------------------------------------------------------------------------------------

    def apply_metadata(self, node):
        before, metadata = node.metadata, self.controller.log[node.applied]
        node.metadata = metadata
        if node.replica is None:
            node.replica = self.local_replica(node)
        committed = CommittedPartition(
            metadata.leader,
            metadata.leader_epoch,
            metadata.partition_epoch,
            metadata.replicas,
            tuple(sorted(metadata.isr)),
            metadata.elr,
            self.directory_of(node),
            metadata.unclean_leader_epoch,
        )
        self.carry_out(node, node.replica.on_metadata(committed, self.now_ms))
        if before is None or before.partition_epoch != metadata.partition_epoch:  # else it is about brokers
            node.followers.note(WHERE)
        if node.leader is not None or metadata.leader == NO_NODE:
            node.fetcher = node.token = None
        if node.leader is None:
            node.proposing = None

    def directory_of(self, _node):
        return UNASSIGNED_DIRECTORY

    def local_replica(self, node):
        """The replica of a process that starts."""
        settings = ReplicaSettings(self.min_insync_replicas, self.flush_messages, LAG_TIME_MAX_MS)
        surroundings = Surroundings(
            lambda replica_id, broker_epoch: self.is_eligible(node, replica_id, broker_epoch),
            lambda: node.broker_epoch,
        )
        return LocalReplica(WHERE, node.id, node.log, settings, surroundings, high_watermark=node.checkpoint)

    def is_eligible(self, node, replica_id, _broker_epoch):
        return replica_id not in node.metadata.fenced

    def high_watermark_of(self, node):
        return node.checkpoint if node.replica is None else node.replica.high_watermark

    # -- the replica's driver ---------------------------------------------------------------------------------------

    def carry_out(self, node, effects):
        """What a replica says, at once and in order."""
        for effect in effects:
            kind = type(effect)
            if kind is do.Propose:
                self.propose(node, effect.proposal)
            elif kind is do.HighWatermarkMoved:
                self.on_high_watermark(node)
            elif kind is do.AnswerWaiting:
                node.followers.note(WHERE)
            elif kind is do.BeginEpoch:
                node.proposing = None
                node.log.begin_epoch(effect.leader_epoch)
            elif kind is do.Leads:
                state = node.leader
                self.say(
                    "n{} leads epoch {} from {}, ISR {}",
                    node.id,
                    state.leader_epoch,
                    state.leader_epoch_start_offset,
                    set(state.isr),
                )
                self.on_high_watermark(node)
            elif kind is do.StopFollowing and node.fetcher is not None:
                node.fetcher.remove_partitions([WHERE])
            elif kind is do.Follow:
                self.follow(node, effect.leader_id, effect.leader_epoch)
            elif kind is do.Cut or kind is do.Restart:
                self.begin_cut(node, effect)

    def follow(self, node, leader_id, leader_epoch):
        if node.fetcher is None or node.fetcher.source_id != leader_id:
            node.fetcher = ReplicaFetcher(leader_id, node.id, broker_epoch=node.broker_epoch, settings=SETTINGS)
            node.token = None
        node.fetcher.add_partitions([FollowedPartition(WHERE, leader_epoch, node.replica)])
        self.pump(node)

    def begin_cut(self, node, effect):
        """A job on the disk; here it is done at once."""
        self.end_cut(node, effect)

    def end_cut(self, node, effect):
        log = node.log
        if type(effect) is do.Cut:
            self.say("n{} cuts from {} to {}", node.id, log.log_end_offset, effect.offset)
            log.truncate_to(effect.offset)
        else:
            log.restart_at(effect.offset)
        self.checked = None
        self.carry_out(node, node.replica.on_cut(self.now_ms))
        if node.fetcher is not None:
            node.fetcher.on_cut(WHERE)

    def on_moved(self, node, moved):
        node.followers.note(WHERE)
        if moved & HIGH_WATERMARK_MOVED:
            self.on_high_watermark(node)

    # -- the follower's driver --------------------------------------------------------------------------------------

    def pump(self, node):
        while node.fetcher is not None and node.token is None:
            effects = node.fetcher.next(self.now_ms)
            self.do_fetch(node, effects)
            if not effects or type(effects[-1]) is Wait:
                return

    def do_fetch(self, node, effects):
        log, replica = node.log, node.replica
        for effect in effects:
            kind = type(effect)
            if kind is SendFetch:
                self.send(node, self.serve_fetch, effect.request)
            elif kind is Append:
                log.extend(effect.records)
                self.follow_offsets(node, effect)
                node.fetcher.on_appended(WHERE, log.log_end_offset, log.latest_epoch)
            elif kind is FollowOffsets:
                self.follow_offsets(node, effect)
            elif kind is TruncateTo:
                self.carry_out(node, replica.truncate(effect.offset, self.now_ms))
            elif kind is SendOffsetsForLeaderEpoch:
                self.send(node, self.serve_epochs, effect.request)
            elif kind is SendListOffsets:
                self.send(node, self.serve_list_offsets, effect)
            elif kind is RestartAt:
                self.carry_out(node, replica.restart(effect.offset, self.now_ms))
            elif kind is MarkFailed:
                raise ViolationError(f"n{node.id} failed: {effect.reason}")

    @staticmethod
    def follow_offsets(node, effect):
        node.log.follow(effect.high_watermark, effect.log_start_offset)
        node.replica.follow_high_watermark(effect.high_watermark)

    def send(self, node, handler, request):
        self.next_token += 1
        node.token = self.next_token
        self.network.append((handler, self.nodes[node.fetcher.source_id], node, self.next_token, request))

    def answer(self, node, token, receive, *response):
        self.network.append((self.receive, node, token, receive, *response))

    def receive(self, node, token, receive, *response):
        if node.token == token:
            node.token = None
            self.do_fetch(node, receive(node.fetcher, *response, self.now_ms))
            self.pump(node)

    # -- the leader's handlers --------------------------------------------------------------------------------------

    @staticmethod
    def is_heard(node, follower, token):
        """A request to a dead node gets no answer; the follower waits until something makes it give up."""
        if not node.alive and follower.token == token:  # it may have given it up before
            follower.unanswered = token
        return node.alive

    def serving(self, node, current_leader_epoch):
        if node.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        epochs.check_leader_epoch(WHERE, node.leader.leader_epoch, current_leader_epoch)
        return node.leader

    def serve_fetch(self, node, follower, token, request):
        if not self.is_heard(node, follower, token):
            return
        try:
            who = Follower(request.replica_state.replica_id, request.replica_state.replica_epoch)
            fetch = node.sessions.open(request, FETCH_VERSION, follower=who, now_ms=self.now_ms)
            self.check_settled(node, fetch, who)
            results = [(cached, self.read(node, request, cached.asked)) for cached in fetch.partitions]
            for cached in fetch.partitions:
                fetch.on_looked_at(cached)
            response = fetch.response(results)
            fetch.settle(
                results,
                lambda cached: node.replica.progress_at_end(
                    who.broker_id, cached.asked.current_leader_epoch, cached.asked.fetch_offset
                ),
            )
        except KafkaError as error:
            response = FetchResponse(error_code=error.code)
        self.answer(follower, token, ReplicaFetcher.on_fetch_response, response)

    def read(self, node, request, asked):
        log = node.log
        try:
            state = self.serving(node, asked.current_leader_epoch)
            self.check_ahead(node, request.replica_state.replica_id, asked)
            if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            diverging = epochs.diverging_epoch(log, asked.fetch_offset, asked.last_fetched_epoch)
            if diverging is not None:
                return PartitionData(diverging_epoch=DivergingEpoch(epoch=diverging.epoch, end_offset=diverging.offset))
            replica = request.replica_state
            outcome = node.replica.on_follower_fetch(
                replica.replica_id,
                replica.replica_epoch,
                asked.fetch_offset,
                asked.log_start_offset,
                self.now_ms,
            )
        except KafkaError as error:
            return PartitionData(error_code=error.code)
        if outcome.high_watermark_moved:
            self.on_high_watermark(node)
        self.propose(node, outcome.proposal)
        return PartitionData(
            high_watermark=state.high_watermark,
            log_start_offset=log.log_start_offset,
            records=log.read(asked.fetch_offset, 1 + int(self.random() * self.records_per_fetch)),
        )

    def check_settled(self, node, fetch, follower):
        """A naive leader looks at every partition, and finds nothing at those that this one does not look at."""
        if fetch.session is None or fetch.partitions:
            return
        self.random()  # as if it were read
        for cached in fetch.session.partitions.values():
            log, state, asked = node.log, node.leader, cached.asked
            is_at_end = (
                state is not None
                and state.leader_epoch == asked.current_leader_epoch
                and log.log_end_offset == asked.fetch_offset
                and epochs.diverging_epoch(log, asked.fetch_offset, asked.last_fetched_epoch) is None
                and follower.broker_id in state.isr
            )
            if not is_at_end or cached.is_news(
                PartitionData(high_watermark=state.high_watermark, log_start_offset=log.log_start_offset)
            ):
                raise ViolationError(f"n{node.id} does not look at its partition, and n{follower.broker_id} waits")
            if state.maybe_advance_high_watermark(self.now_ms):
                raise ViolationError(f"n{node.id} does not look at its partition, and records stay uncommitted")

    def check_ahead(self, node, replica_id, asked):
        """The handler of fetches finds out whether it is the leader's log that is too short."""
        replica = node.replica
        if replica.is_behind(asked.high_watermark, asked.last_fetched_epoch):
            effects = replica.on_follower_ahead(replica_id, asked.high_watermark, asked.last_fetched_epoch, self.now_ms)
            self.carry_out(node, effects)
            if replica.refuses_ahead(replica_id, asked.last_fetched_epoch):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    def serve_epochs(self, node, follower, token, request):
        if not self.is_heard(node, follower, token):
            return
        wanted = request.topics[0].partitions[0]
        data = EpochEndOffset(partition=WHERE.partition)
        try:
            self.serving(node, wanted.current_leader_epoch)
            end = node.log.end_offset_for_epoch(wanted.leader_epoch)
            data.leader_epoch, data.end_offset = end.epoch, end.offset
        except KafkaError as error:
            data.error_code = error.code
        response = OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic=WHERE.topic, partitions=[data])]
        )
        self.answer(follower, token, ReplicaFetcher.on_epoch_end_offsets, response)

    def serve_list_offsets(self, node, follower, token, effect):
        if not self.is_heard(node, follower, token):
            return
        asked = effect.earliest.topics[0].partitions[0]
        error, earliest, latest = ErrorCode.NONE, node.log.log_start_offset, node.log.log_end_offset
        try:
            self.serving(node, asked.current_leader_epoch)
        except KafkaError as refusal:
            error = refusal.code
        responses = [
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=WHERE.topic,
                        partitions=[ListOffsetsPartitionResponse(error_code=error, offset=offset)],
                    )
                ]
            )
            for offset in (earliest, latest)
        ]
        self.answer(follower, token, ReplicaFetcher.on_list_offsets, *responses)

    # -- the leader's proposals -------------------------------------------------------------------------------------

    def propose(self, node, proposal):
        if proposal is not None:
            self.say("n{} proposes {}", node.id, [member.broker_id for member in proposal.new_isr])
            node.proposing = proposal
            self.network.append((self.serve_proposal, node, node.broker_epoch, proposal))

    def serve_proposal(self, node, incarnation, proposal):
        result = self.controller.alter_partition(proposal, node.id, incarnation)
        self.say(
            "controller: {} of n{}: {}", [member.broker_id for member in proposal.new_isr], node.id, result[0].name
        )
        self.network.append((self.receive_verdict, node, incarnation, proposal, *result))

    def receive_verdict(self, node, incarnation, proposal, error, in_sync, partition_epoch):
        if node.proposing is not proposal or node.broker_epoch != incarnation:
            return
        node.proposing = None
        if error is not ErrorCode.NONE:
            self.propose(node, node.replica.on_proposal_refused(proposal, error, self.now_ms))
        else:
            self.carry_out(node, node.replica.on_proposal_accepted(proposal, in_sync, partition_epoch, self.now_ms))
            node.followers.note(WHERE)

    # -- invariants -------------------------------------------------------------------------------------------------

    def on_high_watermark(self, node):
        high_watermark, log = node.leader.high_watermark, node.log
        key = node.id, node.broker_epoch, node.leader.leader_epoch
        if high_watermark < self.high_watermarks.get(key, 0):
            raise ViolationError(f"the high watermark of n{node.id} fell to {high_watermark}")
        self.high_watermarks[key] = high_watermark
        node.followers.note(WHERE)
        self.say("n{} moves its high watermark to {}", node.id, high_watermark)
        if high_watermark > log.log_end_offset:
            raise ViolationError(
                f"n{node.id} has its high watermark {high_watermark} beyond its end {log.log_end_offset}"
            )
        shared = min(high_watermark, len(self.committed))
        if log.records[:shared] != self.committed[:shared]:
            raise ViolationError(
                f"n{node.id} disagrees with what is committed below its high watermark {high_watermark}"
            )
        self.committed.extend(log.records[shared:high_watermark])

    def check(self):
        committed = self.committed
        length = len(committed)
        if self.checked == (self.controller.now, length):
            return
        self.checked = self.controller.now, length
        for node_id in self.controller.now.isr:
            if self.nodes[node_id].log.records[:length] != committed:
                raise ViolationError(f"n{node_id} is in the true ISR and lacks committed records")

    # -- the end ----------------------------------------------------------------------------------------------------

    def settle(self):
        """Everybody comes up, everything is delivered in order: the replicas must become one."""
        self.records_per_fetch = 1000
        for node in self.nodes:
            self.bring_up(node)
        for node in self.nodes:
            if node.token is not None and node.token == node.unanswered:  # no driver waits for ever
                self.give_up_request(node)
        for _ in range(SETTLE_ROUNDS):
            self.settle_round()
            self.check()
            if self.is_settled():
                return
        raise ViolationError(f"no rest: {self.describe()}")

    def bring_up(self, node):
        if not node.alive:
            self.start(node)
        elif node.id in self.controller.now.fenced:
            self.controller.unfence(node.id)

    def settle_round(self):
        for node in self.nodes:
            while node.applied < len(self.controller.log) - 1:
                node.applied += 1
                self.apply_metadata(node)
        batch, self.network = self.network, []
        for handler, *arguments in batch:
            handler(*arguments)
        self.now_ms += 20
        for node in self.nodes:
            if node.leader is not None and node.leader.maybe_advance_high_watermark(self.now_ms):
                self.on_high_watermark(node)
            if node.leader is not None and node.proposing is None and node.leader.proposal_in_flight is not None:
                raise ViolationError(f"n{node.id} has a proposal in flight that nobody answers")
            self.pump(node)

    def is_settled(self):
        now = self.controller.now
        state = self.nodes[now.leader].leader if now.leader != NO_NODE else None
        return (
            state is not None
            and set(state.isr) == set(now.replicas)
            and state.high_watermark == state.log_end_offset
            and all(self.nodes[replica].log.records == self.committed for replica in now.replicas)
            and all(self.nodes[replica].replica.high_watermark == state.high_watermark for replica in now.replicas)
        )

    def describe(self):
        now = self.controller.now
        ends = [f"n{node.id}: {node.log.epochs} to {node.log.log_end_offset}" for node in self.nodes]
        state = self.nodes[now.leader].leader
        return f"leader {now.leader}, ISR {set(now.isr)}, {'; '.join(ends)}, {state and state.isr}"


def run(seed):
    """Run one schedule; raises what it violated."""
    Cluster(seed).run()


def trace_of(seed):
    """Every step of a schedule, with what it violated at its end."""
    cluster = Cluster(seed)
    cluster.trace = []
    try:
        cluster.run()
    except AssertionError as violation:
        cluster.say("VIOLATION: {}", violation)
    return "\n".join(cluster.trace)
