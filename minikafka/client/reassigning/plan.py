"""The JSON files of Kafka's reassignment tool, checked when read; Kafka's tool reads the written ones (row A1).

A malformed file is refused as a whole, with one sentence that names the entry (row A2).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from minikafka.model import TopicPartition

VERSION: Final = 1
ANY: Final = "any"


class PlanError(ValueError):
    """What is wrong with a plan; nothing was changed."""


class Placement(NamedTuple):
    """Where a partition is to be: its brokers, the preferred leader first, and per broker a log directory or "any"."""

    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()

    def directories(self) -> Iterator[tuple[int, str]]:
        """(broker, path) of the replicas whose directory is named."""
        return ((broker, path) for broker, path in zip(self.replicas, self.log_dirs, strict=False) if path != ANY)


Plan = Mapping[TopicPartition, Placement]


def parse_plan(text: str) -> dict[TopicPartition, Placement]:
    """The plan of a reassignment file: ``{"version": 1, "partitions": [{"topic", "partition", "replicas", ...}]}``."""
    plan: dict[TopicPartition, Placement] = {}
    for index, entry in enumerate(_entries(text, "partitions")):
        tp = _partition(entry, f"partitions[{index}]")
        name = f"partitions[{index}] ({tp})"
        if tp in plan:
            raise PlanError(f"{name}: duplicate partition")
        plan[tp] = _placement(entry, name)
    return plan


def parse_topics(text: str) -> list[str]:
    """The names of a topics-to-move file: ``{"version": 1, "topics": [{"topic": "foo"}]}``."""
    names: list[str] = []
    for index, entry in enumerate(_entries(text, "topics")):
        name = _text(entry, "topic", f"topics[{index}]")
        if name in names:
            raise PlanError(f"topics[{index}] ({name}): duplicate topic")
        names.append(name)
    return names


def parse_partitions(text: str) -> list[TopicPartition]:
    """The partitions of an election file: ``{"partitions": [{"topic": "foo", "partition": 0}]}``."""
    partitions: list[TopicPartition] = []
    for index, entry in enumerate(_entries(text, "partitions")):
        tp = _partition(entry, f"partitions[{index}]")
        if tp in partitions:
            raise PlanError(f"partitions[{index}] ({tp}): duplicate partition")
        partitions.append(tp)
    return partitions


def placed(assignment: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, Placement]:
    """An assignment as a plan, in any log directory."""
    return {tp: Placement(tuple(replicas)) for tp, replicas in assignment.items()}


def to_json(plan: Plan) -> str:
    """The file, on one line, partitions in order."""
    partitions = []
    for tp, placement in sorted(plan.items()):
        log_dirs = placement.log_dirs or (ANY,) * len(placement.replicas)
        partitions.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": list(placement.replicas),
                "log_dirs": list(log_dirs),
            }
        )
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def _entries(text: str, key: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # of lists in lists in lists
        raise PlanError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PlanError(f'not a JSON object; expected {{"version": 1, "{key}": [...]}}')
    version = document.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise PlanError(f"version is {version!r}; it must be {VERSION}")
    entries = document.get(key)
    if not isinstance(entries, list) or not entries:
        raise PlanError(f"{key} is empty" if entries == [] else f"{key}: missing, or not a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise PlanError(f"{key}[{index}]: not an object: {entry!r}")
    return entries


def _partition(entry: dict[str, Any], name: str) -> TopicPartition:
    topic, partition = _text(entry, "topic", name), entry.get("partition")
    if type(partition) is not int or partition < 0:
        raise PlanError(f"{name} ({topic}): partition is {partition!r}; it must be a number from 0 on")
    return TopicPartition(topic, partition)


def _text(entry: dict[str, Any], key: str, name: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise PlanError(f"{name}: {key} is {value!r}; it must be a name")
    return value


def _placement(entry: dict[str, Any], name: str) -> Placement:
    replicas = entry.get("replicas")
    if not isinstance(replicas, list) or not all(type(broker) is int and broker >= 0 for broker in replicas):
        raise PlanError(f"{name}: replicas is {replicas!r}; it must be a list of broker ids")
    if not replicas:
        raise PlanError(f"{name}: replicas is empty; name at least one broker")
    for broker in replicas:
        if replicas.count(broker) > 1:
            raise PlanError(f"{name}: duplicate broker {broker} in replicas {replicas}")
    log_dirs = entry.get("log_dirs")
    if log_dirs is None:
        return Placement(tuple(replicas))
    if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
        count = len(log_dirs) if isinstance(log_dirs, list) else repr(log_dirs)
        raise PlanError(f"{name}: log_dirs has {count} entries for {len(replicas)} replicas; it must have one for each")
    for path in log_dirs:
        if not isinstance(path, str) or not (path == ANY or path.startswith("/")):
            raise PlanError(f'{name}: log directory {path!r} is neither "any" nor an absolute path')
    return Placement(tuple(replicas), tuple(log_dirs))
