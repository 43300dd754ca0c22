"""Planted bugs that one kind of fault shows, and that hide among all the others."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from types import SimpleNamespace
from typing import Any

from planted.registry import Suite
from sim_faults import ALL
from sim_invariants import InvariantViolatedError
from sim_scenario import Report, simulate
from sim_watchdog import no_endless_turn

from minikafka.broker import control_plane, replicas
from minikafka.broker.clock import Clock
from minikafka.broker.drivers import metadata_copies, synced_topics
from minikafka.broker.partition import Partition
from minikafka.broker.waiting import Waiting
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.shard import Shard
from minikafka.metadata.controller import partition_change
from minikafka.metadata.controller.partition_change import Circumstances
from minikafka.metadata.image import PartitionImage
from minikafka.model import METADATA_PARTITION, TopicPartition
from minikafka.replication.fetcher import ReplicaFetcher
from minikafka.replication.leader import LeaderState
from minikafka.replication.local_replica import LocalReplica
from minikafka.storage import aside, errors, log_dir, registration
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.new_log import NewLogs
from minikafka.storage.producer_state import ProducerState

DURATION_S = 10.0
PAUSE_S = 1.0


def suite_of(name: str, what: str, *faults: str, scenes: Collection[str] = (), duration_s: float = DURATION_S) -> Suite:
    """Whole clusters to which nothing but these faults happens, and often."""
    without = [each for each in ALL if each not in faults]

    def simulated(seed: int, *, tracing: bool = False) -> Report:
        how = {"without": without, "extra": faults, "scenes": scenes}
        return simulate(seed, duration_s, **how, mean_pause_s=PAUSE_S, tracing=tracing)

    def run(seed: int) -> None:
        if not (report := simulated(seed)).ok:
            raise InvariantViolatedError(report.violation)

    def trace(seed: int) -> str:
        return "\n".join(simulated(seed, tracing=True).trace)

    return Suite(name, what, run, 500, (InvariantViolatedError,), trace, is_slow=True)


POWER = suite_of("power", "whole clusters that lose power", "power loss", "power loss after a failover")
OFFSETS = suite_of(
    "offsets",
    "whole clusters whose leaders die and whose clocks jump, and a group that stores offsets",
    "kill leader",
    "clock jump",
    scenes=("committed offsets",),
)
DELETIONS = suite_of(
    "deletions",
    "whole clusters whose records are deleted while replicas move",
    "kill leader",
    "media",
    scenes=("deleted records",),
)
OLDER_COPIES = suite_of("older copies", "whole clusters in which logs are put back from older copies", "older copies")
FORMER = suite_of(
    "former directories",
    "whole clusters in which a log directory goes, and comes back as it was",
    "former directories",
)
ODD_FILES = suite_of("odd files", "whole clusters whose files are older, or directories", "odd files")
DISKS = suite_of("disks", "whole clusters whose disks fail at an operation", "disk fails at operation")
FAILOVERS = suite_of("failovers", "whole clusters whose leaders die", "kill leader", "pause", "cut one way")
SHORTAGES = suite_of("shortages", "whole clusters short of descriptors", "no descriptors", "kill leader")
DEPARTURES = suite_of(
    "departures", "whole clusters of which one machine goes for good", "machine goes for good", "kill two"
)
STALLS = suite_of(
    "stalls",
    "whole clusters whose threads stall, while topics are made again with the same names",
    "stalled threads",
    "kill two",
    scenes=("same names",),
)

RESTARTS = suite_of(
    "restarts",
    "whole clusters that are restarted one node after the other, under producers of acks=1",
    "rolling restart",
    scenes=("acks of one",),
)


@POWER.plants()
def flush_messages_is_ignored(patch: Any) -> None:
    """What should be synced before it is acknowledged is not."""
    patch.setattr(LocalReplica, "is_sync_due", property(lambda replica: False))


@FAILOVERS.plants(listed="sequence state lost on failover")
def followers_do_not_count_sequences(patch: Any) -> None:
    """A replica that becomes leader knows no producer's batches."""
    patch.setattr("minikafka.storage.appending.replay", lambda *_: None)


@FAILOVERS.replaces(LeaderState, "maybe_advance_high_watermark")
def the_high_watermark_is_the_log_end(leader: LeaderState, now_ms: int) -> bool:
    """The leader waits for nobody."""
    moved = leader.high_watermark < leader.log_end_offset
    leader.high_watermark = leader.log_end_offset
    return moved


@FAILOVERS.replaces(ProducerState, "check")
def duplicates_are_not_recognised(manager: ProducerState, header: Any) -> None:
    """A batch that is sent again is written again."""


@FAILOVERS.plants()
def a_later_leader_takes_nothing(patch: Any) -> None:
    """Who leads a partition after another one refuses all records of producers. Nothing is lost, and all in sync."""
    check = replicas.check

    def check_and_refuse(partition: Partition, *arguments: Any, **more: Any) -> Any:
        if partition.replica.leader_epoch and partition.topic_partition == TopicPartition("t", 1):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "planted")
        return check(partition, *arguments, **more)

    patch.setattr(replicas, "check", check_and_refuse)


# -- committed offsets ------------------------------------------------------------------------------------------------


@OFFSETS.plants()
def a_new_coordinator_takes_the_oldest_commits(patch: Any) -> None:
    """A shard that is loaded keeps the first offset that was stored for a partition."""
    replay = Shard._replay_offset

    def replay_first(shard: Shard, group: Any, record: Any, wall_now_ms: int | None, producer_id: int) -> None:
        is_loading = wall_now_ms is not None
        if not is_loading or record.partition not in group.offsets:
            replay(shard, group, record, wall_now_ms, producer_id)

    patch.setattr(Shard, "_replay_offset", replay_first)


@OFFSETS.replaces(Clock, "age_ms")
def what_is_old_is_told_by_the_wall_clock(clock: Clock) -> int:
    """A node whose clock has jumped ahead becomes coordinator, and all offsets are too old."""
    return clock.wall_ms()


@OFFSETS.replaces(Clock, "stamp_ms")
def stamps_are_those_of_the_wall_clock(clock: Clock) -> int:
    """What a leader took whose clock has jumped back is too old for other replicas: offsets, and records."""
    return clock.wall_ms()


@RESTARTS.replaces(Waiting, "hand_over")
def a_node_that_stops_hands_over_whatever_is_in_sync(waiting: Waiting, timeout_ms: int, done: Any) -> None:
    """The next leader may lack what was acknowledged to acks=1."""
    done()


# -- deleted records --------------------------------------------------------------------------------------------------


@DELETIONS.replaces(ReplicaFetcher, "on_starts_inside_batch")
def a_log_cannot_begin_inside_a_batch(
    fetcher: ReplicaFetcher, tp: TopicPartition, _base_offset: int, now_ms: int
) -> list[Any]:
    """A replica that begins where its leader's log begins refuses the batch that this is in, for ever."""
    return fetcher.on_append_failed(tp, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)


# -- older copies -----------------------------------------------------------------------------------------------------


@OLDER_COPIES.replaces(LocalReplica, "is_behind")
def leaders_believe_their_own_log(_replica: LocalReplica, _high_watermark: int, _last_fetched_epoch: int) -> bool:
    """A leader whose log was put back from an older copy has the others cut to it."""
    return False


@OLDER_COPIES.replaces(LocalReplica, "refuses_ahead")
def the_first_that_is_heard_decides(replica: LocalReplica, replica_id: int, _last_fetched_epoch: int) -> bool:
    """A follower out of the ISR is cut to a leader that lost its tail, before those that are complete were heard."""
    return replica._committed is not None and replica_id in replica._committed.complete


# -- former directories -----------------------------------------------------------------------------------------------


@FORMER.replaces(metadata_copies, "_mark_older_copy")
def a_former_metadata_log_votes(_disk: Any, _directory: str, _newest: int) -> None:
    """A voter whose metadata log was put back elects who lacks what it has acknowledged since."""


@FORMER.replaces(control_plane, "find_metadata_log")
def the_first_metadata_log_that_is_found_is_used(_disk: Any, store: LogStore) -> Log | None:
    """Two directories have one, and nobody asks which is newer."""
    return store.get(METADATA_PARTITION)


@FORMER.replaces(registration, "_is_behind")
def a_former_directory_is_claimed(_directory: Any, _found: Any, _newest: Any) -> bool:
    """Its logs count as whole, and lead."""
    return False


# -- files and disks --------------------------------------------------------------------------------------------------


@ODD_FILES.plants()
def directories_in_the_place_of_files_stay(patch: Any) -> None:
    """A directory that has the name of a file is not put aside."""
    patch.setattr(log_dir, "set_directories_aside", lambda *_: None)
    patch.setattr(aside, "_clear", lambda *_: None)


@DISKS.plants()
def a_directory_that_failed_counts_as_working(patch: Any) -> None:
    """Its logs refuse whatever they are asked; nobody is told, and who looks for another directory gets it for ever."""
    patch.setattr(LogDir, "fail", lambda _directory, _failure: None)
    patch.setattr("sim_scenario.no_endless_turn", partial(no_endless_turn, max_cpu_s=0.5))  # a sound turn takes 0.05


# -- a machine that goes for good -------------------------------------------------------------------------------------


@DEPARTURES.plants()
def only_settings_of_topics_are_claimed(patch: Any) -> None:
    """Who syncs every write because all brokers do is not taken for whole after a power cut, and does not lead."""
    unset = BrokerConfig.log_flush_interval_messages.default
    patch.setattr(synced_topics, "broker_config", lambda *_: SimpleNamespace(log_flush_interval_messages=unset))


@DEPARTURES.replaces(partition_change, "_eligible")
def only_the_isr_is_elected(before: PartitionImage, wanted: PartitionImage, around: Circumstances) -> tuple[int, ...]:
    """Where the last of the ISR does not come back, those that have everything wait for it for ever."""
    complete = {*before.isr, *wanted.isr}.difference(around.lost, around.gone)
    return tuple(replica for replica in wanted.replicas if replica in complete)


# -- shortages --------------------------------------------------------------------------------------------------------


@SHORTAGES.plants()
def a_process_without_descriptors_has_a_broken_disk(patch: Any) -> None:
    """Where nothing can be opened the log directory is offline (row 7)."""
    patch.setattr(errors, "PASSING_ERRORS", ())


@SHORTAGES.replaces(ReplicaFetcher, "on_append_put_off")
def followers_without_descriptors_give_up(
    fetcher: ReplicaFetcher, tp: Any, _log_end_offset: int, _last_epoch: int, now_ms: int
) -> Any:
    """A follower that cannot open its next segment follows that leader no more."""
    return fetcher.on_append_failed(tp, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)


# -- threads that take long -------------------------------------------------------------------------------------------


@STALLS.replaces(NewLogs, "check_unused")
def a_log_is_made_where_a_job_of_a_former_one_is_under_way(_new_logs: NewLogs, _path: str) -> None:
    """A sync or a cut of a deleted log lists or cuts the files of the next log with the same name."""


@STALLS.replaces(LogStore, "has_former")
def the_loop_waits_until_a_former_log_is_forgotten(_store: LogStore, _tp: TopicPartition) -> bool:
    """A topic that is made again, or a replica that comes back, holds the loop up for eight syncs."""
    return False
