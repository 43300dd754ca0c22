"""Raft machines on pretended disks and wires: the smallest driver that keeps the contract of ``minikafka.raft``.

A record is (leader epoch, value), and a batch what was proposed at once; the LeaderChange of node n has the value
-1 - n. Everything is done one step at a time and only when asked for, so that a scenario or a random schedule decides
what happens between any two steps: each node's effects wait in its queue, requests and answers wait on the wire,
appends wait for a flush.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

import minikafka.raft.effects as fx
from minikafka.model import Endpoint, OffsetAndEpoch
from minikafka.raft import BatchSpan, ElectionState, EpochEntry, LogSummary, RaftConfig, RaftNode, Snapshot, VoterSet
from minikafka.raft.core import Core
from minikafka.raft.messages import Message, message_from_wire

RECORD = struct.Struct(">qiq")
Record = tuple[int, int]


def encode_records(base_offset: int, records: Iterable[Record], inner: Container[int] = ()) -> bytes:
    """``inner``: offsets at which no batch begins. The record before one bears the complement of its epoch."""
    return b"".join(
        RECORD.pack(offset, ~epoch if offset + 1 in inner else epoch, value)
        for offset, (epoch, value) in enumerate(records, base_offset)
    )


def decode_records(data: bytes) -> list[Record]:
    return [(max(epoch, ~epoch), value) for _, epoch, value in RECORD.iter_unpack(data)]


def batch_spans(data: bytes) -> list[BatchSpan]:
    if len(data) % RECORD.size:
        raise ValueError("torn record")
    spans, base_offset = [], None
    for offset, epoch, _ in RECORD.iter_unpack(data):
        base_offset = offset if base_offset is None else base_offset
        if epoch >= 0:
            spans.append(BatchSpan(base_offset, offset, epoch))
            base_offset = None
    if base_offset is not None:
        raise ValueError("torn batch")
    return spans


def leader_change(leader: int) -> int:
    return -1 - leader


@dataclass
class Disk:
    """What survives a crash: the election state, the snapshots, and the log up to ``flushed_offset`` at least."""

    election: ElectionState = field(default_factory=ElectionState)
    start_offset: int = 0
    records: list[Record] = field(default_factory=list)
    inner: set[int] = field(default_factory=set)  # offsets at which no batch begins
    flushed_offset: int = 0
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)
    repair_mark: bool = False
    new_mark: bool = False  # as if it were not the first start: most scenarios begin later

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.records)

    def read(self, start: int, end: int) -> list[Record]:
        return self.records[start - self.start_offset : end - self.start_offset]

    def read_batches(self, start: int, count_max: int) -> bytes:
        """Whole batches, at least one."""
        end = min(start + count_max, self.end_offset)
        while end in self.inner:
            end -= 1
        if end <= start < self.end_offset:
            end = start + 1
            while end in self.inner:
                end += 1
        assert start not in self.inner, "a batch begins where one reads"
        return encode_records(start, self.read(start, end), self.inner)

    def append(self, records: list[Record], inner: Iterable[int]) -> None:
        self.records += records
        self.inner.update(inner)

    def truncate_to(self, offset: int) -> None:
        """What is left of a batch goes with it."""
        while offset in self.inner:
            offset -= 1
        self.inner = {each for each in self.inner if each < offset}
        del self.records[offset - self.start_offset :]
        self.flushed_offset = min(self.flushed_offset, offset)

    def advance_start(self, offset: int) -> None:
        del self.records[: offset - self.start_offset]
        self.start_offset = offset
        self.snapshots = {key: data for key, data in self.snapshots.items() if key.offset >= offset}

    def reset_to(self, offset: int) -> None:
        self.records, self.inner = [], set()
        self.start_offset = self.flushed_offset = offset

    def summary(self) -> LogSummary:
        epochs: list[EpochEntry] = []
        for offset, (epoch, _) in enumerate(self.records, self.start_offset):
            if not epochs or epochs[-1].epoch != epoch:
                epochs.append(EpochEntry(epoch, offset))
        snapshots = [Snapshot(key, len(data)) for key, data in sorted(self.snapshots.items())]
        return LogSummary.recovered(self.end_offset, epochs, self.start_offset, snapshots)


class Packet(NamedTuple):
    """A request (``message`` is to be answered with this packet as its token) or an answer to one."""

    source: int
    target: int
    request_id: int
    message: Message
    question: Message | None = None  # of an answer

    @property
    def is_request(self) -> bool:
        return self.question is None


class Node:
    """One machine with its disk, its queue of effects and its state machine (the list of applied records)."""

    def __init__(self, node_id: int, simulation: Simulation) -> None:
        self.node_id = node_id
        self.simulation = simulation
        self.disk = Disk()
        self.machine: RaftNode | None = None
        self.queue: deque[fx.Effect] = deque()
        self.appended: OffsetAndEpoch | None = None  # the end of the last append not flushed yet
        self.election: ElectionState | None = None  # to be written next
        self.persisting: ElectionState | None = None  # being written now
        self.persisted_at_ms: int | None = None  # when writing ends, of a disk that takes time
        self.flushed_at_ms: int | None = None
        self.sync_ms = 0  # how long its disk takes, when things run fairly
        self.applied: list[Record] = []
        self.incoming = bytearray()

    def start(self) -> None:
        simulation = self.simulation
        self.machine = RaftNode(
            Core(
                node_id=self.node_id,
                cluster_id="c",
                voters=simulation.voters,
                rng=random.Random(simulation.rng.randrange(1 << 30)),
                batch_spans=batch_spans,
                log=self.disk.summary(),
                election=self.disk.election,
                config=simulation.config,
                vote_disabled=self.disk.repair_mark,
                is_new=self.disk.new_mark,
            )
        )
        latest = max(self.disk.snapshots, default=None)
        self.applied = [] if latest is None else decode_records(self.disk.snapshots[latest])
        self.take(self.machine.start(simulation.now_ms))

    def crash(self, kept_offset: int | None = None, kept_election: bool = False) -> None:
        """The process dies; of what is not flushed, records below ``kept_offset`` happen to survive, and an election
        state that is being written if ``kept_election``."""
        self.machine = None
        self.queue.clear()
        if kept_election and self.persisting is not None:
            self.disk.election = self.persisting
        self.appended = self.election = self.persisting = self.persisted_at_ms = self.flushed_at_ms = None
        self.incoming.clear()
        keep = max(self.disk.flushed_offset, min(kept_offset or 0, self.disk.end_offset))
        self.disk.truncate_to(keep)
        self.disk.flushed_offset = keep  # recovery fsyncs what it found

    def take(self, effects: list[fx.Effect]) -> None:
        if not effects:
            return
        for effect in effects:
            if type(effect) is fx.PersistElection:
                self.election = effect.state
                self._begin_to_persist()
            else:
                self.queue.append(effect)
        self.simulation.on_effects(self, effects)

    # The driver

    @property
    def is_at_rest(self) -> bool:
        """Nothing is left to do before time passes: no effect, and no sync of which nobody knows yet when it ends."""
        persists = self.persisting is not None and self.persisted_at_ms is None
        flushes = self.appended is not None and self.flushed_at_ms is None
        return not (self.queue or persists or flushes)

    def do_one(self) -> None:
        self._do(self.queue.popleft())

    def do_one_at_once(self) -> None:
        """One that need not wait for those before it, if there is one."""
        for effect in self.queue:
            if isinstance(effect, (fx.Send, fx.Respond)) and effect.at_once:
                self.queue.remove(effect)
                self._do(effect)
                return

    def _do(self, effect: fx.Effect) -> None:
        kind = type(effect)
        act = _ACTS.get(kind)
        if act is not None:
            act(self, effect)
        look = self.simulation.looks.get(kind)
        if look is not None:
            look(self.simulation, self, effect)

    def do_all(self) -> None:
        while self.queue:
            self.do_one()

    def _begin_to_persist(self) -> None:
        """The driver writes one election state at a time, and of those that wait the latest only."""
        if self.persisting is None:
            self.persisting, self.election = self.election, None

    def persist(self) -> None:
        """Writing the election state ends."""
        state, self.persisting, self.persisted_at_ms = self.persisting, None, None
        if state is not None and self.machine is not None:
            self.disk.election = state
            self._begin_to_persist()
            self.take(self.machine.on_election_durable(state, self.simulation.now_ms))

    def sync_fairly(self) -> None:
        """End what has been written for as long as its disk takes."""
        now_ms, duration_ms = self.simulation.now_ms, self.sync_ms
        if self.persisting is not None:
            if self.persisted_at_ms is None:
                self.persisted_at_ms = now_ms + duration_ms
            if now_ms >= self.persisted_at_ms:
                self.persist()
        if self.appended is not None:
            if self.flushed_at_ms is None:
                self.flushed_at_ms = now_ms + duration_ms
            if now_ms >= self.flushed_at_ms:
                self.flush()

    def flush(self) -> None:
        """An fsync of all that is written ends."""
        self.flushed_at_ms = None
        end, self.appended = self.appended, None
        if end is not None and self.machine is not None:
            self.disk.flushed_offset = self.disk.end_offset
            self.take(self.machine.on_flushed(end, self.simulation.now_ms))

    def create_snapshot(self) -> bool:
        """A snapshot of all that is applied and flushed; False when there is nothing new to put in one."""
        assert self.machine is not None
        offset = min(len(self.applied), self.disk.flushed_offset)
        if offset <= max((key.offset for key in self.disk.snapshots), default=0):
            return False
        snapshot_id = OffsetAndEpoch(offset, self.applied[offset - 1][0])
        self.disk.snapshots[snapshot_id] = encode_records(0, self.applied[:offset])
        self.take(self.machine.on_snapshot_created(Snapshot(snapshot_id, len(self.disk.snapshots[snapshot_id]))))
        return True

    def _append(
        self, base_offset: int, records: list[Record], end: OffsetAndEpoch, spans: Iterable[BatchSpan] = ()
    ) -> None:
        """Of one batch, where there are no ``spans``."""
        assert base_offset == self.disk.end_offset, "appends continue the log"
        spans = spans or [BatchSpan(base_offset, end.offset - 1, end.epoch)]
        inner = (offset for span in spans for offset in range(span.base_offset + 1, span.last_offset + 1))
        self.disk.append(records, inner)
        self.appended = end

    def _do_Append(self, effect: fx.Append) -> None:  # noqa: N802
        records = [(effect.epoch, int.from_bytes(value, "big")) for value in effect.values]
        self._append(effect.base_offset, records, effect.end)

    def _do_AppendLeaderChange(self, effect: fx.AppendLeaderChange) -> None:  # noqa: N802
        self._append(effect.base_offset, [(effect.epoch, leader_change(effect.leader))], effect.end)

    def _do_AppendFetched(self, effect: fx.AppendFetched) -> None:  # noqa: N802
        records = effect.records
        self._append(effect.base_offset, decode_records(records), effect.end, batch_spans(records))

    def _do_TruncateTo(self, effect: fx.TruncateTo) -> None:  # noqa: N802
        self.disk.truncate_to(effect.offset)
        self.appended = None

    def _do_AdvanceLogStart(self, effect: fx.AdvanceLogStart) -> None:  # noqa: N802
        self.disk.advance_start(effect.offset)

    def _do_WriteSnapshot(self, effect: fx.WriteSnapshot) -> None:  # noqa: N802
        if effect.position == 0:
            self.incoming.clear()
        assert effect.position == len(self.incoming)
        self.incoming += effect.data

    def _do_InstallSnapshot(self, effect: fx.InstallSnapshot) -> None:  # noqa: N802
        offset = effect.snapshot_id.offset
        self.applied = decode_records(bytes(self.incoming))
        self.disk.snapshots = {effect.snapshot_id: bytes(self.incoming)}
        self.disk.reset_to(offset)
        self.appended = None

    def _do_RepairCompleted(self, effect: fx.RepairCompleted) -> None:  # noqa: N802
        self.disk.repair_mark = self.disk.new_mark = False

    def _do_HighWatermark(self, effect: fx.HighWatermark) -> None:  # noqa: N802
        self.applied += self.disk.read(len(self.applied), effect.offset)
        assert len(self.applied) == max(effect.offset, len(self.applied)), "what is committed is in the log"
        assert effect.offset not in self.disk.inner, "whole batches are committed"

    def _do_Send(self, effect: fx.Send) -> None:  # noqa: N802
        packet = Packet(self.node_id, effect.to, effect.request_id, over_the_wire(effect.message))
        self.simulation.transmit(packet)

    def _do_Respond(self, effect: fx.Respond) -> None:  # noqa: N802
        packet = effect.token
        assert isinstance(packet, Packet)
        message: Message = effect.message
        if isinstance(effect.read, fx.ReadLog):
            message = effect.filled(self._read_log(effect.read))
        elif isinstance(effect.read, fx.ReadSnapshot):
            position = effect.read.position
            whole = self.disk.snapshots.get(effect.read.snapshot_id, b"")
            message = effect.filled(whole[position : position + effect.read.max_bytes])
        answer = Packet(self.node_id, packet.source, packet.request_id, over_the_wire(message), packet.message)
        self.simulation.transmit(answer)

    def _read_log(self, read: fx.ReadLog) -> bytes:
        count = max(1, read.max_bytes // RECORD.size)
        return self.disk.read_batches(read.offset, count)


_ACTS: dict[type, Callable[[Node, Any], None]] = {
    getattr(fx, name.removeprefix("_do_")): act for name, act in vars(Node).items() if name.startswith("_do_")
}


def over_the_wire(message: Message) -> Message:
    if not WIRE_CHECKED:
        return message
    decoded = message_from_wire(message.to_wire())
    assert decoded == message
    return decoded


WIRE_CHECKED = False


@cache
def voter_set(count: int) -> VoterSet:
    return VoterSet({n: Endpoint("n", 9000 + n) for n in range(1, count + 1)})


class Simulation:
    """A cluster. Subclasses hook ``on_effects`` (the machine said so) and ``looks`` (the driver has done it)."""

    looks: ClassVar[dict[type, Callable[[Any, Node, Any], None]]] = {}  # what is called, by kind of effect

    def __init__(self, voters: int, observers: int = 0, seed: int = 0, config: RaftConfig | None = None) -> None:
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.config = config or RaftConfig()
        self.voters = voter_set(voters)
        self.now_ms = 0
        self.wire: list[Packet] = []
        self.nodes = {n: Node(n, self) for n in range(1, voters + observers + 1)}
        self.all_nodes = list(self.nodes.values())
        self.cuts: set[tuple[int, int]] = set()  # (from, to) that cannot reach

    def below(self, bound: int) -> int:
        """A random number below ``bound``."""
        return int(self.random() * bound)

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def on_effects(self, node: Node, effects: list[fx.Effect]) -> None:
        pass

    def transmit(self, packet: Packet) -> None:
        if (packet.source, packet.target) not in self.cuts:
            self.wire.append(packet)

    # Events

    def call(self, node_id: int, event: Callable[[RaftNode], list[fx.Effect]]) -> None:
        node = self.nodes[node_id]
        if node.machine is not None:
            node.take(event(node.machine))

    def tick(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.machine is not None:
            node.take(node.machine.tick(self.now_ms))

    def deliver(self, packet: Packet) -> bool:
        """Hand a packet to its target; a request to a dead process breaks the sender's connection."""
        message: Any = packet.message
        node = self.nodes[packet.target]
        machine = node.machine
        is_request = packet.question is None
        if machine is None:
            if is_request:
                self.break_connection(packet.source, packet.target)
            return False
        if is_request:
            node.take(machine.on_request(packet, message, self.now_ms))
        else:
            node.take(machine.on_response(packet.source, packet.request_id, message, self.now_ms))
        return True

    def break_connection(self, node_id: int, peer: int) -> None:
        """``node_id`` notices that its connection to ``peer`` is lost, and finds its port closed if it is down."""
        refused = self.nodes[peer].machine is None and (node_id, peer) not in self.cuts
        self.call(node_id, lambda machine: machine.on_connection_lost(peer, refused, self.now_ms))

    def crash(self, node_id: int, kept_offset: int | None = None, kept_election: bool = False) -> None:
        self.nodes[node_id].crash(kept_offset, kept_election)

    def propose(self, node_id: int, values: list[int]) -> None:
        node = self.nodes[node_id]
        assert node.machine is not None
        _, effects = node.machine.propose([value.to_bytes(8, "big") for value in values], self.now_ms)
        node.take(effects)

    def deadlines(self) -> list[tuple[int, int]]:
        """(deadline, node id) of all running nodes, soonest first."""
        due = []
        for node in self.all_nodes:
            if node.machine is not None:
                at = node.machine.next_deadline_ms()
                if at is not None:
                    due.append((at, node.node_id))
        due.sort()
        return due

    def next_events(self) -> list[int]:
        """When something happens by itself: deadlines of machines, and disks that are done."""
        times = [at for at, _ in self.deadlines()]
        times += [at for node in self.all_nodes for at in (node.persisted_at_ms, node.flushed_at_ms) if at is not None]
        return times

    def leaders(self) -> list[int]:
        return [node.node_id for node in self.all_nodes if node.machine is not None and node.machine.role == "leader"]

    def run_fairly(self, done: Callable[[], bool], limit_ms: int) -> bool:
        """Do everything that can be done, in order; when nothing is left, let time pass; until done or out of time."""
        end_ms = self.now_ms + limit_ms
        while self.now_ms <= end_ms:
            self._run_out()
            if done():
                return True
            next_ms = min(self.next_events(), default=end_ms + 1)
            self.now_ms = max(self.now_ms, next_ms)
            for at, node_id in self.deadlines():
                if at <= self.now_ms:
                    self.tick(node_id)
        return False

    def _run_out(self) -> None:
        for _ in range(10_000):
            for node in self.all_nodes:
                if node.queue:
                    node.do_all()
                node.sync_fairly()
            if not self.wire and all([node.is_at_rest for node in self.all_nodes]):  # noqa: C419
                return
            packets, self.wire = self.wire, []
            for packet in packets:
                self.deliver(packet)
        raise AssertionError("the cluster never comes to rest without time passing")
