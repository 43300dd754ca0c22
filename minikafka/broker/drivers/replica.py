"""Carries out the effects of local replicas' machines.

Events come in through the methods here (metadata, syncs, cuts, damage, failures, answers of the controller); hot ones
(writes, fetches of followers) through :class:`~minikafka.broker.replicas.Replicas`. Effects are carried out in order,
without an ``await``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.assignments import DirectoryAssignments
from minikafka.broker.drivers.replication import ReplicaFetchers
from minikafka.broker.drivers.verifications import Verifications
from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.losses import Losses
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.event_log import get_logger
from minikafka.model import NO_NODE, TopicPartition
from minikafka.replication import replica_effects as do
from minikafka.replication.isr import IsrProposal
from minikafka.replication.replica_facts import CommittedPartition
from minikafka.storage.errors import Corruption, PassingFailure, StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

log = get_logger()


class ReplicaDriver:
    """See the module. ``on_leading`` and ``on_leading_no_more`` are called when this node begins or ends to lead."""

    def __init__(
        self,
        replicas: Replicas,
        fetchers: ReplicaFetchers,
        jobs: LogJobs,
        store: LogStore,
        assignments: DirectoryAssignments,
        clock: Clock,
        propose: Callable[[Partition, IsrProposal], None],
        losses: Losses,
        verifications: Verifications,
    ) -> None:
        self._replicas = replicas
        self._fetchers = fetchers
        self._jobs = jobs
        self._store = store
        self._assignments = assignments
        self._clock = clock
        self._propose = propose
        self._losses = losses
        self._verifications = verifications
        self._damage: dict[TopicPartition, Corruption] = {}  # damage that the machines know
        self.on_leading: Callable[[Partition], None] = lambda _partition: None
        self.on_leading_no_more: Callable[[TopicPartition], None] = lambda _where: None

    # -- events -----------------------------------------------------------------------------------------------------

    def on_opened(self, partition: Partition) -> None:
        """The log of a replica is open; it may have been found damaged."""
        corruption = partition.log.corruption
        if corruption is not None:
            self._note_damage(partition, corruption)

    def on_metadata(self, partition: Partition, committed: CommittedPartition) -> None:
        """Committed metadata of the partition changed."""
        self.carry_out(partition, partition.replica.on_metadata(committed, self._clock.monotonic_ms()))
        self._replicas.waiting.note_changed(partition.topic_partition)  # a follower may have left the ISR

    def on_removed(self, partition: Partition) -> None:
        """The replica leaves this node."""
        self._damage.pop(partition.topic_partition, None)
        self._assignments.forget(partition.topic_partition)
        self._replicas.remove(partition.topic_partition)
        self.carry_out(partition, partition.replica.on_removed())

    def on_synced(self, partition: Partition) -> None:
        """A sync of the log is done."""
        self._replicas.on_synced(partition)

    def on_cut(self, partition: Partition) -> None:
        """A cut of the log is done."""
        self.carry_out(partition, partition.replica.on_cut(self._clock.monotonic_ms()))
        if self._replicas.get(partition.topic_partition) is partition:
            self._fetchers.on_cut(partition.topic_partition)

    def on_storage_failed(self, partition: Partition, failure: StorageFailure) -> None:
        """The disk failed under the log. Ignored when the log was deleted meanwhile."""
        if self._replicas.get(partition.topic_partition) is not partition or partition.replica.is_offline:
            return
        directory = self._store.log_dir_of(partition.topic_partition)
        if partition.log.has_lost_files and directory is not None and directory.failure is None:
            self.look_for_damage()
            return
        log.error("partition offline", partition=str(partition.topic_partition), why=str(failure))
        self.carry_out(partition, partition.replica.on_storage_failed())

    def remake(self, partition: Partition) -> None:
        """The files of a log are gone: create it again, and fetch it."""
        made = self._store.remake(partition.topic_partition)
        partition.replace_log(made)
        partition.replica.on_remade(made)
        self.look_for_damage()  # before the cut counts as done: it must not pass for a whole log that was cut

    def on_moved(self, partition: Partition, moved: Log, directory_id: UUID) -> None:
        """The replica's copy in another directory has taken the log's place."""
        partition.replace_log(moved)
        self.carry_out(partition, partition.replica.on_moved(moved, directory_id, self._clock.monotonic_ms()))

    def look_for_damage(self) -> None:
        """Turn damage that readers found, in any thread, into events of the replicas."""
        for partition in self._replicas:
            self.look_at(partition)

    def look_at(self, partition: Partition) -> None:
        """The same for one."""
        corruption = partition.log.corruption
        if corruption is not None and self._damage.get(partition.topic_partition) is not corruption:
            self._note_damage(partition, corruption)
            effects = partition.replica.on_damage(corruption.offset, self._clock.monotonic_ms())
            self.carry_out(partition, effects)

    def _note_damage(self, partition: Partition, corruption: Corruption) -> None:
        tp = partition.topic_partition
        self._damage[tp] = corruption
        log.error("replica damaged", partition=str(tp), offset=corruption.offset, why=str(corruption))

    def check_lagging(self, partition: Partition) -> None:
        """A leader proposes lagging followers out of the ISR (row R19). A mark of damage that is due is written."""
        self._try_to_mark(partition, partition.log.write_due_mark)
        self.carry_out(partition, partition.replica.check_lagging(self._clock.monotonic_ms()))

    # -- effects ----------------------------------------------------------------------------------------------------

    def carry_out(self, partition: Partition, effects: Sequence[do.ReplicaEffect]) -> None:
        """In order."""
        tp = partition.topic_partition
        for effect in effects:
            match effect:
                case do.HighWatermarkMoved():
                    self._replicas.waiting.note_moved(tp, high_watermark=True)
                case do.AnswerWaiting():
                    self._replicas.waiting.release(tp)
                case do.Propose(proposal):
                    self._propose(partition, proposal)
                case do.Sync():
                    self._jobs.request_sync(partition)
                case do.Verify():
                    self._verifications.request(partition, effect)
                case do.Cut() | do.Restart():
                    self._cut(partition, effect)
                case do.Follow():
                    partition.log.begin_following()
                    self._fetchers.follow(partition)
                case do.StopFollowing():
                    self._fetchers.unfollow([tp])
                case do.BeginEpoch(epoch):
                    partition.log.begin_epoch(epoch)
                case do.Leads():
                    self._leads(partition)
                case do.LeadsNoMore():
                    self._leads_no_more(partition)
                case do.Claim(directory_id):
                    self._assignments.report(tp, partition.topic_id, directory_id)
                case do.MarkWhole():
                    self._mark_whole(partition)
                case do.Delete():
                    self._store.delete(tp)
                case do.Say(do.Saying.LOSS_BY_TRUNCATION as what, at, expected):
                    self._losses.note(tp, f"{what.value}; to offset {at}, high watermark {expected}")
                case do.Say(
                    do.Saying.LOSS_BY_DAMAGE | do.Saying.LOSS_BY_LEADING | do.Saying.LOSS_BY_ELECTION as what,
                    at,
                    expected,
                ):
                    self._losses.note(tp, f"{what.value}; from offset {at} on, high watermark {expected}")
                case do.Say(do.Saying.CLEANED_IN_VAIN as what, at, expected):
                    log.warning(what.value, partition=str(tp), at=at, expected=expected)
                case do.Say(do.Saying.FOLLOWER_WAITS as waits, at, expected, unheard):
                    log.warning(waits.value, partition=str(tp), at=at, expected=expected, unheard=[*unheard])
                case do.Say(what, at, expected):
                    log.error(what.value, partition=str(tp), at=at, expected=expected)

    def _cut(self, partition: Partition, cut: do.Cut | do.Restart) -> None:
        log_, name = partition.log, str(partition.topic_partition)
        if isinstance(cut, do.Restart):
            log.warning("restarting from the leader's log start", partition=name, offset=cut.offset)
        elif cut.is_refetch:
            log.warning("refetching from where the log is damaged", partition=name, offset=cut.offset)
        elif cut.offset < log_.log_end_offset:
            log.info("truncating", partition=name, to=cut.offset, log_end_offset=log_.log_end_offset)
        self._jobs.cut(partition, cut)

    def _leads(self, partition: Partition) -> None:
        name, epoch = str(partition.topic_partition), partition.leader_epoch
        log.info("leads", partition=name, epoch=epoch, log_end_offset=partition.log.log_end_offset)
        self.on_leading(partition)

    def _leads_no_more(self, partition: Partition) -> None:
        replica = partition.replica
        leader = None if replica.leader_id == NO_NODE else replica.leader_id
        tp = partition.topic_partition
        log.info("lost leadership", partition=str(tp), leader=leader, epoch=replica.leader_epoch)
        self.on_leading_no_more(tp)

    def _mark_whole(self, partition: Partition) -> None:
        tp = partition.topic_partition
        self._damage.pop(tp, None)
        if self._try_to_mark(partition, partition.log.refetched):
            log.info("the log is whole again", partition=str(tp))

    def _try_to_mark(self, partition: Partition, act: Callable[[], None]) -> bool:
        """Write or remove a mark of damage; False after a shortage, for a later attempt."""
        try:
            act()
        except StorageFailure as failure:
            self.on_storage_failed(partition, failure)
        except PassingFailure as shortage:
            name = str(partition.topic_partition)
            log.warning("mark of damage put off", partition=name, why=str(shortage))
        else:
            return True
        return False
