"""A small language in which scenarios of the quorum are told, and everything the machines say to them is written down.

A file of ``tests/golden/raft`` is a list of blocks: comment lines (``#``), command lines, ``----``, what they print, an
empty line. Messages stay on the wire until delivered, appends unflushed until flushed; votes are on disk at once,
unless ``persist=manual``; no time passes by itself.

cluster voters=3 [observers=1] [seed=1] [flush=auto] [persist=manual] [election_timeout_ms=..., any field of RaftConfig]
start [NODE...]            (all by default)
tick NODE                  let time pass to the node's next deadline, and tick it
time MS                    let so much time pass, ticking whoever is due
deliver [PATTERN...]       what is on the wire now; a pattern is ``1->2``, ``1->*`` or ``Vote``, all must match
drop [PATTERN...]          lose it instead
settle [MS]                deliver, flush and answer until nothing moves; for MS of time, if given
flush NODE                 an fsync of its log ends
persist NODE               its election state is on disk
hold NODE / release NODE   its effects wait undone / are done now
propose NODE VALUE...      one batch
crash NODE [KEPT]          of what is not flushed, records below offset KEPT survive
restart NODE
damage NODE OFFSET         as a restart, with a log that is found damaged from OFFSET on
wipe NODE...               its disk is exchanged for an empty one; ``start`` begins on it
cut A B / heal             silence between two nodes / everywhere ended
break A B                  node A loses its connection to B (and finds B's port closed when B is down)
refuse A B                 node A finds B's port closed, rightly or not
resign NODE
snapshot NODE
state / logs / wire        who is what / the logs on disk / the packets on their way

``quiet`` before a command leaves out what it prints.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from raft_invariants import CheckedSimulation
from raft_simulation import Node, Packet, Record, decode_records

import minikafka.raft.effects as fx
from minikafka.model import OffsetAndEpoch
from minikafka.raft import RaftConfig
from minikafka.raft.messages import Message, VoteRequest

GOLDEN = Path(__file__).parents[2] / "golden" / "raft"
SCENARIOS = sorted(path.stem for path in GOLDEN.glob("*.txt"))


def play(number: int) -> None:
    """That scenario must go as written."""
    text = (GOLDEN / f"{SCENARIOS[number]}.txt").read_text()
    assert run_scenario(text) == text, f"{SCENARIOS[number]} goes another way"


def run_scenario(text: str) -> str:
    """The same text, with what the commands print now in place of what stood there."""
    scenario = Scenario()
    out: list[str] = []
    printing = False
    for line in text.splitlines():
        if printing:
            printing = bool(line.strip())
            if printing:
                continue
        out.append(line)
        if line.strip() == "----":
            out += scenario.printed()
            printing = True
        elif line.strip() and not line.startswith("#"):
            scenario.command(line)
    return "\n".join(out).rstrip() + "\n"


class Scenario(CheckedSimulation):
    """Interprets commands; collects what there is to print."""

    def __init__(self) -> None:
        super().__init__(1)
        self._lines: list[str] = []
        self._held: set[int] = set()
        self._auto_flush = False
        self._auto_persist = True

    def printed(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines or ["ok"]

    def command(self, line: str) -> None:
        name, *arguments = line.split()
        if name == "quiet":
            before = len(self._lines)
            self.command(" ".join(arguments))
            del self._lines[before:]
        else:
            getattr(self, f"_{name}")(*arguments)

    # Printing

    def _say(self, what: str) -> None:
        self._lines.append(f"[{self.now_ms}] {what}")

    def on_effects(self, node: Node, effects: list[fx.Effect]) -> None:
        super().on_effects(node, effects)
        self._lines += [f"    {describe(effect)}" for effect in effects]
        if node.node_id not in self._held:
            node.do_all()
            if self._auto_persist:
                node.persist()
            if self._auto_flush:
                node.flush()

    def break_connection(self, node_id: int, peer: int) -> None:
        down = self.nodes[peer].machine is None and (node_id, peer) not in self.cuts
        self._say(f"{node_id} lost its connection to {peer}{' (refused)' if down else ''}")
        super().break_connection(node_id, peer)

    # Commands

    def _cluster(self, *settings: str) -> None:
        given = dict(setting.split("=") for setting in settings)
        voters, observers, seed = (int(given.pop(key, default)) for key, default in _DEFAULTS)
        self._auto_flush = given.pop("flush", "manual") == "auto"
        self._auto_persist = given.pop("persist", "auto") == "auto"
        config = RaftConfig(**{key: int(value) for key, value in given.items()})
        super().__init__(voters, observers, seed, config)

    def _start(self, *nodes: str) -> None:
        for node_id in [int(n) for n in nodes] or list(self.nodes):
            self._say(f"start {node_id}")
            self.nodes[node_id].start()

    def _restart(self, node: str) -> None:
        self._start(node)

    def _tick(self, node: str) -> None:
        due = {n: at for at, n in self.deadlines()}
        self.now_ms = max(self.now_ms, due[int(node)])
        self._tick_now(int(node))

    def _tick_now(self, node_id: int) -> None:
        self._say(f"tick {node_id}")
        self.tick(node_id)

    def _time(self, duration_ms: str) -> None:
        end_ms = self.now_ms + int(duration_ms)
        while (due := self.deadlines()) and due[0][0] <= end_ms:
            self.now_ms = max(self.now_ms, due[0][0])
            self._tick_now(due[0][1])
        self.now_ms = end_ms

    def _take(self, patterns: tuple[str, ...]) -> list[Packet]:
        taken = [packet for packet in self.wire if all(matches(packet, pattern) for pattern in patterns)]
        self.wire = [packet for packet in self.wire if not any(packet is other for other in taken)]
        return taken

    def _deliver(self, *patterns: str) -> None:
        for packet in self._take(patterns):
            self._say(show_packet(packet))
            self.deliver(packet)

    def _drop(self, *patterns: str) -> None:
        for packet in self._take(patterns):
            self._say(f"lost: {show_packet(packet)}")

    def _settle(self, duration_ms: str = "0") -> None:
        end_ms = self.now_ms + int(duration_ms)
        self._rest()
        while (due := self.deadlines()) and due[0][0] <= end_ms:
            self.now_ms = max(self.now_ms, due[0][0])
            self._tick_now(due[0][1])
            self._rest()
        self.now_ms = max(self.now_ms, end_ms)

    def _rest(self) -> None:
        while self.wire or any(node.appended is not None for node in self.nodes.values()):
            for node_id, node in self.nodes.items():
                if node.appended is not None:
                    self._flush(str(node_id))
            self._deliver()

    def _flush(self, node: str) -> None:
        self._say(f"flush {node}")
        self.nodes[int(node)].flush()

    def _hold(self, node: str) -> None:
        self._held.add(int(node))

    def _release(self, node: str) -> None:
        self._held.discard(int(node))
        self.nodes[int(node)].do_all()
        if self._auto_persist:
            self.nodes[int(node)].persist()

    def _persist(self, node: str) -> None:
        self._say(f"persist {node}")
        self.nodes[int(node)].persist()

    def _propose(self, node: str, *values: str) -> None:
        self._say(f"propose {node} {' '.join(values)}")
        self.propose(int(node), [int(value) for value in values])

    def _crash(self, node: str, kept: str = "0") -> None:
        self._say(f"crash {node}")
        self.crash(int(node), int(kept))

    def _damage(self, node: str, offset: str) -> None:
        self.crash(int(node))
        disk = self.nodes[int(node)].disk
        disk.truncate_to(int(offset))
        disk.repair_mark = True
        self.impaired.add(int(node))
        self._start(node)

    def _wipe(self, *nodes: str) -> None:
        for node_id in nodes:
            self.wipe(self.nodes[int(node_id)])

    def _cut(self, a: str, b: str) -> None:
        self.cuts |= {(int(a), int(b)), (int(b), int(a))}

    def _heal(self) -> None:
        self.cuts.clear()

    def _break(self, a: str, b: str) -> None:
        self.break_connection(int(a), int(b))

    def _refuse(self, a: str, b: str) -> None:
        self._say(f"{a} finds the port of {b} closed")
        self.call(int(a), lambda machine: machine.on_connection_lost(int(b), True, self.now_ms))

    def _resign(self, node: str) -> None:
        self._say(f"resign {node}")
        self.call(int(node), lambda machine: machine.resign(self.now_ms))

    def _snapshot(self, node: str) -> None:
        self._say(f"snapshot {node}")
        self.nodes[int(node)].create_snapshot()

    def _state(self) -> None:
        for node_id, node in self.nodes.items():
            self._lines.append(f"{node_id} {show_state(node)}")

    def _logs(self) -> None:
        for node_id, node in self.nodes.items():
            disk = node.disk
            start = f"{disk.start_offset}: " if disk.start_offset else ""
            self._lines.append(f"{node_id} {start}{show_records(disk.records) or '(empty)'}")

    def _wire(self) -> None:
        self._lines += [show_packet(packet) for packet in self.wire]


_DEFAULTS = (("voters", "3"), ("observers", "0"), ("seed", "1"))


def matches(packet: Packet, pattern: str) -> bool:
    if "->" not in pattern:
        return title(packet.message) == pattern
    source, target = pattern.split("->")
    return source in ("*", str(packet.source)) and target in ("*", str(packet.target))


def show_state(node: Node) -> str:
    machine = node.machine
    if machine is None:
        return "down"
    log = machine.log
    leader = "-" if machine.leader is None else machine.leader
    vote = "-" if machine.election.voted_for is None else machine.election.voted_for
    log_end = f"log=[{log.log_start.offset},{log.log_end_offset}) flushed={log.flushed_offset}"
    disabled = " vote_disabled" if machine.vote_disabled else ""
    head = f"{machine.role} epoch={machine.epoch} leader={leader} voted_for={vote}"
    return f"{head} {log_end} high_watermark={machine.high_watermark}{disabled}"


def show_records(records: list[Record]) -> str:
    """``value@epoch``, with L2 for the LeaderChange of node 2."""
    return " ".join(f"{value if value >= 0 else f'L{-1 - value}'}@{epoch}" for epoch, value in records)


def show_packet(packet: Packet) -> str:
    return f"{packet.source}->{packet.target} {show_message(packet.message)}"


def title(message: Message) -> str:
    """``PreVote`` is a message of its own here."""
    return f"Pre{message.TAG}" if isinstance(message, VoteRequest) and message.pre_vote else message.TAG


def show_message(message: Message) -> str:
    shown = [title(message)]
    for name in (field.name for field in fields(message)):  # type: ignore[arg-type]
        value = getattr(message, name)
        failed = getattr(message, "error_code", 0) and name in ("high_watermark", "size", "position")
        if not failed and name not in _UNINTERESTING and value not in (None, b"", ()):
            shown += [show_field(name, value)]
    return " ".join(part for part in shown if part)


_UNINTERESTING = {"cluster_id", "candidate_id", "replica_id", "pre_vote", "max_wait_ms", "max_bytes"}


def show_field(name: str, value: object) -> str:
    if name == "error_code":
        return value.name if value else ""  # type: ignore[attr-defined]
    if name == "vote_granted":
        return "granted" if value else "refused"
    if name in ("is_blank", "is_provisional"):
        return name.removeprefix("is_") if value else ""
    if name in ("records", "data"):
        return f"[{show_records(decode_records(value))}]"  # type: ignore[arg-type]
    return f"{name}={show_value(value)}"


def show_value(value: object) -> object:
    """An offset and epoch as ``offset@epoch``: the log's end, and the epoch of the record before it."""
    if isinstance(value, OffsetAndEpoch):
        return f"{value.offset}@{value.epoch}"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return value


def describe(effect: fx.Effect) -> str:
    match effect:
        case fx.Send(to, _, message):
            return f"Send to {to}: {show_message(message)}"
        case fx.Respond(token, message, read):
            assert isinstance(token, Packet)
            filled = "" if read is None else f" + {type(read).__name__}({getattr(read, 'offset', '')})"
            return f"Respond to {token.source}: {show_message(message)}{filled}"
        case fx.PersistElection(state):
            leader = "" if state.leader is None else f" leader={state.leader}"
            return f"PersistElection epoch={state.epoch} voted_for={state.voted_for}{leader}"
        case fx.Append(base_offset, epoch, values):
            return f"Append at {base_offset} epoch={epoch}: {[int.from_bytes(value, 'big') for value in values]}"
        case fx.AppendFetched(base_offset, records):
            return f"AppendFetched at {base_offset}: {show_records(decode_records(records))}"
        case fx.WriteSnapshot(snapshot_id, position, data):
            return f"WriteSnapshot {show_value(snapshot_id)} at {position}: {show_records(decode_records(data))}"
    shown = (f"{name}={show_value(getattr(effect, name))}" for name in (field.name for field in fields(effect)))
    return f"{type(effect).__name__} {' '.join(shown)}".rstrip()
