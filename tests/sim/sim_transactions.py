"""The scene "transactions": producers of transactions, a group that copies in transactions, and who reads what.

* Two *tellers* write transactions to several partitions, and commit or abort them. Two *copiers* share the partitions
  of the input as members of a group, and write what they read there to the output, with their offsets.
* Each has a transactional id and one life after another. A life ends by SIGKILL in the middle of anything; or it is
  paused, or goes on, while the next one begins with the same id: a zombie. Some are paused, and have no successor until
  later. Some transactions outlive their time-out. A copier may leave its group right after a commit.
* An *auditor* follows all partitions as a read_committed consumer. In the end another one reads all of them.

``minikafka.ledger.transaction_checker`` judges what they saw. Besides, everything committed must be copied in the end,
and no partition, internal ones included, may have a transaction that is open when its time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from sim_cluster import SimulatedCluster
from sim_invariants import InvariantViolatedError
from sim_noise import NOISE
from sim_workload import BACKOFF_S, Workload, patiently
from simulator.loop import Process, Simulator

from minikafka.client import Consumer, FencedError, Producer, TransactionAbortedError
from minikafka.client.records import ConsumerRecord, Delivery
from minikafka.errors import ErrorCode, KafkaError
from minikafka.ledger.events import Event
from minikafka.ledger.transaction_checker import TransactionVerdict, check_transactions
from minikafka.model import Isolation, TopicPartition

OUTPUT: Final = "copies"
GROUP: Final = "copiers"
TELLERS: Final = ("teller-a", "teller-b")
COPIERS: Final = ("copier-a", "copier-b")
MEAN_LIFE_S: Final = 4.0
FROZEN_S: Final = 12.0
"""Of a process that has no successor: its group may go on without it."""
TIMEOUTS_MS: Final = (2_000, 8_000)
PATIENCES_MS: Final = (4_000, 20_000)
"""Of producers: records that take longer fail, and a coordinator that is away for longer leaves them in doubt."""
ENDED_WITHIN_S: Final = 10.0
"""A transaction whose time is over, with its markers."""
MIN_COMMITTED_PER_S: Final = 0.1
NOISY: Final = 0.3
"""Share of the records with one before them that is superseded, in compacted topics."""
NOT_MINE: Final = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS)
"""Another member has the partitions now."""
NODE_SETTINGS: Final[dict[str, object]] = {
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}

Body = Callable[[str, str], Awaitable[None]]


class AbortedOnPurposeError(Exception):
    """Its application does not want the transaction any more."""


class Transacting:
    """All of them. ``timeout_ms``: of their transactions."""

    def __init__(self, cluster: SimulatedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._rng = workload.rng()
        self._history = workload.history
        self.timeout_ms = self._rng.choice(TIMEOUTS_MS)
        self._patience_ms = self._rng.choice(PATIENCES_MS)
        self.is_over = False
        """Tellers begin nothing more."""
        self.is_copied = False
        """Copiers neither."""
        self.have_clocks_jumped: Callable[[], bool] = lambda: False
        """Coordinators may take a transaction for an old one."""
        self._is_each_alone = False
        """No id has another producer than that of its last life."""
        self._lives: dict[str, list[Process]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}  # of the last life of each
        self._transactions = 0
        self._records = 0
        self._refused = ""
        self._committed_at: dict[str, float] = {}  # last, by transactional id
        self._positions: dict[tuple[str, str], int] = {}

    @property
    def inputs(self) -> list[TopicPartition]:
        """What is copied."""
        return [tp for tp in self._workload.partitions if tp.topic != OUTPUT]

    # -- lives --------------------------------------------------------------------------------------------------------

    async def supervise(self, transactional_id: str) -> None:
        """Let one life follow another, until cancelled. The last one goes on."""
        rng, life = self._rng, 0
        body = self._tell if transactional_id in TELLERS else self._copy
        while True:
            life += 1
            self._begin_life(transactional_id, f"{transactional_id}.{life}", body)
            await asyncio.sleep(rng.expovariate(1 / MEAN_LIFE_S))
            if rng.random() < 0.15:
                self._pause(self._lives[transactional_id][-1], FROZEN_S * rng.random())
                await asyncio.sleep(rng.expovariate(1 / FROZEN_S))
            self._end_life(self._lives[transactional_id][-1])

    def _begin_life(self, transactional_id: str, name: str, body: Body) -> None:
        process = self._workload.process(name)
        self._lives.setdefault(transactional_id, []).append(process)
        self._tasks[transactional_id] = process.spawn(body(name, transactional_id))

    def _end_life(self, process: Process) -> None:
        """Or nearly so."""
        match self._rng.choice(("killed", "killed", "paused", "goes on")):
            case "killed":
                self._kill(process)
            case "paused":
                self._pause(process, 6.0 * self._rng.random())

    def _pause(self, process: Process, seconds: float) -> None:
        self._cluster.say(process.host, f"is paused for {seconds:.1f} s")
        process.pause()
        self._cluster.simulator.after(seconds, lambda _: process.resume())

    def _kill(self, process: Process) -> None:
        if process.is_alive:
            self._cluster.say(process.host, "is killed")
            if process.unhandled:
                raise InvariantViolatedError(f"{process.host}: unhandled {process.unhandled[0]!r}")
            process.kill()

    def begin(self) -> list[asyncio.Task[None]]:
        """What goes on until it is cancelled."""
        supervisor = self._workload.process("supervisor")
        lives = [supervisor.spawn(self.supervise(each)) for each in (*TELLERS, *COPIERS)]
        return [*lives, self._workload.process("auditor").spawn(self.audit("auditor"))]

    def end_zombies(self) -> None:
        """Of each id the last one is left. One that was fenced is begun again.

        It may have been told that another producer has its id where there is none: a coordinator does not write down
        the epoch before the present one, as Apache Kafka does not, and its successor cannot tell a repeated request.
        """
        self._is_each_alone = True
        for transactional_id, processes in self._lives.items():
            for process in processes[:-1]:
                self._kill(process)
            processes[-1].resume()
            if self._tasks[transactional_id].done():
                body = self._tell if transactional_id in TELLERS else self._copy
                self._begin_life(transactional_id, f"{transactional_id}.{len(processes) + 1}", body)

    def stop(self) -> None:
        """Everything is copied."""
        for processes in self._lives.values():
            self._kill(processes[-1])

    # -- producers ----------------------------------------------------------------------------------------------------

    async def _tell(self, life: str, transactional_id: str) -> None:
        await self._sessions(life, transactional_id, self._tell_session, lambda: self.is_over)

    async def _copy(self, life: str, transactional_id: str) -> None:
        await self._sessions(life, transactional_id, self._copy_session, lambda: self.is_copied)

    async def _sessions(
        self,
        life: str,
        transactional_id: str,
        session: Callable[[str, Producer], Awaitable[None]],
        is_done: Callable[[], bool],
    ) -> None:
        """A producer after another, until one is fenced; in the end there is nobody else who may fence it."""
        number = 0
        while not is_done():
            number += 1
            name = f"{life}.{number}"
            try:
                self._history.append(name, "invoke", "take_over", [transactional_id])
                async with self._producer(name, transactional_id) as producer:
                    self._history.append(name, "ok", "take_over", [transactional_id])
                    await session(name, producer)
            except FencedError as error:
                self._cluster.say(name, f"is fenced: {error}")
                if not self._is_each_alone:
                    return
                await asyncio.sleep(BACKOFF_S)
            except KafkaError as error:
                self._cluster.say(name, f"begins anew: {error}")
                await asyncio.sleep(BACKOFF_S)

    async def _tell_session(self, name: str, producer: Producer) -> None:
        rng = self._workload.rng()
        while not self.is_over:
            wanted = [(rng.choice(self._workload.partitions), b"") for _ in range(rng.randrange(1, 6))]
            pause_s = 1.5 * self.timeout_ms / 1000 if rng.random() < 0.02 else rng.choice((0.0, 0.05, 0.3))
            await self._transact(name, producer, wanted, pause_s=pause_s, aborts=rng.random() < 0.25)
            await asyncio.sleep(rng.expovariate(3.0))

    async def _copy_session(self, name: str, producer: Producer) -> None:
        rng = self._workload.rng()
        outputs = [tp for tp in self._workload.partitions if tp.topic == OUTPUT]
        async with Consumer(
            self._cluster.bootstrap_servers,
            *sorted({tp.topic for tp in self.inputs}),
            group_id=GROUP,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=Isolation.READ_COMMITTED,
            session_timeout_ms=6_000,
            rng=self._workload.rng(),
        ) as consumer:
            while not self.is_copied:
                polled = await consumer.poll(1000, max_records=rng.choice((1, 5, 20)))
                records = [each for each in polled if each.key != NOISE]
                if not records:
                    continue
                wanted = [(rng.choice(outputs), f"{source_of(each)}@{each.offset}".encode()) for each in records]
                is_copied = await self._transact(
                    name,
                    producer,
                    wanted,
                    pause_s=rng.choice((0.0, 0.0, 0.1, 0.4)),
                    aborts=rng.random() < 0.1,
                    consumer=consumer,
                    copied=records,
                )
                if not is_copied or rng.random() < 0.2:
                    consumer.rewind()  # to what was committed, be it a moment ago
                elif not self.is_over and rng.random() < 0.1:
                    return  # its partitions go to the other one at once

    async def _transact(
        self,
        name: str,
        producer: Producer,
        wanted: Iterable[tuple[TopicPartition, bytes]],
        *,
        pause_s: float,
        aborts: bool,
        consumer: Consumer | None = None,
        copied: Iterable[ConsumerRecord] = (),
    ) -> bool:
        """One transaction; was it committed? Raises KafkaError when nobody knows, FencedError when it is the last."""
        self._transactions += 1
        transaction = f"{name}#{self._transactions}"
        history, asks, began, was_alone = self._history, False, self._now, self._is_alone(name)
        history.append(name, "invoke", "begin", [transaction])
        try:
            async with producer.transaction():
                identities = [await self._send(name, producer, *each, pause_s) for each in wanted]
                if consumer is not None:
                    pairs = zip(identities, copied, strict=True)
                    copies = [(one, GROUP, source_of(source), source.offset) for one, source in pairs]
                    history.append(name, "invoke", "copy", copies)
                    await asyncio.sleep(pause_s)
                    await producer.send_offsets(consumer.progress())
                    await asyncio.sleep(2.0 * pause_s)  # the group may rebalance, and its new members must wait
                if aborts:
                    raise AbortedOnPurposeError
                await producer.flush()
                asks = True
                history.append(name, "invoke", "commit", [transaction])
        except AbortedOnPurposeError:
            return False
        except TransactionAbortedError as error:
            if asks:
                history.append(name, "fail", "commit", [transaction])
            is_alone = was_alone and self._is_alone(name)
            if error.code is ErrorCode.INVALID_TXN_STATE and is_alone and self._now - began < self._limit:
                self._refused = self._refused or f"{transaction} was in time, its id has no other producer: {error}"
            return False
        except KafkaError as error:
            if asks:
                history.append(name, "info", "commit", [transaction])
            elif error.code in NOT_MINE:
                return False
            raise
        history.append(name, "ok", "commit", [transaction])
        self._committed_at[name.rsplit(".", 2)[0]] = self._now
        return True

    @property
    def _now(self) -> float:
        return self._cluster.simulator.now

    @property
    def _limit(self) -> float:
        """Seconds within which nobody but its producer may end a transaction."""
        return 0.0 if self.have_clocks_jumped() else self.timeout_ms / 1000

    def _is_alone(self, name: str) -> bool:
        """No other producer lives that has, or had, the same id."""
        transactional_id, life, _ = name.rsplit(".", 2)
        *before, _ = self._lives[transactional_id]
        return len(before) + 1 == int(life) and not any(each.is_alive for each in before)

    async def _send(self, name: str, producer: Producer, tp: TopicPartition, key: bytes, pause_s: float) -> str:
        self._records += 1
        identity = f"{name}:{self._records}"
        self._history.append(name, "invoke", "send", [(str(tp), identity)])
        value = identity.encode() + b" " * self._rng.choice((0, 50, 500))
        if self._workload.has_keys:
            key = identity.encode()
            if self._rng.random() < NOISY:
                size = self._rng.choice((1, 200))
                noise = await producer.send(tp.topic, NOISE * size, key=NOISE, partition=tp.partition)
                noise.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits for it
        delivery = await producer.send(tp.topic, value, key=key, partition=tp.partition)

        def on_delivery(done: Delivery) -> None:
            self._workload.on_delivery(name, str(tp), identity, done, is_shared=not self._workload.has_keys)

        delivery.add_done_callback(on_delivery)
        if pause_s:
            await asyncio.sleep(pause_s * self._rng.random())
        return identity

    def _producer(self, name: str, transactional_id: str) -> Producer:
        return Producer(
            self._cluster.bootstrap_servers,
            client_id=name,
            batch_bytes=8 << 10,
            delivery_timeout_ms=self._patience_ms,
            max_block_ms=self._patience_ms,
            transactional_id=transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            rng=self._workload.rng(),
            wall_s=self._workload.wall_s,
        )

    # -- readers ------------------------------------------------------------------------------------------------------

    async def audit(self, name: str) -> None:
        """Follow all partitions until cancelled."""
        life = 0
        while True:
            life += 1
            try:
                await self._follow(f"{name}.{life}")
            except KafkaError:
                await asyncio.sleep(BACKOFF_S)

    async def _follow(self, name: str) -> None:
        async with self._reader(name) as consumer:
            consumer.assign(self._workload.partitions)
            self._history.append(name, "ok", "assign_committed", [str(tp) for tp in self._workload.partitions])
            until = self._cluster.simulator.now + self._rng.choice((5.0, 20.0, 100.0))
            while self._cluster.simulator.now < until:  # from the beginning, and again
                self._note(name, await consumer.poll(timeout_ms=1000))

    async def read_back(self, name: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Read all that is committed; where each partition's last record is."""
        last: dict[TopicPartition, int] = {}
        async with self._reader(name) as consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            self._history.append(name, "ok", "assign_committed", [str(tp) for tp in partitions])
            while [tp for tp in partitions if await consumer.position(tp) < ends[tp]]:
                records = await consumer.poll(timeout_ms=1000)
                self._note(name, records)
                judged = (each for each in records if each.key != NOISE)
                last |= {TopicPartition(each.topic, each.partition): each.offset for each in judged}
            self._history.append(name, "ok", "drained_committed", [str(tp) for tp in partitions])
        return last

    def _note(self, name: str, records: Iterable[ConsumerRecord]) -> None:
        handed = [
            (source_of(each), (each.value or b"").rstrip().decode(), each.offset)
            for each in records
            if each.key != NOISE
        ]
        for tp, _, offset in handed:
            if offset < self._positions.get((name, tp), 0) and self._workload.may_go_back(tp):
                self._history.append(name, "ok", "assign_committed", [(tp, offset)])
            self._positions[name, tp] = offset + 1
        if handed:
            self._history.append(name, "ok", "poll_committed", handed)

    def _reader(self, name: str, group: str | None = None) -> Consumer:
        return Consumer(
            self._cluster.bootstrap_servers,
            group_id=group,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=Isolation.READ_COMMITTED,
            rng=self._workload.rng(),
        )

    # -- in the end ---------------------------------------------------------------------------------------------------

    def silent_since(self, time_s: float) -> list[str]:
        """The tellers that have committed nothing since then."""
        return [each for each in TELLERS if self._committed_at.get(each, 0.0) <= time_s]

    def have_tellers_ended(self) -> bool:
        """Each has ended its last transaction, or waited in vain for that."""
        return all(self._tasks[each].done() for each in TELLERS)

    async def wait_until_copied(self, last: dict[TopicPartition, int]) -> None:
        """Until the group has committed offsets behind these."""
        await patiently(self._wait_until_copied, last)
        self.is_copied = True

    async def _wait_until_copied(self, last: dict[TopicPartition, int]) -> None:
        async with self._reader("clerk", GROUP) as consumer:
            for tp, offset in last.items():
                while (await consumer.committed(tp) or 0) <= offset:  # noqa: ASYNC110  # the cluster is asked
                    await asyncio.sleep(0.5)

    async def note_positions(self) -> None:
        """What the group has committed."""
        async with self._reader("clerk", GROUP) as consumer:
            found = [(tp, await consumer.committed(tp)) for tp in self.inputs]
        self._history.append("clerk", "ok", "position", [(GROUP, str(tp), offset or 0) for tp, offset in found])

    def ends(self) -> list[tuple[str, int, int]]:
        """Of all partitions, internal ones too: as leaders have them, and followers, who may lead next. Worst last."""
        ends = [
            (str(one.topic_partition), one.log.last_stable_offset(one.high_watermark), one.high_watermark)
            for _, node in self._cluster.nodes()
            for one in node.replicas
        ]
        return sorted(ends, key=lambda end: end[2] - end[1])

    def is_stable(self) -> bool:
        """No transaction is open."""
        return all(stable == high_watermark for _, stable, high_watermark in self.ends())

    def wait_until_stable(self, simulator: Simulator) -> None:
        """Until no transaction is open, or the time of each is over."""
        give_up = simulator.now + self.timeout_ms / 1000 + ENDED_WITHIN_S
        while not self.is_stable() and simulator.now < give_up:
            simulator.run(simulator.now + 0.5)

    def note_ends(self) -> None:
        """When the time of each transaction is over."""
        self._history.append("observer", "ok", "stable_end", self.ends())

    def outside(self, events: Sequence[Event]) -> Sequence[Event]:
        """A history without the records of transactions, where the cleaner drops what was aborted."""
        if not self._workload.has_keys:
            return events
        return [
            event._replace(value=[each for each in event.value if not each[1].startswith((*TELLERS, *COPIERS))])
            if event.function in ("send", "poll", "poll_committed")
            else event
            for event in events
        ]

    def judge(self, duration_s: float) -> TransactionVerdict:
        """The verdict. InvariantViolatedError when a rule is broken, or little was done."""
        verdict = check_transactions(self._history.events)
        if self._refused:
            raise InvariantViolatedError(self._refused)
        if verdict.broken:
            examples = [example for rule in verdict.broken for example in verdict.examples[rule][:3]]
            raise InvariantViolatedError(f"{verdict.sentence}: {'; '.join(examples)}")
        if verdict.unjudged:
            raise InvariantViolatedError(verdict.sentence)
        if verdict.committed < MIN_COMMITTED_PER_S * duration_s or not verdict.copied:
            raise InvariantViolatedError(f"too little to prove anything: {verdict.sentence}")
        return verdict


def source_of(record: ConsumerRecord) -> str:
    """The partition that it was read from."""
    return f"{record.topic}-{record.partition}"
