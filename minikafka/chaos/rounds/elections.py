"""Who led each epoch of each partition, by the records of the metadata log. Pure.

A record names a leader. That begins the next leader epoch, whoever it is; a new partition tells its first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from uuid import UUID

from minikafka.chaos.rounds.observer import Epoch
from minikafka.metadata.records import PartitionChangeRecord, PartitionRecord, Record, TopicRecord

Leaders = Mapping[Epoch, Set[int]]


def leaders_in(records: Iterable[Record]) -> dict[Epoch, set[int]]:
    """By epoch, from the whole log in order; -1: the partition had no leader."""
    names: dict[UUID, str] = {}
    epochs: dict[tuple[UUID, int], int] = {}
    found: defaultdict[Epoch, set[int]] = defaultdict(set)
    for record in records:
        match record:
            case TopicRecord(name, topic_id):
                names[topic_id] = name
                continue
            case PartitionRecord():
                epochs[record.topic_id, record.partition] = record.leader_epoch
                leader = record.leader
            case PartitionChangeRecord(topic_id=topic_id, partition=partition, leader=int(leader)):
                epochs[topic_id, partition] += 1
            case _:
                continue
        epoch = epochs[record.topic_id, record.partition]
        found[Epoch(names[record.topic_id], record.partition, epoch)].add(leader)
    return dict(found)


def disagreements(written: Leaders, seen: Leaders) -> list[str]:
    """A sentence for each epoch with two leaders in the log, and for each that nodes named with another one."""
    twice = [f"{_named(epoch)} has leaders {sorted(nodes)}" for epoch, nodes in written.items() if len(nodes) > 1]
    others = [
        f"{_named(epoch)} has leader {sorted(written.get(epoch, ())) or 'none'}, and nodes named {sorted(nodes)}"
        for epoch, nodes in seen.items()
        if not nodes <= written.get(epoch, set())
    ]
    return twice + others


def _named(epoch: Epoch) -> str:
    return f"{epoch.topic}-{epoch.partition} epoch {epoch.epoch}"
