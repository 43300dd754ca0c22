"""The language of the golden scenarios: commands in, effects out, as text.

A line that begins with ``> `` is a command; the lines below it, up to the next blank line or command, are what the
coordinator did. ``#`` begins a comment. ``play(text)`` runs the commands and writes the whole file anew.

    > settings initial_rebalance_delay_ms=3000     must come first, if at all
    > join A version=5 member=A-1 instance=i protocols=range:meta,roundrobin:meta session=10000 rebalance=60000
    > sync A member=A-1 generation=1 assign=A-1:x,B-2:y
    > heartbeat A member=A-1 generation=1
    > leave A members=A-1,/i version=3              /i names a static member by its instance id alone
    > commit A offsets=t-0:5,t-1:7 member=A-1 generation=1
    > txn-commit A offsets=t-0:5 producer=7/0 member=A-1 generation=1
    > end 7 commit                                  the marker of the producer's transaction; or "abort"
    > fetch t-0 t-1 stable=yes                      no partitions: all
    > delete-offsets A offsets=t-0
    > delete-group A
    > forget-topics t
    > topics t=4                                    of consumer groups (KIP-848); must come first
    > beat a epoch=1 owned=t-0,t-1 names=t instance=i rebalance=300000
    > describe | list
    > advance 3000                                  milliseconds; timers fire on the way
    > committed                                     the oldest write or marker; "all" commits every one
    > failed NOT_ENOUGH_REPLICAS
    > failover 1                                    how many of the uncommitted writes survive (all, if not said)

The group is ``g`` unless ``group=`` says otherwise. The second word names the request, and its answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from consumer_driver import ConsumerDriver
from groups_driver import UNSTABLE, Driver

from minikafka.coordination.effects import CancelTimer, Effect, Respond, SetTimer, Write
from minikafka.errors import ErrorCode
from minikafka.groups.consumer.records import (
    ConsumerGroupRecord,
    CurrentAssignment,
    GroupEpoch,
    ResolvedRegex,
    Subscription,
    TargetMetadata,
)
from minikafka.groups.records import OffsetCommitRecord, decode_record
from minikafka.groups.timers import MemberTimer, RebalanceTimer, RevocationTimer
from minikafka.wire.schema import Message

UNCHANGING = ("client_host", "client_id", "commit_timestamp", "current_state_timestamp", "topic_id")


def play(text: str) -> str:
    """Run the commands of a scenario and return it with what they do."""
    return Scenario().play(text)


class Scenario:
    """One run of a scenario."""

    def __init__(self) -> None:
        self.driver = Driver(auto_commit=False)
        self.asked: Counter[str] = Counter()

    def play(self, text: str) -> str:
        """See :func:`play`."""
        blocks = []
        for block in text.strip().split("\n\n"):
            lines = []
            for line in block.splitlines():
                if line.startswith("#"):
                    lines.append(line)
                elif line.startswith("> "):
                    lines += [line, *self.command(line[2:].partition("#")[0].split())]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks) + "\n"

    def command(self, words: list[str]) -> list[str]:
        """Run a command; returns the lines that tell what it did."""
        verb, *rest = words
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        arguments = [word for word in rest if "=" not in word]
        before = self.states()
        self.driver.effects = []
        lines = getattr(self, verb.replace("-", "_"))(arguments, options) or []
        lines += [line for effect in self.driver.effects for line in self.effect(effect)]
        return lines + self.changes(before)

    def states(self) -> dict[str, str]:
        """How each group stands."""
        return {
            name: f"{group.state.value} generation {group.generation_id} leader {group.leader_id}"
            if group.consumer is None
            else f"{group.consumer.state.value} epoch {group.consumer.epoch}"
            for name, group in self.driver.coordinator.shard.groups.items()
        }

    def changes(self, before: dict[str, str]) -> list[str]:
        """The groups that stand otherwise than before."""
        after = self.states()
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [f"group {name}: {after.get(name, 'forgotten')}" for name in changed]

    def token(self, verb: str, arguments: list[str]) -> str:
        """The name of a request: verb and client, numbered from the second on."""
        name = f"{verb} {arguments[0]}"
        self.asked[name] += 1
        return name if self.asked[name] == 1 else f"{name} #{self.asked[name]}"

    # commands

    def settings(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver = Driver(auto_commit=False, **{key: int(value) for key, value in options.items()})

    def join(self, arguments: list[str], options: dict[str, str]) -> None:
        protocols = dict(item.partition(":")[::2] for item in options.get("protocols", "range:meta").split(","))
        self.driver.join(
            arguments[0],
            group=options.get("group", "g"),
            member=options.get("member", ""),
            instance=options.get("instance"),
            protocols={name: metadata.encode() for name, metadata in protocols.items()},
            protocol_type=options.get("type", "consumer"),
            session_ms=int(options.get("session", 10_000)),
            rebalance_ms=int(options.get("rebalance", 60_000)),
            version=int(options.get("version", 5)),
            token=self.token("join", arguments),
        )

    def topics(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver = ConsumerDriver(
            auto_commit=False, topics={name: int(partitions) for name, partitions in options.items()}
        )

    def beat(self, arguments: list[str], options: dict[str, str]) -> None:
        driver = self.driver
        assert isinstance(driver, ConsumerDriver)
        owned = [partition_of(name) for name in options["owned"].split(",") if name] if "owned" in options else None
        driver.beat(
            arguments[0],
            int(options.get("epoch", 0)),
            owned=None if owned is None else frozenset((driver.some.by_name[name].topic_id, at) for name, at in owned),
            names=options["names"].split(",") if "names" in options else None,
            instance=options.get("instance"),
            rebalance_ms=int(options.get("rebalance", -1)),
            token=self.token("beat", arguments),
        )

    def sync(self, arguments: list[str], options: dict[str, str]) -> None:
        assign = dict(item.split(":") for item in options["assign"].split(",")) if "assign" in options else {}
        self.driver.sync(
            options["member"],
            int(options["generation"]),
            {member: assignment.encode() for member, assignment in assign.items()},
            group=options.get("group", "g"),
            instance=options.get("instance"),
            protocol=options.get("protocol"),
            token=self.token("sync", arguments),
        )

    def heartbeat(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver.heartbeat(
            options["member"],
            int(options["generation"]),
            group=options.get("group", "g"),
            instance=options.get("instance"),
            token=self.token("heartbeat", arguments),
        )

    def leave(self, arguments: list[str], options: dict[str, str]) -> None:
        members = [item.partition("/") for item in options["members"].split(",")]
        self.driver.leave(
            *((member, instance or None) for member, _, instance in members),
            group=options.get("group", "g"),
            version=int(options.get("version", 3)),
            token=self.token("leave", arguments),
        )

    def commit(self, arguments: list[str], options: dict[str, str]) -> None:
        offsets = [item.split(":") for item in options["offsets"].split(",")]
        self.driver.commit(
            {partition_of(name): int(offset) for name, offset in offsets},
            options.get("member", ""),
            int(options.get("generation", -1)),
            group=options.get("group", "g"),
            instance=options.get("instance"),
            version=int(options.get("version", 7)),
            token=self.token("commit", arguments),
        )

    def txn_commit(self, arguments: list[str], options: dict[str, str]) -> None:
        offsets = [item.split(":") for item in options["offsets"].split(",")]
        producer_id, epoch = options["producer"].split("/")
        self.driver.txn_commit(
            {partition_of(name): int(offset) for name, offset in offsets},
            (int(producer_id), int(epoch)),
            options.get("member", ""),
            int(options.get("generation", -1)),
            group=options.get("group", "g"),
            instance=options.get("instance"),
            version=int(options.get("version", 5)),
            token=self.token("txn-commit", arguments),
        )

    def end(self, arguments: list[str], options: dict[str, str]) -> None:
        producer_id, how = arguments
        self.driver.end(int(producer_id), commits={"commit": True, "abort": False}[how])

    def fetch(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        group, stable = options.get("group", "g"), "stable" in options
        fetched = self.driver.fetch(*map(partition_of, arguments), group=group, stable=stable)
        return [
            f"fetched {topic}-{partition}: {'unstable' if offset == UNSTABLE else offset}"
            for (topic, partition), offset in fetched.items()
        ]

    def delete_offsets(self, arguments: list[str], options: dict[str, str]) -> None:
        partitions = map(partition_of, options["offsets"].split(","))
        group = options.get("group", "g")
        self.driver.delete_offsets(*partitions, group=group, token=self.token("delete-offsets", arguments))

    def delete_group(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver.delete_group(options.get("group", "g"), token=self.token("delete-group", arguments))

    def forget_topics(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver.delete_topics(*arguments)
        self.driver.advance(0)

    def list(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        return [show(group) for group in self.driver.coordinator.list_groups(arguments) if group is not None]

    def describe(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        described = self.driver.coordinator.describe_group(options.get("group", "g"))
        return [show(described, without=("members",)), *(f"  {show(member)}" for member in described.members)]

    def advance(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver.advance(int(arguments[0]))

    def committed(self, arguments: list[str], options: dict[str, str]) -> None:
        effects = []
        for _ in range(len(self.driver.appended) if arguments == ["all"] else 1):
            self.driver.committed()
            effects += self.driver.effects
        self.driver.effects = effects

    def failed(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver.failed(ErrorCode[arguments[0]])

    def failover(self, arguments: list[str], options: dict[str, str]) -> None:
        self.driver.failover(int(arguments[0]) if arguments else None)

    # effects

    def effect(self, effect: Effect) -> list[str]:
        """How an effect is written."""
        match effect:
            case Respond(token, response):
                return [f"{token} <- {show(response)}"]
            case Write(_, records, producer):
                where = "" if producer is None else f" as producer {producer.producer_id} in epoch {producer.epoch}"
                return [f"write{where}", *(f"  {show_record(*record)}" for record in records)]
            case SetTimer(MemberTimer(_, member_id), deadline_ms):
                return [f"timer of {member_id} at {deadline_ms}"]
            case SetTimer(RebalanceTimer(), deadline_ms):
                return [f"timer of the phase at {deadline_ms}"]
            case SetTimer(RevocationTimer(_, member_id), deadline_ms):
                return [f"{member_id} has to give partitions up until {deadline_ms}"]
            case CancelTimer(MemberTimer(_, member_id)):
                return [f"no timer of {member_id}"]
            case CancelTimer(RebalanceTimer()):
                return ["no timer of the phase"]
        return []  # timers of writes and of retention: always the same


def partition_of(text: str) -> tuple[str, int]:
    """``t-0`` -> (``t``, 0)."""
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def show(message: Message, without: tuple[str, ...] = ()) -> str:
    """What differs from the defaults, errors by name."""
    default = type(message)()
    parts = []
    for name in message.SCHEMA:
        value: Any = getattr(message, name)
        if value == getattr(default, name) or name in without:
            continue
        if name == "error_code":
            parts.insert(0, ErrorCode(value).name)
        elif isinstance(value, list):
            parts.append(f"{name}=[{', '.join(show_item(item, without) for item in value)}]")
        else:
            parts.append(f"{name}={value.decode() if isinstance(value, bytes) else value}")
    return " ".join(parts) or "ok"


def show_item(item: Any, without: tuple[str, ...]) -> str:
    """An element of a list."""
    return f"({show(item, without)})" if isinstance(item, Message) else str(item)


def show_record(key: bytes, value: bytes | None) -> str:
    """A record of the offsets topic."""
    record = decode_record(key, value)
    assert record is not None
    if isinstance(record, OffsetCommitRecord):
        name = f"offset {record.key.group} {record.key.topic}-{record.key.partition}"
    elif isinstance(record, ConsumerGroupRecord):
        return show_row(record)
    else:
        name = f"group {record.key.group}"
    if record.value is None:
        return f"{name}: tombstone"
    return f"{name}: {show(record.value, without=UNCHANGING)}"


def show_row(record: ConsumerGroupRecord) -> str:
    """A row of a consumer group; of a partition by its index alone, since scenarios have one topic."""
    name = f"{record.kind.name.lower().replace('_', ' ')} {record.group_id} {record.name}".strip()
    match record.value:
        case None:
            return f"{name}: tombstone"
        case GroupEpoch(epoch) | TargetMetadata(epoch):
            return f"{name}: epoch {epoch}"
        case Subscription() as wants:
            return f"{name}: {','.join(wants.topic_names)}{wants.topic_regex} instance {wants.instance_id}"
        case CurrentAssignment() as current:
            assigned, pending = indexes(current.assigned), indexes(current.pending_revocation)
            return f"{name}: epoch {current.member_epoch} {current.state.name} has {assigned} gives up {pending}"
        case ResolvedRegex(topics):
            return f"{name}: {','.join(topics)}"
        case partitions:
            return f"{name}: {indexes(partitions)}"


def indexes(partitions: Mapping[UUID, Iterable[int]]) -> list[int]:
    """Of all topics."""
    return sorted(index for some in partitions.values() for index in some)
