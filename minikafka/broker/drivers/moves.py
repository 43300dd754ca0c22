"""Moves replicas between the log directories of this node, by future logs (row A5, KIP-113).

A replica with a future log is being moved. That is the only state, so a restart goes on from the disk. One task serves
all moves in turn, a piece each, no faster than ``replica.alter.log.dirs.io.max.bytes.per.second``. Threads read, sync
and cut. The first step makes the files of the copy on the loop (once a thread has had the checkpoints there forget a
log that was moved away). In the last one the copy takes the log's place between two syncs in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from os.path import abspath
from typing import Final
from uuid import UUID

from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.broker.threads import RunInThread, run_job
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.topic_names import check_topic_name
from minikafka.model import INTERNAL_TOPICS, TopicPartition
from minikafka.replication.replica_condition import Condition
from minikafka.storage.cut_job import CutJob
from minikafka.storage.errors import IllegalLogState, PassingFailure, StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.moving import ReplicaMove

log = get_logger()


CHUNK_BYTES: Final = 1 << 20
LAST_STEP_BYTES: Final = 1 << 20
"""Most bytes left to copy for the last step, which reads and writes them on the loop."""
LAST_STEP_SEGMENTS: Final = 3
"""Most segments that these lie in. Each is begun: a log may have one for each record."""
IDLE_PAUSE_S: Final = 0.02
PAUSE_S_MAX: Final = 1.0
"""A copy that is to be slow looks after so much again whether it still is, and still wanted."""
SHORTAGE_PAUSE_S: Final = 1.0
WISHES_MAX: Final = 10_000


class DirectoryMoves:
    """``on_moved(partition, log, directory id)``: a copy has taken the log's place.

    ``on_lost(partition, failure)``: then one of the two directories failed.
    """

    def __init__(
        self,
        store: LogStore,
        replicas: Replicas,
        jobs: LogJobs,
        rate: Callable[[], int],
        run_in_thread: RunInThread,
        sync_in_thread: RunInThread,
    ) -> None:
        """``rate``: bytes a second. ``sync_in_thread``: for what producers may wait for."""
        self._store = store
        self._replicas = replicas
        self._jobs = jobs
        self._rate = rate
        self._run_in_thread = run_in_thread
        self._sync_in_thread = sync_in_thread
        self._wake = asyncio.Event()
        self._wishes: dict[TopicPartition, LogDir] = {}
        self.on_moved: Callable[[Partition, Log, UUID], None] = lambda _partition, _log, _directory_id: None
        self.on_lost: Callable[[Partition, StorageFailure], None] = lambda _partition, _failure: None

    # -- requests ---------------------------------------------------------------------------------------------------

    async def forget_former(self, tp: TopicPartition, path: str) -> None:
        """Before :meth:`request`: what checkpoints in ``path`` say of a log that was there lately is durably removed.

        That takes six syncs, in a thread. Errors as of :meth:`request`.
        """
        target = self._directory(path)
        here = (self._store.log_dir_of(tp), self._store.moves.target_of(tp))
        if here[0] is None or target in here or not target.checkpoints.mentions(tp):
            return
        try:
            await self._run_in_thread(target.checkpoints.prepare_forget(tp))
        except OSError as error:
            raise target.refused(f"forget a former log of {tp} in {target.path}", error) from error

    def request(self, tp: TopicPartition, path: str) -> None:
        """Begin to move a replica to the log directory ``path``; its present directory cancels a move.

        LOG_DIR_NOT_FOUND; KAFKA_STORAGE_ERROR when the directory or the replica is offline or damaged;
        REPLICA_NOT_AVAILABLE when the replica is not on this node: it will be created in ``path`` later.
        """
        target = self._directory(path)
        if tp in self._replicas.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {tp} is offline")
        partition = self._replicas.get(tp)
        if partition is None:
            self._wish(tp, target)
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"replica of {tp} not found here; it will be created in {path}"
            )
        if partition.replica.is_offline or partition.replica.condition.now is not Condition.WHOLE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{tp} cannot be read: it is offline or damaged")
        if self._store.log_dir_of(tp) is target:
            self._store.moves.end(tp)
        elif self._store.moves.target_of(tp) is not target:
            self._store.moves.begin(tp, target)
            log.info("moving", partition=str(tp), to=target.path)
        self.resume()

    def wished(self, tp: TopicPartition) -> LogDir | None:
        """The requested directory of a replica that is about to be created; None without an online one."""
        wished = self._wishes.get(tp)
        return None if wished is None or wished.failure is not None else wished

    def forget_wish(self, tp: TopicPartition) -> None:
        """The replica has been created."""
        self._wishes.pop(tp, None)

    def resume(self) -> None:
        """Find the replicas with a future log, after a start."""
        self._wake.set()

    def _directory(self, path: str) -> LogDir:
        for directory in self._store.directories:
            if abspath(directory.path) == abspath(path):
                if directory.failure is not None:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is offline")
                return directory
        known = ", ".join(abspath(directory.path) for directory in self._store.directories)
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log directory of this broker; it has {known}")

    def _wish(self, tp: TopicPartition, target: LogDir) -> None:
        if tp.topic not in INTERNAL_TOPICS:
            check_topic_name(tp.topic)
        self._wishes.pop(tp, None)
        self._wishes[tp] = target
        if len(self._wishes) > WISHES_MAX:
            del self._wishes[next(iter(self._wishes))]

    # -- moving -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out moves, for ever."""
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while moves := self._store.moves.under_way():
                copied = 0
                for move in moves:
                    copied += await self._step(move)
                await asyncio.sleep(0 if copied else IDLE_PAUSE_S)

    async def _step(self, move: ReplicaMove) -> int:
        """Copy a piece, or complete the move. 0: nothing came of it; try again after a pause."""
        tp = move.current.topic_partition
        partition = self._replicas.get(tp)
        if partition is None or not self._is_wanted(move):
            return 0
        if partition.replica.cut is not None:
            return 0
        try:
            if await self._has_cut(move):
                return 0  # and much may have happened meanwhile
            is_short = move.bytes_left <= min(LAST_STEP_BYTES, self._rate())
            if is_short and move.segments_left <= LAST_STEP_SEGMENTS:
                return await self._maybe_complete(move, partition)
            return await self._copy(move)
        except PassingFailure as failure:
            log.warning("a move waits", partition=str(tp), why=str(failure))
            await asyncio.sleep(SHORTAGE_PAUSE_S)
            return 0
        except (KafkaError, IllegalLogState, OSError) as error:
            log.error("a move is given up", partition=str(tp), why=str(error))
            if not move.current.is_offline:  # else a start decides, by what became durable
                refused = move.future.log_end_offset
                self._store.moves.end(tp)
                await self._look_again(move.current, refused)
            return 0

    def _is_wanted(self, move: ReplicaMove) -> bool:
        """False once it was deleted, or a directory failed: its end is not ours."""
        partition = self._replicas.get(move.current.topic_partition)
        if move.is_over or partition is None:
            return False
        return partition.log is move.current and not partition.replica.is_offline

    async def _look_again(self, current: Log, offset: int) -> None:
        """The copy cannot take a batch: verify the current log, which may have gone bad."""
        try:
            job = current.prepare_verification(offset, CHUNK_BYTES)
            if job is not None:
                await self._run_in_thread(job.run)
                current.complete_read(job)
        except KafkaError as error:
            log.info("verification failed", partition=str(current.topic_partition), offset=offset, why=error.message)

    async def _has_cut(self, move: ReplicaMove) -> bool:
        """The log was cut, so its copy is cut in a thread: it may take seconds. False if there was nothing to do."""
        return await self._cut(move.future, move.prepare_cut())

    async def _cut(self, copy: Log, job: CutJob | None) -> bool:
        if job is None:
            return False
        with copy.writing():
            await run_job(self._run_in_thread, job)
        if not copy.is_offline:
            copy.complete_cut(job)
        return True

    async def _copy(self, move: ReplicaMove) -> int:
        found = move.next_slice(max(1, min(CHUNK_BYTES, self._rate())))
        if not len(found):
            return 0
        records: bytes = await self._run_in_thread(found.read)
        if not move.is_over:
            await self._cut(move.future, move.append(records))
        owed = float(len(records))  # a batch may be much more than the bytes of a second
        while owed >= 1 and self._is_wanted(move):
            rate = self._rate()
            pause_s = min(owed / rate, PAUSE_S_MAX)
            await asyncio.sleep(pause_s)
            owed -= rate * pause_s
        return len(records)

    async def _maybe_complete(self, move: ReplicaMove, partition: Partition) -> int:
        """The last step: nothing of the log is synced or cut meanwhile. 1 when it is done.

        So most of the copy is synced before. A sync for each of its segments may take minutes, and writers and
        followers wait for those of the log.
        """
        if self._jobs.is_closed or not self._is_free(move, partition):
            return 0
        job = move.future.prepare_flush()
        with move.future.writing():
            await self._run_in_thread(job.run)
        if self._jobs.is_closed or not self._is_free(move, partition):
            return 0
        move.future.complete_flush(job)
        return int(await self._jobs.alone(partition, partial(self._complete, move, partition)))

    async def _complete(self, move: ReplicaMove, partition: Partition) -> bool:
        """Sync the copy in a thread, copy what came meanwhile, and let it take the log's place. False: try again."""
        if not await self._has_all(move, partition):
            return False
        with move.future.writing():
            job = move.prepare_seal()
            await self._sync_in_thread(job.run)
        if not self._is_free(move, partition):
            return False
        move.future.complete_flush(job)
        if not await self._has_all(move, partition):
            return False
        directory = self._store.moves.target_of(partition.topic_partition)
        assert directory is not None
        assert directory.meta is not None
        arrival = self._store.moves.arrive(move, partition.high_watermark)
        self.on_moved(partition, arrival.log, directory.meta.directory_id)
        try:
            await self._sync_in_thread(arrival.make_departure_durable)
            if not arrival.enter():
                return True
            await self._sync_in_thread(arrival.make_entry_durable)
            arrival.complete()
        except StorageFailure as failure:
            self.on_lost(partition, failure)
            raise
        log.info("moved", partition=str(partition.topic_partition), to=directory.path, size=arrival.log.size_in_bytes)
        return True

    async def _has_all(self, move: ReplicaMove, partition: Partition) -> bool:
        """The copy has all records of the log: those that are left are copied, if they are few."""
        if not self._is_free(move, partition):
            return False
        move.current.commit()
        if await self._has_cut(move):
            return False
        left = LAST_STEP_BYTES
        while left > 0 and len(found := move.next_slice(left)):
            if await self._cut(move.future, move.append(found.read())):
                return False
            left -= len(found)
        return move.is_caught_up

    def _is_free(self, move: ReplicaMove, partition: Partition) -> bool:
        """The move is wanted, and nothing else changes the log."""
        return self._is_wanted(move) and not move.current.is_cleaning and partition.replica.cut is None
