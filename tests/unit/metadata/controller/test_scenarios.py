"""Golden scenarios of the controller: each file is a list of what is asked of it, with everything it did below that.

A file is rewritten from what the code does now with ``REWRITE_GOLDEN=1``; the difference is then reviewed as any other.
The words of a scenario are the ``do_*`` methods below. A command takes 1 ms, ``wait`` as long as it says. A broker is
its incarnation that registered last; topics are printed by name.
"""

from __future__ import annotations

import os
import random
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import UUID

import controller_requests as ask
import pytest

from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.controller import Controller
from minikafka.metadata.controller.elections import ElectionType
from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import PartitionChangeRecord, Record
from minikafka.model import NO_EPOCH, Endpoint, OffsetAndEpoch, TopicPartition
from minikafka.wire.schema import Message

SCENARIOS = sorted((Path(__file__).parents[3] / "golden" / "controller").glob("*.txt"))
CLUSTER = "golden"
HEARTBEAT_MS = 500


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
@pytest.mark.spec("C3")
@pytest.mark.spec("C4")
@pytest.mark.spec("R20")
@pytest.mark.spec("A3")
@pytest.mark.spec("P1")
def test_scenario(path: Path) -> None:
    played = play(path.read_text())
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(played)
    assert played == path.read_text()


def play(text: str) -> str:
    """The scenario with its output as it is now: lines that begin with two blanks are output."""
    scenario = Scenario()
    out: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        out.append(line)
        if line and not line.startswith("#"):
            out += [f"  {printed}" for printed in scenario.run(line)]
    return "\n".join(out) + "\n"


class Scenario:
    """One controller after another, and the log they share."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.epoch = 0
        self.settings: dict[str, str] = {}
        self.image: MetadataImage = EMPTY_IMAGE  # what the log says
        self.names: dict[UUID, str] = {}
        self.epochs: dict[int, int] = {}
        self.incarnations = 0
        self.controller = Controller(1, CLUSTER, BrokerConfig(), random.Random(0))

    def run(self, line: str) -> list[str]:
        verb, *words = line.split()
        positional = [word for word in words if "=" not in word]
        named = dict(word.split("=", 1) for word in words if "=" in word)
        try:
            return getattr(self, f"do_{verb.replace('-', '_')}")(*positional, **named)
        except KafkaError as error:
            return [f"! {error}"]

    # -- words ------------------------------------------------------------------------------------------------------

    def do_controller(self, **settings: str) -> list[str]:
        """A controller takes over, with the settings given so far."""
        self.settings |= settings
        self.epoch += 1
        config = BrokerConfig({name.replace("_", "."): value for name, value in self.settings.items()})
        self.controller = Controller(1, CLUSTER, config, random.Random(self.epoch))
        self.now_ms += 1
        return self.append(self.controller.activate(self.image, self.epoch, self.now_ms))

    def do_register(
        self,
        broker: str,
        *how: str,
        rack: str | None = None,
        same: str = "",
        cluster: str = CLUSTER,
        dirs: str = "",
        synced: str = "",
    ) -> list[str]:
        """A process starts. It continues the registration before unless it returns after ``power-loss``, of which the
        topic ``synced`` lost nothing."""
        claimed = self.image.topic(synced)
        self.incarnations += not same
        endpoint = Endpoint("localhost", 9000 + int(broker))
        request = ask.register(
            {"CLIENT": endpoint},
            broker_id=int(broker),
            cluster_id=cluster,
            incarnation_id=UUID(int=self.incarnations),
            rack=rack,
            log_dirs=directories(dirs),
            previous_broker_epoch=NO_EPOCH if "power-loss" in how else self.epochs.get(int(broker), NO_EPOCH),
            synced_topics=() if claimed is None else (claimed.topic_id,),
            recorded_broker_epoch=self.epochs.get(int(broker), NO_EPOCH),
        )
        outcome = self.controller.handle(request, self.now_ms)
        self.epochs[int(broker)] = outcome.response.broker_epoch
        return self.shown(outcome)

    def do_heartbeat(self, broker: str, *wishes: str, at: str = "", epoch: str = "", failed: str = "") -> list[str]:
        offset = int(at) if at else self.image.offset
        broker_epoch = int(epoch) if epoch else self.epochs[int(broker)]
        return self.handle(
            ask.heartbeat(
                int(broker),
                broker_epoch,
                offset,
                want_fence="fence" in wishes,
                want_shut_down="shutdown" in wishes,
                offline_log_dirs=directories(failed),
            )
        )

    def do_join(self, *brokers: str, dirs: str = "") -> list[str]:
        """Register and unfence brokers, in rack r<id>; quietly. ``dirs`` with a ``*`` for the id."""
        for broker in brokers:
            self.do_register(broker, rack=f"r{broker}", dirs=dirs.replace("*", broker))
            self.do_heartbeat(broker)
        return []

    def do_fence(self, broker: str, epoch: str = "") -> list[str]:
        self.now_ms += 1
        broker_epoch = int(epoch or self.epochs[int(broker)])
        return self.append(self.controller.fence_gone(int(broker), broker_epoch, self.now_ms))

    def do_wait(self, milliseconds: str, alive: str = "") -> list[str]:
        """Time passes; the brokers in ``alive`` send heartbeats."""
        out: list[str] = []
        end_ms = self.now_ms + int(milliseconds)
        next_heartbeat_ms = self.now_ms
        while self.now_ms < end_ms:
            if self.now_ms >= next_heartbeat_ms:
                next_heartbeat_ms += HEARTBEAT_MS
                for broker in filter(None, alive.split(",")):
                    request = ask.heartbeat(int(broker), self.epochs[int(broker)], self.image.offset)
                    out += self.append(self.controller.handle(request, self.now_ms).records)
            deadline_ms = self.controller.next_deadline_ms()
            assert deadline_ms is not None
            assert deadline_ms > self.now_ms
            self.now_ms = min(end_ms, next_heartbeat_ms, deadline_ms)
            printed = self.append(self.controller.tick(self.now_ms))
            out += [f"at {self.now_ms} ms", *printed] if printed else []
        return out

    def do_create(self, *names: str, assign: str = "", p: str = "-1", rf: str = "-1", **configs: str) -> list[str]:
        replicas = [tuple(map(int, one.split(","))) for one in assign.split(";") if assign]
        settings = tuple((name.replace("_", "."), value) for name, value in configs.items())
        topics = tuple(ask.topic(name, int(p), int(rf), enumerate(replicas), settings) for name in names)
        return self.handle(ask.create(*topics))

    def do_delete(self, *names: str) -> list[str]:
        return self.handle(ask.delete(*map(ask.named, names)))

    def do_isr(self, where: str, isr: str, by: str = "", le: str = "", pe: str = "", epochs: str = "") -> list[str]:
        """The leader proposes an ISR; leader epoch, partition epoch and broker epochs can be said to be others."""
        name, _, index = where.rpartition("-")
        topic = self.image.topics_by_name[name]
        partition = topic.partitions[int(index)]
        stale = dict(pair.split(":") for pair in epochs.split(",") if pair)
        members = tuple(
            ask.member(int(one), int(stale.get(one, self.epochs.get(int(one), NO_EPOCH)))) for one in isr.split(",")
        )
        change = ask.proposal(
            topic.topic_id, int(index), int(le or partition.leader_epoch), int(pe or partition.partition_epoch), members
        )
        leader = int(by) if by else partition.leader
        return self.handle(ask.propose(leader, self.epochs[leader], change))

    def do_set(self, topic: str, **settings: str) -> list[str]:
        operations = tuple(
            (name.replace("_", "."), 0 if value else 1, value or None) for name, value in settings.items()
        )
        return self.handle(ask.alter(ask.change(2, topic, *operations)))

    def do_elect(self, election_type: str, *partitions: str) -> list[str]:
        wheres = tuple(TopicPartition(name, int(i)) for name, _, i in (one.rpartition("-") for one in partitions))
        return self.handle(ask.elect(ElectionType[election_type.upper()], wheres or None))

    def do_reassign(self, *partitions: str, rf: str = "free") -> list[str]:
        """``t-0:1,2,3`` begins or replaces a reassignment, ``t-0:cancel`` ends it; ``rf=kept`` forbids another one."""
        topics = []
        for one in partitions:
            where, _, replicas = one.partition(":")
            name, _, index = where.rpartition("-")
            wish = None if replicas == "cancel" else tuple(int(each) for each in replicas.split(",") if each)
            topics.append(ask.wish(name, (int(index), wish)))
        request = ask.reassign(*topics, allow_replication_factor_change=rf != "kept")
        return self.handle(request)

    def do_unregister(self, broker: str) -> list[str]:
        return self.handle(ask.unregister(int(broker)))

    def do_place(self, broker: str, where: str, directory: str) -> list[str]:
        """The broker tells in which directory its replica is."""
        name, _, index = where.rpartition("-")
        topic_id = self.image.topics_by_name[name].topic_id
        assignment = ask.placed(topic_id, int(index), *directories(directory))
        return self.handle(ask.assign(int(broker), self.epochs[int(broker)], assignment))

    def do_producer_ids(self, broker: str) -> list[str]:
        return self.handle(ask.allocate(int(broker), self.epochs[int(broker)]))

    def do_show(self, *topics: str) -> list[str]:
        return [
            f"{name}-{index}: leader {one.leader} in {one.leader_epoch}, "
            f"isr {ids(one.isr) or 'none'} of {ids(one.replicas)}, "
            + "".join(
                f"{what} {ids(some)}, "
                for what, some in (
                    ("elr", one.elr),
                    ("last leader", one.last_known_elr),
                    ("adding", one.adding_replicas),
                    ("removing", one.removing_replicas),
                )
                if some
            )
            + f"partition epoch {one.partition_epoch}"
            for name in topics
            for index, one in self.image.topics_by_name[name].partitions.items()
        ]

    # -- printing ---------------------------------------------------------------------------------------------------

    def handle(self, request: Message) -> list[str]:
        self.now_ms += 1
        return self.shown(self.controller.handle(request, self.now_ms))

    def shown(self, outcome: Any) -> list[str]:
        return [*self.append(outcome.records), *self.responses(outcome.response)]

    def append(self, records: tuple[Record, ...]) -> list[str]:
        """Append to the log and replay, as every node does."""
        last = OffsetAndEpoch(self.image.offset + len(records), self.epoch)
        self.image = replay_records(self.image, records, last)
        assert self.image == self.controller.image or not records
        self.names |= self.image.topic_names
        return [self.record(record) for record in records]

    def record(self, record: Record) -> str:
        shown = [type(record).__name__.removesuffix("Record")]
        for field in fields(record):
            value = getattr(record, field.name)
            if value is None or (value in ((), NO_EPOCH) and not isinstance(record, PartitionChangeRecord)):
                continue
            if field.name not in ("listeners", "incarnation_id"):
                shown.append(f"{field.name}={self.value(value)}")
        return " ".join(shown)

    def value(self, value: Any) -> str:
        if isinstance(value, UUID):
            return self.names.get(value, str(value))
        if isinstance(value, (tuple, list)):
            return ids(tuple(one.int if isinstance(one, UUID) else one for one in value)) or "none"
        return getattr(value, "name", str(value))

    def responses(self, response: Message) -> list[str]:
        """A line for each thing that has an error of its own, or one for the whole."""
        parts = next((part for name in response.SCHEMA if isinstance(part := getattr(response, name), list)), None)
        if parts is None:
            return [self.result(response)]
        each = (self.responses(part) if "error_code" not in part.SCHEMA else [self.result(part)] for part in parts)
        return [line for lines in each for line in lines]

    def result(self, result: Any) -> str:
        if result.error_code:
            return f"> {ErrorCode.of(result.error_code).name}: {result.error_message}"
        shown = [f"{name}={self.value(getattr(result, name))}" for name in result.SCHEMA if name not in NOT_SHOWN]
        return "> " + (" ".join(shown) or "done")


NOT_SHOWN = {
    "allow_replication_factor_change",
    "configs",
    "error_code",
    "error_message",
    "leader_recovery_state",
    "throttle_time_ms",
    "topic_config_error_code",
    "topic_id",
}


def directories(numbers: str) -> tuple[UUID, ...]:
    return tuple(UUID(int=int(number)) for number in numbers.split(",") if number)


def ids(numbers: tuple[Any, ...]) -> str:
    return ",".join(map(str, numbers))
