"""Planted bugs for whole clusters: each breaks one decision of a node, of its storage or of our client."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from planted.registry import Suite
from sim_invariants import InvariantViolatedError
from sim_scenario import simulate
from simulator.disk import MountedFile

from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.broker.drivers.partitions import PartitionRoles
from minikafka.broker.handlers.fetch import _ConsumerFetch
from minikafka.broker.waiting import Waiting
from minikafka.client.producing.accumulator import Accumulator
from minikafka.raft.effects import PersistElection
from minikafka.storage.recovery import LoadedLog, _Loader

DURATION_S = 30.0


def run(seed: int) -> None:
    """One seed; InvariantViolatedError when it fails."""
    report = simulate(seed, DURATION_S)
    if not report.ok:
        raise InvariantViolatedError(report.violation)


def trace_of(seed: int) -> str:
    """Everything that happens with one seed."""
    return "\n".join(simulate(seed, DURATION_S, tracing=True).trace)


SUITE = Suite(
    "cluster", "whole clusters of real nodes, simulated", run, 500, (InvariantViolatedError,), trace_of, is_slow=True
)


# What is acknowledged, and what is shown


@SUITE.replaces(Waiting, "await_acks", listed="ack before ISR")
def acknowledged_by_the_leader_alone(
    waiting: Waiting, results: Sequence[Any], acks: int, timeout_ms: int, done: Any
) -> None:
    """acks=all is answered as soon as the leader has the batch."""
    done(results)


@SUITE.plants()
def consumers_read_what_is_not_committed(patch: Any) -> None:
    """Consumers are shown the log up to its end."""
    patch.setattr(_ConsumerFetch, "_limit", lambda _fetch, partition, _high_watermark: partition.log.log_end_offset)


# Logs and their epochs


@SUITE.plants(listed="epoch cache lost on restart")
def epochs_are_lost_on_restart(patch: Any) -> None:
    """The leader epochs of a log are forgotten at a start: neither the file nor the batches tell them."""
    loaded = _Loader._loaded

    def forgetful(recovery: _Loader, is_believed: bool) -> LoadedLog:
        recovery.epochs.clear()
        return loaded(recovery, is_believed)

    patch.setattr(_Loader, "_loaded", forgetful)


# Disks


@SUITE.plants()
def writes_wait_in_the_process(patch: Any) -> None:
    """Appends are buffered by the process, as by a buffered file object, until the next sync: kill -9 loses them."""
    append, fsync, pread = MountedFile.append, MountedFile.fsync, MountedFile.pread
    waiting: dict[MountedFile, list[bytes]] = {}

    def append_later(file: MountedFile, buffers: Sequence[Any]) -> int:
        waiting.setdefault(file, []).extend(bytes(buffer) for buffer in buffers)
        end = file.size() + sum(map(len, waiting[file]))
        if sum(map(len, waiting[file])) > 8192:
            append(file, waiting.pop(file))
        return end

    def flush(file: MountedFile) -> None:
        if file in waiting:
            append(file, waiting.pop(file))

    def fsync_all(file: MountedFile) -> None:
        flush(file)
        fsync(file)

    def pread_all(file: MountedFile, size: int, position: int) -> bytes:
        flush(file)
        return pread(file, size, position)

    patch.setattr(MountedFile, "append", append_later)
    patch.setattr(MountedFile, "fsync", fsync_all)
    patch.setattr(MountedFile, "pread", pread_all)


@SUITE.replaces(MetadataLog, "persist_election", listed="vote not persisted")
async def votes_are_kept_in_memory(log: MetadataLog, state: PersistElection) -> None:
    """What was promised to a candidate is forgotten by a restart."""


@SUITE.replaces(MetadataLog, "flush")
async def the_metadata_log_is_not_synced(log: MetadataLog) -> None:
    """Metadata counts as durable while it is in the page cache."""


# Roles


@SUITE.plants()
def roles_are_taken_up_before_registration(patch: Any) -> None:
    """A restarted node leads what its old incarnation led (see docs/decisions/0004)."""
    patch.setattr(PartitionRoles, "has_begun", property(lambda roles: True))


# The client


@SUITE.replaces(Accumulator, "retry")
def a_retry_is_a_new_batch(
    accumulator: Accumulator[Any], batch: Any, not_before_ms: int, failed_leader_epoch: int | None = None
) -> None:
    """What is sent again gets new sequence numbers, so that nobody recognises it."""
    del accumulator._in_flight[batch.tp]
    batch.not_before_ms = not_before_ms
    batch.failed_leader_epoch = failed_leader_epoch
    batch.stamp = None
    accumulator._queues.setdefault(batch.tp, deque()).appendleft(batch)
