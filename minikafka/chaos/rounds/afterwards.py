"""What is looked at when a round is over: files of the nodes, their logs, and who led when."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from minikafka.chaos.last_words import reason
from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.probe import ClusterView
from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds.elections import Leaders, disagreements, leaders_in
from minikafka.chaos.rounds.observer import Epoch
from minikafka.errors import KafkaError
from minikafka.metadata.codec import MalformedError
from minikafka.metadata.records import Record as MetadataRecord
from minikafka.metadata.records import decode_record
from minikafka.model import CLUSTER_METADATA_TOPIC
from minikafka.records.batch import parse_header
from minikafka.records.read import iter_records
from minikafka.storage.disk import OsDisk
from minikafka.storage.dump import DumpedBatch, dump_log

TRACEBACK: Final = "Traceback (most recent call last)"
CRITICAL: Final = "critical"
DISK_FULL: Final = os.strerror(errno.ENOSPC).lower()
EXAMPLES: Final = 3
LEADERS_OF_LOG: Final = "the metadata log has one leader for each epoch"


def replicas_are_equal(layout: ClusterLayout, view: ClusterView, topics: Iterable[str]) -> Finding:
    """All replicas of each partition have the same bytes. Only when all are in sync, and nobody writes."""
    wrong = []
    wanted = frozenset(topics)
    count = 0
    for partition in view.partitions:
        if partition.topic not in wanted:
            continue
        name = f"{partition.topic}-{partition.partition}"
        contents = {node: _batches(layout, node, name) for node in partition.replicas}
        count += sum(len(each) for each in contents.values())
        wrong += [f"{name}: {sentence}" for sentence in _differences(contents, whole=True)]
    return Finding(
        "replicas are byte-equal", not wrong and count > 0, _sentence(wrong, f"{count:,} batches of replicas compared")
    )


def metadata_logs_agree(layout: ClusterLayout) -> Finding:
    """Wherever two voters have a batch at one offset of the metadata log, it is the same."""
    contents = {node: _batches(layout, node, f"{CLUSTER_METADATA_TOPIC}-0") for node in layout.voter_ids}
    wrong = _differences(contents, whole=False)
    count = sum(len(each) for each in contents.values())
    return Finding(
        "voters agree on the metadata log", not wrong and count > 0, _sentence(wrong, f"{count:,} batches compared")
    )


def metadata_log_names_the_leaders(layout: ClusterLayout, seen: Leaders) -> Finding:
    """In the log of a voter each leader epoch has one leader, which is the one that nodes named during the round."""
    logs = [_batches(layout, node, f"{CLUSTER_METADATA_TOPIC}-0") for node in layout.voter_ids]
    longest = max(logs, key=lambda batches: max(batches, default=-1))
    if min(longest, default=0) > 0:
        return Finding(LEADERS_OF_LOG, True, "not judged: the log begins with a snapshot")
    try:
        written = leaders_in(_records(longest))
    except (KafkaError, MalformedError, KeyError) as error:
        return Finding(LEADERS_OF_LOG, False, f"the log cannot be read: {error!r}")
    wrong = disagreements(written, seen)
    return Finding(
        LEADERS_OF_LOG,
        not wrong and bool(written),
        _sentence(wrong, f"{len(written):,} leader epochs written, {len(seen):,} of them named"),
    )


def one_leader_per_epoch(leaders: dict[Epoch, set[int]]) -> Finding:
    """Of all that nodes answered during a round."""
    wrong = [
        f"{epoch.topic}-{epoch.partition} epoch {epoch.epoch}: {sorted(nodes)}"
        for epoch, nodes in leaders.items()
        if len(nodes) > 1
    ]
    return Finding(
        "each leader epoch has one leader", not wrong, _sentence(wrong, f"{len(leaders):,} epochs of partitions seen")
    )


def nodes_name_the_same_leaders(views: Iterable[ClusterView], topics: Iterable[str]) -> Finding:
    """Of all that answer when the cluster is whole: one whose metadata stays old sends clients astray."""
    views, wanted = list(views), frozenset(topics)
    named: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for view in views:
        for each in view.partitions:
            if each.topic in wanted:
                named[f"{each.topic}-{each.partition}"].add((each.leader_id, each.leader_epoch))
    wrong = [
        f"{name}: " + ", ".join(f"node {leader} in epoch {epoch}" for leader, epoch in sorted(leaders))
        for name, leaders in sorted(named.items())
        if len(leaders) > 1
    ]
    return Finding(
        "nodes name the same leaders at the end",
        not wrong and bool(named),
        _sentence(wrong, f"{len(views)} nodes asked for {len(named)} partitions"),
    )


def no_tracebacks(layout: ClusterLayout) -> Finding:
    """In no log of a node."""
    wrong = []
    for node in layout.node_ids:
        for path in sorted(layout.log_file(node).parent.glob("broker.log*")):
            text = path.read_text(errors="replace")
            wrong += [f"{path.name} of node {node}: {_around(text)}"] * (TRACEBACK in text)
    return Finding("no log has a traceback", not wrong, _sentence(wrong, f"{len(layout.node_ids)} logs read"))


def no_node_stopped(layout: ClusterLayout, *, may_disk_be_full: bool) -> Finding:
    """By itself: what a fault kills has no such line in its log, and is started again as one that stopped would be.

    A node whose disk is full must stop.
    """
    wrong = []
    for node in layout.node_ids:
        for path in sorted(layout.log_file(node).parent.glob("broker.log*")):
            for line in path.read_text(errors="replace").splitlines():
                said = reason(line) if CRITICAL in line else None
                if said is not None and not (may_disk_be_full and DISK_FULL in said.lower()):
                    wrong.append(f"node {node}: {said}")
    return Finding("no node stopped by itself", not wrong, _sentence(wrong, f"{len(layout.node_ids)} logs read"))


def _around(text: str) -> str:
    """The line above the first traceback, and the last of it."""
    before, _, after = text.partition(TRACEBACK)
    last = next((line for line in after.splitlines()[1:] if line and not line.startswith((" ", "\t"))), "")
    return f"{before.rstrip().rpartition(chr(10))[2]} ... {last}"


def _batches(layout: ClusterLayout, node: int, name: str) -> dict[int, bytes]:
    """By base offset; a damaged batch is empty."""
    found: dict[int, bytes] = {}
    directories = [Path(each) for each in layout.data_directory(node).parent.glob(f"data*/{name}")]
    for directory in directories:
        for segment in sorted(directory.glob("*.log")):
            for batch in dump_log(OsDisk(), str(segment)):
                if isinstance(batch, DumpedBatch):
                    found[batch.header.base_offset] = batch.data if batch.is_valid else b""
                else:
                    found[-1] = b""
    return found


def _records(batches: dict[int, bytes]) -> Iterator[MetadataRecord]:
    """Damaged batches are named elsewhere."""
    for data in filter(None, (data for _, data in sorted(batches.items()))):
        header = parse_header(data)
        if not header.is_control:
            yield from (decode_record(record.value or b"") for record in iter_records(data, 0, header))


def _differences(contents: dict[int, dict[int, bytes]], *, whole: bool) -> list[str]:
    by_offset: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
    for node, batches in contents.items():
        for offset, data in batches.items():
            by_offset[offset][node] = data
    wrong = []
    for offset, copies in sorted(by_offset.items()):
        if b"" in copies.values():
            wrong.append(f"offset {offset} is damaged on node {[node for node, data in copies.items() if not data]}")
        elif len(set(copies.values())) > 1:
            wrong.append(f"offset {offset} differs between nodes {sorted(copies)}")
        elif whole and len(copies) < len(contents):
            wrong.append(f"offset {offset} is on nodes {sorted(copies)} of {sorted(contents)} only")
    return wrong


def _sentence(wrong: list[str], otherwise: str) -> str:
    if not wrong:
        return otherwise
    more = f" and {len(wrong) - EXAMPLES:,} more" if len(wrong) > EXAMPLES else ""
    return "; ".join(wrong[:EXAMPLES]) + more
