"""Golden scenarios of the machine of one replica: events in, effects out.

A file of ``tests/golden/local_replica`` is a list of events. Below each, indented, are its effects in order, and the
replica as it is now (``=``) when that changed. A is the node of the replica, B and C have the other two. The first line
is the log as it is found at the start: so many records of leader epoch 1, on disk and synced. The commands are the
``do_*`` methods; the rules are in ``minikafka/replication/local_replica.py``.
"""

from __future__ import annotations

from dataclasses import fields
from uuid import UUID

from replication_log import MemoryLog

from minikafka.errors import ErrorCode
from minikafka.model import LOST_DIRECTORY, NO_EPOCH, NO_NODE, TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.local_replica import HIGH_WATERMARK_MOVED, LOG_END_MOVED, SYNC_DUE, LocalReplica
from minikafka.replication.replica_effects import Saying
from minikafka.replication.replica_facts import CommittedPartition, ReplicaSettings, Surroundings

NAMES = {"-": NO_NODE, "A": 0, "B": 1, "C": 2}
NAME_OF = {node_id: name for name, node_id in NAMES.items()}
DIRECTORIES = {"here": UUID(int=77), "there": UUID(int=78), "lost": LOST_DIRECTORY}
DIRECTORY_OF = {directory: name for name, directory in DIRECTORIES.items()}
BROKER_EPOCH = 7
LAG_TIME_MAX_MS = 1000
NEVER = 1 << 62
BITS = {LOG_END_MOVED: "log end moved", HIGH_WATERMARK_MOVED: "high watermark moved", SYNC_DUE: "sync due"}


def play(text):
    """The scenario with its effects as they are now."""
    scenario = Scenario()
    out = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        out.append(line)
        if line and not line.startswith("#"):
            out += [f"  {said}" for said in scenario.run_line(line)]
    return "\n".join(out) + "\n"


class SyncedLog(MemoryLog):
    """A log of which so much is synced."""

    synced = 0

    @property
    def recovery_point(self):
        return min(self.synced, self.log_end_offset)


class Scenario:
    """One replica, and metadata as it was last told."""

    def __init__(self):
        self.replica = None
        self.log = None
        self.told = {"leader": "B", "epoch": "1", "isr": "A,B,C", "elr": "", "directory": "here", "unclean": "-1"}
        self.partition_epoch = 0
        self.now_ms = 0
        self.is_leaving = False
        self.min_isr, self.flush_messages = 1, NEVER
        self.proposal = None
        self.shown = ""

    def run_line(self, line):
        verb, *words = line.split()
        options = {}
        for name, value in (word.split("=", 1) for word in words if "=" in word):
            options[name.replace("-", "_")] = value
        plain = [word for word in words if "=" not in word]
        said = getattr(self, f"do_{verb.replace('-', '_')}")(*plain, **options) or []
        if (now := self.state()) != self.shown:
            self.shown = now
            said.append(f"= {now}")
        return said

    # -- how it begins ----------------------------------------------------------------------------------------------

    def do_log(
        self,
        records,
        high_watermark="0",
        damaged_from=None,
        min_isr="1",
        flush_messages=None,
        missing=None,
        cleaned=None,
    ):
        """The log as it is found; ``missing=yes``: its files were gone, and it was made anew."""
        self.log = SyncedLog([(1, value) for value in range(int(records))])
        self.log.is_cleaned = cleaned is not None
        self.log.synced = self.log.log_end_offset
        self.min_isr = int(min_isr)
        self.flush_messages = int(flush_messages or NEVER)
        self.replica = LocalReplica(
            TopicPartition("t", 0),
            NAMES["A"],
            self.log,
            self.settings(),
            Surroundings(lambda _replica, _epoch: True, lambda: BROKER_EPOCH, lambda: self.is_leaving),
            high_watermark=int(high_watermark),
            damage_offset=None if damaged_from is None else int(damaged_from),
            directory_id=DIRECTORIES["here"],
            is_made_anew=missing is not None,
        )

    def do_flipped_epoch(self, offset):
        """A bit flipped in the leader epoch of a batch: it is 9 from ``offset`` on."""
        self.log.records[int(offset) :] = [(9, value) for _epoch, value in self.log.records[int(offset) :]]
        self.log.epochs.append((9, int(offset)))

    # -- events -----------------------------------------------------------------------------------------------------

    def do_metadata(self, **said):
        """Committed metadata; what is not said is as before."""
        self.told |= said
        self.partition_epoch += 1
        ids = {name: tuple(NAMES[node] for node in self.told[name].split(",") if node) for name in ("isr", "elr")}
        committed = CommittedPartition(
            NAMES[self.told["leader"]],
            int(self.told["epoch"]),
            self.partition_epoch,
            (0, 1, 2),
            ids["isr"],
            ids["elr"],
            DIRECTORIES[self.told["directory"]],
            int(self.told["unclean"]),
        )
        return self.effects(self.replica.on_metadata(committed, self.now_ms))

    def do_produce(self, count):
        """A leader appends so many records, or a follower those that it was sent."""
        epoch = int(self.told["epoch"])
        self.log.append(epoch, *range(int(count)))
        return [self.moved(self.replica.on_written(self.now_ms))]

    def do_synced(self, offset):
        """The log is on disk up to there."""
        self.log.synced = int(offset)
        return [self.moved(self.replica.on_synced(self.now_ms))]

    def do_fetch(self, name, offset):
        """A follower fetches: it has everything before."""
        out = self.replica.on_follower_fetch(NAMES[name], BROKER_EPOCH, int(offset), 0, self.now_ms)
        if out.proposal is not None:
            self.proposal = out.proposal
        moved = HIGH_WATERMARK_MOVED if out.high_watermark_moved else 0
        return [self.moved(moved)] + ([f"proposes {self.members(out.proposal)}"] if out.proposal else [])

    def do_accepted(self):
        """The controller commits what was proposed last."""
        isr = tuple(sorted(self.proposal.broker_ids))
        self.partition_epoch += 1
        self.told["isr"] = ",".join(NAME_OF[node_id] for node_id in isr)
        said = self.replica.on_proposal_accepted(self.proposal, isr, self.partition_epoch, self.now_ms)
        return self.effects(said)

    def do_refused(self, error):
        """The controller refuses what was proposed last."""
        again = self.replica.on_proposal_refused(self.proposal, ErrorCode[error], self.now_ms)
        if again is None:
            return ["proposes nothing"]
        self.proposal = again
        return [f"proposes {self.members(again)}, after a back-off"]

    def do_ahead(self, name, offset, epoch):
        """A follower whose log ends in ``epoch`` knows as committed what lies before ``offset``."""
        return self.effects(self.replica.on_follower_ahead(NAMES[name], int(offset), int(epoch), self.now_ms))

    def do_leader_says(self, _high_watermark, offset):
        """A follower learns of the leader's high watermark."""
        self.replica.follow_high_watermark(int(offset))

    def do_truncate(self, offset):
        """The fetcher finds that the leader's log differs from there on."""
        return self.effects(self.replica.truncate(int(offset), self.now_ms))

    def do_restart(self, offset):
        """The fetcher finds that the leader's log begins there, behind this one."""
        return self.effects(self.replica.restart(int(offset), self.now_ms))

    def do_cut_done(self):
        """The disk did what was asked."""
        cut = self.replica.cut
        if hasattr(cut, "is_refetch"):
            self.log.truncate_to(cut.offset)
        else:
            self.log.restart_at(cut.offset)
        self.log.synced = self.log.log_end_offset
        return self.effects(self.replica.on_cut(self.now_ms))

    def do_damage(self, offset):
        """Bad bytes are found."""
        return self.effects(self.replica.on_damage(int(offset), self.now_ms))

    def do_consumed(self, offset):
        """A sample of what a consumer was sent."""
        return self.effects(self.replica.on_sample_consumed(int(offset), 100))

    def do_sent(self, name, offset):
        """A follower is sent records from there on."""
        return self.effects(self.replica.on_records_sent(NAMES[name], int(offset), 100))

    def do_directory_failed(self):
        """EIO."""
        return self.effects(self.replica.on_storage_failed())

    def do_removed(self):
        """Metadata places no replica here any more."""
        return self.effects(self.replica.on_removed())

    def do_moved(self, directory):
        """The copy in another directory took the log's place."""
        self.log.synced = self.log.log_end_offset
        return self.effects(self.replica.on_moved(self.log, DIRECTORIES[directory], self.now_ms))

    def do_settings(self, min_isr=None, flush_messages=None):
        """The topic's settings change."""
        self.min_isr = int(min_isr or self.min_isr)
        self.flush_messages = int(flush_messages or self.flush_messages)
        return self.effects(self.replica.configure(self.settings(), self.now_ms))

    def do_shutting_down(self):
        """Controlled shutdown begins."""
        self.is_leaving = True

    def do_wait(self, milliseconds):
        """Time passes, and a leader looks after its ISR."""
        self.now_ms += int(milliseconds)
        return self.effects(self.replica.check_lagging(self.now_ms))

    def do_acks(self, kind, offset):
        """What a produce of this epoch that ends there is answered; ``kind``: all, or 1."""
        epoch = int(self.told["epoch"])
        error = self.replica.acknowledgement_of(int(offset), epoch, needs_all=kind == "all")
        return ["waits" if error is None else f"answered {error.name}"]

    # -- what is said -----------------------------------------------------------------------------------------------

    def settings(self):
        return ReplicaSettings(self.min_isr, self.flush_messages, LAG_TIME_MAX_MS)

    def state(self):
        replica = self.replica
        cut = "" if replica.cut is None else ", being cut"
        of_epoch = "" if replica.leader_epoch == NO_EPOCH else f" in epoch {replica.leader_epoch}"
        log = f"log [{self.log.log_start_offset},{self.log.log_end_offset})"
        condition = replica.condition.now.name
        return f"{replica.role.name}{of_epoch}, {condition}{cut}, {log}, high watermark {replica.high_watermark}"

    def effects(self, effects):
        for effect in effects:
            self.proposal = getattr(effect, "proposal", self.proposal)
        return [" ".join([type(effect).__name__, *map(self.field, self.values_of(effect))]) for effect in effects]

    def values_of(self, effect):
        named = [(field.name, getattr(effect, field.name)) for field in fields(effect)]
        return [(name, value) for name, value in named if (name, value) != ("unheard", ())]

    def field(self, named):
        name, value = named
        match name, value:
            case _, IsrProposal():
                return self.members(value)
            case "what", Saying():
                return value.name
            case "directory_id", _:
                return DIRECTORY_OF[value]
            case "unheard", _:
                return "unheard=" + ",".join(NAME_OF[node_id] for node_id in value)
            case (("leader_id" | "replica_id"), _):
                return f"{name}={NAME_OF[value]}"
        return f"{name}={value}"

    def moved(self, bits):
        return ", ".join(said for bit, said in BITS.items() if bits & bit) or "nothing moved"

    def members(self, proposal):
        return ",".join(NAME_OF[node_id] for node_id in sorted(proposal.broker_ids))
