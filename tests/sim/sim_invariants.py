"""What must hold after every step of a simulated cluster, whatever was done to it.

* one leader of the metadata quorum per epoch;
* one leader per partition and leader epoch;
* a high watermark is at most the log end, and what lies below it, on whichever replica, never changes: every replica
  has the same batches there (row P1, "log matching");
* who becomes leader has everything that was ever below a high watermark ("leader completeness").

After the cluster has healed, :meth:`Invariants.check_healed` compares whole logs, and judges what ended by itself.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from sim_cluster import Machine, SimulatedCluster

from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.model import TopicPartition
from minikafka.records.batch import parse_header
from minikafka.testing.inodes import Directory, Inode
from minikafka.testing.loop import Process

Where = tuple[TopicPartition, UUID]
Batch = tuple[int, int, int]


class InvariantViolatedError(AssertionError):
    """The cluster did what it must never do."""


class Cursor(NamedTuple):
    """How far a replica's log was compared: up to ``offset``, which is at ``position`` of the segment ``segment``."""

    segment: str
    position: int
    offset: int


class Invariants:
    """Watches a cluster: call :meth:`after_turn` after each turn of one of its processes."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._quorum_leaders: dict[int, int] = {}
        self._leaders: dict[tuple[Where, int], tuple[int, int]] = {}
        self._committed: dict[Where, dict[int, Batch]] = {}
        self._committed_end: dict[Where, int] = {}
        self._cursors: dict[tuple[int, int, Where], Cursor] = {}
        self.checked = 0

    def after_turn(self, process: Process) -> None:
        """Raises InvariantViolatedError, naming what is wrong."""
        machine = self._cluster.machine_of(process)
        if machine is None or machine.node is None:
            return
        self.checked += 1
        self._check_quorum(machine, machine.node)
        for partition in machine.node.replicas:
            self._check_partition(machine, partition)

    def _check_quorum(self, machine: Machine, node: Node) -> None:
        raft = node.control_plane.raft.machine
        if raft.leader == machine.node_id:
            leader = self._quorum_leaders.setdefault(raft.epoch, machine.node_id)
            if leader != machine.node_id:
                raise InvariantViolatedError(
                    f"nodes {leader} and {machine.node_id} both lead the metadata quorum in {raft.epoch}"
                )

    def _check_partition(self, machine: Machine, partition: Partition) -> None:
        if partition.is_failed:
            return
        where = (partition.topic_partition, partition.topic_id)
        high_watermark, log_end_offset = partition.high_watermark, partition.log.log_end_offset
        if high_watermark > log_end_offset:
            raise InvariantViolatedError(
                f"{machine.host} {where[0]}: high watermark {high_watermark} > log end {log_end_offset}"
            )
        if partition.leader is not None:
            self._check_leader(machine, partition, where, log_end_offset)
        key = (machine.node_id, machine.incarnation, where)
        cursor = self._cursors.get(key)
        if cursor is None or cursor.offset < high_watermark:
            self._compare(machine, partition, where, high_watermark)

    def _check_leader(self, machine: Machine, partition: Partition, where: Where, log_end_offset: int) -> None:
        me = (machine.node_id, machine.incarnation)
        leader = self._leaders.get((where, partition.leader_epoch))
        if leader == me:
            return
        if leader is not None and leader[0] != machine.node_id:
            raise InvariantViolatedError(
                f"nodes {leader[0]} and {machine.node_id} both lead {where[0]} in epoch {partition.leader_epoch}"
            )
        self._leaders[where, partition.leader_epoch] = me
        committed_end = self._committed_end.get(where, 0)
        if log_end_offset < committed_end:
            raise InvariantViolatedError(
                f"{machine.host} leads {where[0]} in epoch {partition.leader_epoch} with a log that ends at "
                f"{log_end_offset}, though {committed_end} was committed"
            )
        self._compare(machine, partition, where, committed_end)

    def _compare(self, machine: Machine, partition: Partition, where: Where, end: int) -> None:
        """Compare the replica's batches below ``end`` with what is known to be committed; what is new is now known."""
        key = (machine.node_id, machine.incarnation, where)
        committed = self._committed.setdefault(where, {})
        cursor = self._cursors.get(key)
        files = segments(machine, partition)
        if cursor is None or cursor.segment not in files:
            cursor = Cursor("", 0, 0)
        for name, file in files.items():
            if name < cursor.segment:
                continue
            content = file.content
            position = cursor.position if name == cursor.segment else 0
            while position < len(content):
                header = parse_header(content, position)
                if header.next_offset > end:
                    break
                batch = (header.last_offset, header.leader_epoch, header.crc)
                known = committed.setdefault(header.base_offset, batch)
                if known != batch:
                    raise InvariantViolatedError(
                        f"{machine.host} {where[0]}: the committed batch at {header.base_offset} is {batch} "
                        f"(last offset, leader epoch, crc), and was {known}"
                    )
                position += header.size_in_bytes
                cursor = Cursor(name, position, header.next_offset)
        self._cursors[key] = cursor._replace(offset=max(cursor.offset, end))
        self._committed_end[where] = max(self._committed_end.get(where, 0), end)

    # -- after it healed ----------------------------------------------------------------------------------------------

    def check_healed(self) -> None:
        """All replicas are byte-equal up to the high watermark, nobody stopped by itself, nothing went unhandled."""
        contents: dict[Where, tuple[Machine, bytes]] = {}
        for machine, node in self._cluster.nodes():
            for partition in node.replicas:
                where = (partition.topic_partition, partition.topic_id)
                content = b"".join(bytes(file.content) for file in segments(machine, partition).values())
                other, expected = contents.setdefault(where, (machine, content))
                if content != expected:
                    raise InvariantViolatedError(f"the logs of {where[0]} on {other.host} and {machine.host} differ")


def segments(machine: Machine, partition: Partition) -> dict[str, Inode]:
    """The segment files of a replica, in order, as the machine's disk has them."""
    directory = machine.disk.find(partition.log.directory)
    if not isinstance(directory, Directory):
        return {}
    return {
        name: file
        for name, file in sorted(directory.entries.items())
        if name.endswith(".log") and isinstance(file, Inode)
    }
