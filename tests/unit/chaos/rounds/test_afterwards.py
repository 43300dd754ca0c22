"""What is looked at after a round: each wrong thing is found, and named."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.probe import ClusterView, PartitionView
from minikafka.chaos.rounds.afterwards import (
    metadata_log_names_the_leaders,
    metadata_logs_agree,
    no_node_stopped,
    no_tracebacks,
    nodes_name_the_same_leaders,
    one_leader_per_epoch,
    replicas_are_equal,
)
from minikafka.chaos.rounds.observer import Epoch
from minikafka.metadata.records import PartitionRecord, TopicRecord, encode_record
from minikafka.records.build import build_batch
from minikafka.records.record import Record

VIEW = ClusterView("c", 1, frozenset((1, 2)), (PartitionView("t", 0, 1, (1, 2), (1, 2), 0),))

LEADERS = (("t", 1, 3), ("t", 2, 4), ("another", 1, 0))


@pytest.fixture
def layout(tmp_path: Path) -> ClusterLayout:
    layout = ClusterLayout.create(tmp_path / "cluster", 2, 20_000, {})
    layout.write_files()
    for node in (1, 2):
        write(layout, node, "t-0", [batch(0, b"a"), batch(1, b"b")])
        write(layout, node, "__cluster_metadata-0", [batch(0, b"a")])
        layout.log_file(node).write_text("started\n")
    return layout


def batch(offset: int, value: bytes) -> bytes:
    return bytes(build_batch([Record(0, 0, None, value, ())], base_offset=offset))


def write(layout: ClusterLayout, node: int, name: str, batches: list[bytes]) -> None:
    directory = layout.data_directory(node) / name
    directory.mkdir(exist_ok=True)
    (directory / "00000000000000000000.log").write_bytes(b"".join(batches))


def test_equal_replicas_are_equal(layout: ClusterLayout) -> None:
    found = replicas_are_equal(layout, VIEW, ["t"])
    assert (found.ok, found.sentence) == (True, "4 batches of replicas compared")


@pytest.mark.parametrize(
    ("batches", "sentence"),
    [
        ([batch(0, b"a")], "t-0: offset 1 is on nodes [1] of [1, 2] only"),
        ([batch(0, b"a"), batch(1, b"c")], "t-0: offset 1 differs between nodes [1, 2]"),
        ([batch(0, b"a"), batch(1, b"b")[:-1] + b"?"], "t-0: offset 1 is damaged on node [2]"),
        ([batch(0, b"a"), batch(1, b"b")[:-1]], "t-0: offset -1 is damaged on node [2]"),
    ],
)
def test_other_replicas_are_not(layout: ClusterLayout, batches: list[bytes], sentence: str) -> None:
    write(layout, 2, "t-0", batches)
    found = replicas_are_equal(layout, VIEW, ["t"])
    assert not found.ok
    assert found.sentence.startswith(sentence)
    nothing = replicas_are_equal(layout, VIEW, ["another"])
    assert (nothing.ok, nothing.sentence) == (False, "0 batches of replicas compared")


def test_voters_may_lack_what_others_have_and_not_differ(layout: ClusterLayout) -> None:
    write(layout, 2, "__cluster_metadata-0", [batch(0, b"a"), batch(1, b"b")])
    assert metadata_logs_agree(layout).ok
    write(layout, 2, "__cluster_metadata-0", [batch(0, b"z")])
    assert metadata_logs_agree(layout).sentence == "offset 0 differs between nodes [1, 2]"


def test_two_leaders_of_one_epoch_are_named() -> None:
    assert one_leader_per_epoch({Epoch("t", 0, 1): {1}, Epoch("t", 0, 2): {2}}).ok
    found = one_leader_per_epoch({Epoch("t", 0, 1): {1, 2}})
    assert (found.ok, found.sentence) == (False, "t-0 epoch 1: [1, 2]")


def test_the_leaders_that_nodes_named_are_those_of_the_metadata_log(layout: ClusterLayout) -> None:
    topic = UUID(int=7)
    records = [TopicRecord("t", topic), PartitionRecord(topic, 0, (1, 2), (1, 2), 2)]
    values = [Record(0, 0, None, encode_record(each), ()) for each in records]
    write(layout, 1, "__cluster_metadata-0", [bytes(build_batch(values))])
    found = metadata_log_names_the_leaders(layout, {Epoch("t", 0, 0): {2}})
    assert (found.ok, found.sentence) == (True, "1 leader epochs written, 1 of them named")
    found = metadata_log_names_the_leaders(layout, {Epoch("t", 0, 0): {1}})
    assert (found.ok, found.sentence) == (False, "t-0 epoch 0 has leader [2], and nodes named [1]")
    write(layout, 2, "__cluster_metadata-0", [bytes(build_batch(values, base_offset=7))])
    assert metadata_log_names_the_leaders(layout, {}).sentence.startswith("not judged")


def test_a_traceback_is_named_with_what_was_said(layout: ClusterLayout) -> None:
    assert no_tracebacks(layout).ok
    text = "a task failed\nTraceback (most recent call last):\n  File x\n    1 / 0\nZeroDivisionError: by zero\nmore\n"
    layout.log_file(2).write_text(text)
    found = no_tracebacks(layout)
    assert not found.ok
    assert found.sentence == f"broker.log of node 2: a task failed ... ZeroDivisionError: by zero{os.linesep}".rstrip()


def test_a_node_whose_metadata_stays_old_is_found() -> None:
    old, new, other = (PartitionView(topic, 0, leader, (1, 2), (1, 2), epoch) for topic, leader, epoch in LEADERS)
    views = [VIEW._replace(partitions=partitions) for partitions in ((old, other), (new,), (new,))]
    found = nodes_name_the_same_leaders(views, ["t"])
    assert (found.ok, found.sentence) == (False, "t-0: node 1 in epoch 3, node 2 in epoch 4")
    found = nodes_name_the_same_leaders(views[1:], ["t"])
    assert (found.ok, found.sentence) == (True, "2 nodes asked for 1 partitions")
    assert not nodes_name_the_same_leaders([], ["t"]).ok


STOPPED = (
    "2026-01-01T00:00:00.000000Z [critical ] the node stops                 node=2 remedy='mend the disk' "
    "why='KAFKA_STORAGE_ERROR: could not append: [Errno 28] No space left on device'\n"
)


def test_a_node_that_stopped_by_itself_is_named(layout: ClusterLayout) -> None:
    """A round passed in which a node had stopped: it was started again with those that faults had killed."""
    assert no_node_stopped(layout, may_disk_be_full=False).ok
    layout.log_file(2).write_text("started\n" + STOPPED + "started again\n")
    found = no_node_stopped(layout, may_disk_be_full=False)
    assert not found.ok
    assert found.sentence.startswith("node 2: the node stops: KAFKA_STORAGE_ERROR: could not append")
    assert no_node_stopped(layout, may_disk_be_full=True).ok, "its disk was full"
    layout.log_file(2).write_text(STOPPED.replace("No space left on device", "Input/output error"))
    assert not no_node_stopped(layout, may_disk_be_full=True).ok
