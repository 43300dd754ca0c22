"""Who led, by the records of the metadata log, beside whom nodes named."""

from __future__ import annotations

from uuid import UUID

from minikafka.chaos.rounds.elections import disagreements, leaders_in
from minikafka.chaos.rounds.observer import Epoch
from minikafka.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord

ID = UUID(int=7)
LOG = [
    TopicRecord("t", ID),
    PartitionRecord(ID, 0, (1, 2), (1, 2), 1, leader_epoch=4),
    PartitionChangeRecord(ID, 0, isr=(1,)),
    PartitionChangeRecord(ID, 0, leader=2),
    PartitionChangeRecord(ID, 0, leader=-1),
    PartitionChangeRecord(ID, 0, leader=2),
]
WRITTEN = {Epoch("t", 0, 4): {1}, Epoch("t", 0, 5): {2}, Epoch("t", 0, 6): {-1}, Epoch("t", 0, 7): {2}}


def test_each_record_with_a_leader_begins_an_epoch() -> None:
    assert leaders_in(LOG) == WRITTEN
    assert disagreements(WRITTEN, {Epoch("t", 0, 5): {2}, Epoch("t", 0, 7): {2}}) == []


def test_a_partition_that_is_written_twice_has_two_leaders_of_an_epoch() -> None:
    written = leaders_in([*LOG, PartitionRecord(ID, 0, (1, 2), (1, 2), 2, leader_epoch=4)])
    assert disagreements(written, {}) == ["t-0 epoch 4 has leaders [1, 2]"]


def test_whom_nodes_named_is_in_the_log() -> None:
    seen = {Epoch("t", 0, 4): {2}, Epoch("t", 0, 6): {1}, Epoch("t", 0, 8): {1}}
    assert disagreements(WRITTEN, seen) == [
        "t-0 epoch 4 has leader [1], and nodes named [2]",
        "t-0 epoch 6 has leader [-1], and nodes named [1]",
        "t-0 epoch 8 has leader none, and nodes named [1]",
    ]
