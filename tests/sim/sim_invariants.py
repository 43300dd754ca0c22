"""What must hold after every step of a simulated cluster, whatever was done to it.

* one leader of the metadata quorum per epoch;
* one leader per partition and leader epoch;
* a high watermark is at most the log end, and what lies below it, on whichever replica, never changes: every replica
  has the same batches there (row P1, "log matching");
* nobody is cut below its high watermark while it is in the ISR or ELR (row R26); a replica outside of them may have
  appended what a leader's disk made of an offset, and know a high watermark beyond its last good batch;
* who becomes leader has everything that was ever below a high watermark ("leader completeness");
* what is committed of the metadata log is the same on every node, and never changes;
* no turn of a node's loop waits for more than a few syncs;
* a partition that a leader need not look at for a follower has no news for it (row R6).

After the cluster has healed, :meth:`Invariants.check_healed` compares whole logs, what the nodes know of the cluster,
and which directories there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, NamedTuple
from uuid import UUID

from sim_cluster import LOG_DIRS, Machine, SimulatedCluster
from sim_noise import is_state_of_coordinators, lasting, may_go
from simulator.disk.inodes import Directory, Inode
from simulator.loop import Process

from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.model import CLUSTER_METADATA_TOPIC_ID, METADATA_PARTITION, TopicPartition
from minikafka.raft import RaftNode
from minikafka.records.batch import HEADER_SIZE, parse_header
from minikafka.replication.replica_condition import Condition
from minikafka.storage.log import Log
from minikafka.wire.messages.fetch import PartitionData

Where = tuple[TopicPartition, UUID]
METADATA: Final = (METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID)
METADATA_NAME: Final = str(METADATA_PARTITION)
METADATA_DIRECTORY: Final = f"{LOG_DIRS[0]}/{METADATA_NAME}"
"""Where no directory goes and comes back."""
PUT_AWAY: Final = ("-delete", "-stray", ".corrupt")
SPARE_SNAPSHOTS: Final = 2
"""Of producers: of an orderly stop, and of a move, besides those where segments begin."""
SYNCS_IN_A_TURN_MAX: Final = 5
"""A small file takes two, one of each log directory four."""
Batch = tuple[int, int, int]


class InvariantViolatedError(AssertionError):
    """The cluster did what it must never do."""


class Cursor(NamedTuple):
    """How far a replica's log was compared: up to ``offset``, which is at ``position`` of the segment ``segment``.

    The cleaner may put another ``file`` in its place.
    """

    segment: str
    file: Inode | None
    position: int
    offset: int


class Invariants:
    """Watches a cluster: call :meth:`after_turn` after each turn of one of its processes."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._quorum_leaders: dict[int, int] = {}
        self._leaders: dict[tuple[Where, int], tuple[int, int]] = {}
        self._newest_epochs: dict[Where, int] = {}
        """In which some node has led."""
        self._committed: dict[Where, dict[int, Batch]] = {}
        self._committed_end: dict[Where, int] = {}
        self._log_starts: dict[Where, int] = {}
        self._quorum_seen: dict[RaftNode, tuple[int, int, int | None]] = {}
        self._seen: dict[Partition, tuple[int, int, int, bool]] = {}  # what of a replica was checked already
        self._cursors: dict[tuple[int, int, Where], Cursor] = {}
        self.on_election: Callable[[Machine], None] = lambda machine: None
        """A node leads something in a new epoch: the quorum or a partition."""
        self.is_damaged: Callable[[Machine, str], bool] = lambda machine, directory: False
        """What a replica's files hold may be wrong, and need not be what was committed."""
        self.is_restored: Callable[[Machine, str], bool] = lambda machine, directory: False
        """Its end is gone and so is all that tells of it: it may lead, and find out from its followers."""
        self.is_latent: Callable[[Machine, str, list[int]], bool] = lambda machine, directory, wrong: False
        """Those bytes of it are wrong and nobody has read them."""
        self.is_beyond: Callable[[TopicPartition], bool] = lambda partition: False
        """All of its replicas were damaged: nothing is promised of it any more."""
        self.led_too_short: set[str] = set()
        """Partitions that were led by a log without its end, until others told its node."""
        self.told_of_bugs: Sequence[str] = ()
        """What nodes logged and should not."""
        self.checked = 0

    def forget(self, machine: Machine) -> None:
        """Its logs were made anew: compare them from their beginning."""
        for key in [key for key in self._cursors if key[0] == machine.node_id]:
            del self._cursors[key]

    def committed_end(self, log: Log) -> int:
        """Up to where records of the log's partition are known to be committed."""
        return self._committed_end.get((log.topic_partition, log.topic_id), 0)

    def after_turn(self, process: Process) -> None:
        """Raises InvariantViolatedError, naming what is wrong."""
        self._check_told()
        machine = self._cluster.machine_of(process)
        if machine is not None and process.unhandled:
            raise InvariantViolatedError(f"{machine.host}: unhandled {process.unhandled[0]!r}")
        node = None if machine is None else machine.node
        if machine is None or node is None:
            return
        self.checked += 1
        synced, machine.synced_in_turn = machine.synced_in_turn, 0
        if synced > SYNCS_IN_A_TURN_MAX:
            raise InvariantViolatedError(f"{machine.host}: its loop waited for {synced} syncs in one turn")
        self._check_quorum(machine, node)
        seen = self._seen
        for partition in node.replicas:
            log_end_offset = partition.log.log_end_offset
            state = (partition.high_watermark, log_end_offset, partition.leader_epoch, partition.leader is None)
            before = seen.get(partition)
            if before != state:
                seen[partition] = state
                if before is not None and state[0] < before[0]:
                    self._check_cut(machine, partition, before[0])
                    where = (partition.topic_partition, partition.topic_id)
                    self._cursors.pop((machine.node_id, machine.incarnation, where), None)  # what comes next differs
                self._check_partition(machine, partition)

    def _check_told(self) -> None:
        if self.told_of_bugs:
            raise InvariantViolatedError(self.told_of_bugs[0])

    def _check_quorum(self, machine: Machine, node: Node) -> None:
        raft = node.control_plane.raft.machine
        state = (raft.high_watermark, raft.epoch, raft.leader)
        if self._quorum_seen.get(raft) == state:
            return
        self._quorum_seen[raft] = state
        self._maybe_compare(machine, metadata_directory(node), METADATA, raft.high_watermark)
        if raft.leader == machine.node_id:
            if raft.epoch not in self._quorum_leaders:
                self.on_election(machine)
            leader = self._quorum_leaders.setdefault(raft.epoch, machine.node_id)
            if leader != machine.node_id:
                raise InvariantViolatedError(
                    f"nodes {leader} and {machine.node_id} both lead the metadata quorum in {raft.epoch}"
                )

    def _check_partition(self, machine: Machine, partition: Partition) -> None:
        if partition.replica.is_offline or partition.log.is_cutting:
            return  # a log that is being cut serves nothing; its high watermark falls when that is done
        where = (partition.topic_partition, partition.topic_id)
        self._log_starts[where] = max(self._log_starts.get(where, 0), partition.log.log_start_offset)
        high_watermark, log_end_offset = partition.high_watermark, partition.log.log_end_offset
        if high_watermark > log_end_offset and partition.replica.cut is None:  # a thread is cutting it
            raise InvariantViolatedError(
                f"{machine.host} {where[0]}: high watermark {high_watermark} > log end {log_end_offset}"
            )
        if partition.leader is not None:
            self._check_leader(machine, partition, where, log_end_offset)
            self._check_settled(machine, partition, log_end_offset)
        self._maybe_compare(machine, partition.log.directory, where, high_watermark)

    def _check_settled(self, machine: Machine, partition: Partition, log_end_offset: int) -> None:
        """Whom a leader tells nothing of the partition until it changes (row R6), it has told everything."""
        assert machine.node is not None
        if partition.is_staged:
            return  # a roll or the cleaner may have written it already; followers are told when all is committed
        high_watermark = partition.high_watermark
        for cached in machine.node.replicas.waiting.followers.settled(partition.topic_partition):
            asked = cached.asked
            now = PartitionData(
                high_watermark=high_watermark,
                last_stable_offset=partition.log.last_stable_offset(high_watermark),
                log_start_offset=partition.log.log_start_offset,
            )
            is_here = (asked.fetch_offset, asked.current_leader_epoch) == (log_end_offset, partition.leader_epoch)
            if not is_here or cached.is_news(now):
                raise InvariantViolatedError(
                    f"{machine.host} {partition.topic_partition}: a follower that asks from {asked.fetch_offset} on in "
                    f"epoch {asked.current_leader_epoch} is not told of {now} and log end {log_end_offset}"
                )

    def _check_cut(self, machine: Machine, partition: Partition, high_watermark: int) -> None:
        """A high watermark fell: its log is being cut below it, or was."""
        tp = partition.topic_partition
        image = max((node.image for _, node in self._cluster.nodes()), key=lambda image: image.offset)
        state = image.partition(tp)
        topic = image.topic(tp.topic)
        if state is None or topic is None or topic.topic_id != partition.topic_id or self.is_beyond(tp):
            return
        if partition.log.corruption is not None:
            return  # a cut came upon damage, and knows: on nobody's word, and the replica does not count any more
        if partition.replica.condition.now is Condition.DAMAGED:
            return  # its files are gone, it was made anew, and says so
        what = f"{machine.host} {tp}: cut from its high watermark {high_watermark} to {partition.high_watermark}"
        if machine.node_id in (*state.isr, *state.elr):
            raise InvariantViolatedError(f"{what} in ISR {state.isr} or ELR {state.elr}")

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
        self._newest_epochs[where] = max(partition.leader_epoch, self._newest_epochs.get(where, 0))
        self.on_election(machine)
        if partition.leader_epoch < self._newest_epochs[where]:
            return  # it hears late that it was to lead, and has its followers no more: others commit without it
        committed_end = self._committed_end.get(where, 0)
        if log_end_offset < committed_end and self.is_restored(machine, partition.log.directory):
            self.led_too_short.add(str(where[0]))
        elif log_end_offset < committed_end and not self.is_beyond(where[0]):
            raise InvariantViolatedError(
                f"{machine.host} leads {where[0]} in epoch {partition.leader_epoch} with a log that ends at "
                f"{log_end_offset}, though {committed_end} was committed"
            )
        self._compare(machine, partition.log.directory, where, committed_end)

    def _maybe_compare(self, machine: Machine, directory: str, where: Where, end: int) -> None:
        cursor = self._cursors.get((machine.node_id, machine.incarnation, where))
        if cursor is None or cursor.offset < end:
            self._compare(machine, directory, where, end)

    def _compare(self, machine: Machine, directory: str, where: Where, end: int) -> None:
        """Compare the replica's batches below ``end`` with what is known to be committed; what is new is now known.

        Not those below the log start: what was deleted before a follower came for it is not fetched any more.
        """
        if self.is_damaged(machine, directory) or self.is_beyond(where[0]):
            return
        key = (machine.node_id, machine.incarnation, where)
        committed = self._committed.setdefault(where, {})
        cursor = self._cursors.get(key)
        files = segments(machine, directory)
        if cursor is None or cursor.segment not in files:
            cursor = Cursor("", None, 0, 0)
        for name, file in files.items():
            if name < cursor.segment:
                continue
            content = file.content
            position = cursor.position if file is cursor.file else 0
            while position < len(content):
                if len(content) < position + HEADER_SIZE:
                    raise InvariantViolatedError(f"{machine.host} {where[0]}: no batch at byte {position} of {name}")
                header = parse_header(content, position)
                if header.next_offset > end:
                    break
                batch = (header.last_offset, header.leader_epoch, header.crc)
                is_kept = header.last_offset >= self._log_starts.get(where, 0) and not (
                    machine.has_noise
                    and (
                        is_state_of_coordinators(directory)
                        or may_go(content[position : position + header.size_in_bytes])
                    )
                )
                known = committed.setdefault(header.base_offset, batch) if is_kept else batch
                if known != batch:
                    raise InvariantViolatedError(
                        f"{machine.host} {where[0]}: the committed batch at {header.base_offset} is {batch} "
                        f"(last offset, leader epoch, crc), and was {known}"
                    )
                position += header.size_in_bytes
                cursor = Cursor(name, file, position, header.next_offset)
        self._cursors[key] = cursor._replace(offset=max(cursor.offset, end))
        self._committed_end[where] = max(self._committed_end.get(where, 0), end)

    # -- after it healed ----------------------------------------------------------------------------------------------

    def check_healed(self) -> None:
        """All replicas are byte-equal up to the high watermark, nobody stopped by itself, nothing went unhandled.

        Nor does anybody keep in memory what is over.
        """
        self._check_told()
        copies: dict[Where, Copy] = {}
        logs = [(machine, partition) for machine, node in self._cluster.nodes() for partition in node.replicas]
        starts: dict[Where, int] = {}
        for _, partition in logs:
            where = (partition.topic_partition, partition.topic_id)
            starts[where] = max(starts.get(where, 0), partition.log.log_start_offset)
        for machine, partition in logs:
            where = (partition.topic_partition, partition.topic_id)
            if kept := partition.log.producers.unreplicated_ends:
                raise InvariantViolatedError(f"{machine.host} {where[0]}: {kept} ends of transactions are kept")
            copy = copy_of(machine, partition.log.directory, starts[where])
            other = copies.setdefault(where, copy)
            wrong = unequal(copy.content, other.content)
            latent = (
                self.is_latent(each.machine, _directory(each.machine, where), [each.begin + at for at in wrong])
                for each in (copy, other)
            )
            if copy.content != other.content and not any(latent):
                raise InvariantViolatedError(
                    f"the logs of {where[0]} on {other.machine.host} and {machine.host} differ"
                )
        self._check_images()
        for machine, node in self._cluster.nodes():
            self._check_directories(machine, node)

    def _check_images(self) -> None:
        nodes = list(self._cluster.nodes())
        for machine, node in nodes[1:]:
            first, other = nodes[0][1].image, node.image
            if first.offset == other.offset and first != other:
                raise InvariantViolatedError(
                    f"{nodes[0][0].host} and {machine.host} make different clusters of the same metadata log"
                )

    def _check_directories(self, machine: Machine, node: Node) -> None:
        """A directory for each replica, and none for anything else (row C5). Nothing in it grows for ever."""
        placed = {
            f"{topic.name}-{number}"
            for topic, number, partition in node.image.partitions()
            if machine.node_id in partition.replicas
        }
        there: list[str] = []
        for path in machine.log_dirs:
            entries = machine.disk.directory(path).entries
            there += [name for name, entry in entries.items() if isinstance(entry, Directory)]
            for name, entry in entries.items():
                files = list(entry.entries) if isinstance(entry, Directory) else []
                logs, snapshots = (sum(map(str.endswith, files, repeat(kind))) for kind in (".log", ".snapshot"))
                if snapshots > logs + SPARE_SNAPSHOTS:
                    raise InvariantViolatedError(f"{machine.host} {name}: {snapshots} snapshots of {logs} segments")
        there = [name for name in there if not name.endswith(PUT_AWAY)]  # those go when there is time
        there.remove(METADATA_NAME)
        if sorted(there) != sorted(placed):
            raise InvariantViolatedError(f"{machine.host} has {sorted(there)}, and should have {sorted(placed)}")


def metadata_directory(node: Node) -> str:
    """Where a node's metadata log is."""
    log = node.store.get(METADATA_PARTITION)
    assert log is not None, "no node is without"
    return log.directory


def segments(machine: Machine, directory: str) -> dict[str, Inode]:
    """The segment files of a replica, in order, as the machine's disk has them."""
    found = machine.disk.find(directory)
    if not isinstance(found, Directory):
        return {}
    return {
        name: file for name, file in sorted(found.entries.items()) if name.endswith(".log") and isinstance(file, Inode)
    }


def bytes_of(machine: Machine, directory: str) -> bytes:
    """A log, all its segments in a row, but for what the cleaner may drop."""
    whole = b"".join(bytes(file.content) for file in segments(machine, directory).values())
    if machine.has_noise and is_state_of_coordinators(directory):
        return b""  # who reads it at a failover is judged
    return lasting(whole) if machine.has_noise else whole


class Copy(NamedTuple):
    """A replica's log from the position ``begin`` of its bytes on."""

    machine: Machine
    begin: int
    content: bytes


def copy_of(machine: Machine, directory: str, log_start_offset: int) -> Copy:
    """A log from the batch of ``log_start_offset`` on: replicas delete what is older each in its own time."""
    content, begin = bytes_of(machine, directory), 0
    while log_start_offset and begin < len(content):
        header = parse_header(content, begin)
        if header.next_offset > log_start_offset:
            break
        begin += header.size_in_bytes
    return Copy(machine, begin, content[begin:])


def unequal(one: bytes, other: bytes) -> list[int]:
    """At which positions they differ, as far as both go."""
    size = min(len(one), len(other))
    if one[:size] == other[:size]:
        return []
    return [at for at in range(size) if one[at] != other[at]]


def _directory(machine: Machine, where: Where) -> str:
    assert machine.node is not None
    partition = machine.node.replicas.get(where[0])
    return "" if partition is None else partition.log.directory
