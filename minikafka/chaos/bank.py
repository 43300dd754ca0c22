"""A bank that is exact while everything is killed: the demonstration of transactions.

Transfers between accounts come in through a topic with three partitions. An application (:mod:`bank_teller`) books each
as two records in another topic, in transactions with its offsets. It is killed at random, and so are the leader of the
ledger, the coordinator of the transactions, that of the group, and the controller. Two readers watch the ledger: one
with the isolation level read_committed, one without. Whenever a reader has read all there is, it adds up all accounts.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from minikafka.chaos.bank_teller import GROUP, LEDGER, TRANSACTIONAL_ID, TRANSFERS
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import ReservedPorts
from minikafka.client import Admin, Consumer, Producer
from minikafka.model import Isolation, TopicPartition

BROKERS: Final = 3
ACCOUNTS: Final = tuple(f"account-{number}" for number in range(8))
TRANSFERS_PER_S: Final = 200
DOWN_S: Final = 1.0
CALM_S: Final = (0.5, 1.5)
CATCH_UP_S: Final = 60.0
READ_AT_ONCE: Final = 10_000
IN_SYNC_S: Final = 60.0

Say = Callable[[str], None]


@dataclass(slots=True)
class Reader:
    """What one reader of the ledger has seen."""

    isolation: Isolation
    bookings: Counter[int] = field(default_factory=Counter)
    """Of each transfer; two are right."""
    total: int = 0
    """Of all accounts together; 0 is right, as money only moves."""
    looks: int = 0
    wrong_looks: int = 0
    """When the total was not 0, though there was nothing more to read."""
    largest_error: int = 0

    def read(self, value: bytes) -> None:
        """A booking."""
        booking = json.loads(value)
        self.bookings[booking["transfer"]] += 1
        self.total += booking["amount"]

    def look(self) -> None:
        """There is nothing more to read now: add up."""
        self.looks += 1
        self.wrong_looks += self.total != 0
        self.largest_error = max(self.largest_error, abs(self.total))

    @property
    def transfers(self) -> int:
        """That were seen."""
        return len(self.bookings)

    @property
    def doubled(self) -> int:
        """Transfers that were booked more than once."""
        return sum(count > 2 for count in self.bookings.values())

    @property
    def halves(self) -> int:
        """Transfers with one booking."""
        return sum(count == 1 for count in self.bookings.values())


@dataclass(frozen=True, slots=True)
class BankOutcome:
    """What the demonstration measured."""

    sent: int
    committed: Reader
    uncommitted: Reader
    kills: dict[str, int]
    seconds: float

    @property
    def lost(self) -> int:
        """Transfers that were sent, and not booked."""
        return self.sent - self.committed.transfers

    @property
    def is_exact(self) -> bool:
        """Each transfer is booked once, and the accounts' sum was right whenever a reader of committed ones looked."""
        seen = self.committed
        return not (self.lost or seen.doubled or seen.halves or seen.wrong_looks)


class Bank:
    """One run: ``with Bank(say, seed) as bank: bank.run(seconds)``. The nodes live until the block ends."""

    def __init__(self, say: Say, seed: int) -> None:
        self.say = say
        self._rng = random.Random(seed)
        self.directory = Path(tempfile.mkdtemp(prefix="minikafka-bank-"))
        self._ports = ReservedPorts(BROKERS)
        self.cluster = LocalCluster.create(
            self.directory / "cluster",
            brokers=BROKERS,
            base_port=self._ports.base_port,
            settings={"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"},
            detached=False,
        )
        self.committed, self.uncommitted = Reader(Isolation.READ_COMMITTED), Reader(Isolation.READ_UNCOMMITTED)
        self.sent = 0
        self.kills: Counter[str] = Counter()
        self._teller: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._kill_teller()
        self.cluster.kill_all()
        self._ports.close()

    def remove_files(self) -> None:
        """Delete what the nodes stored and logged."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, seconds: float) -> BankOutcome:
        """Start, feed, break and mend for so many seconds; then wait until all is booked."""
        began_s = time.monotonic()
        self.cluster.start()
        self.say(f"{BROKERS} brokers ready after {time.monotonic() - began_s:.1f} s, logs in {self.directory}")
        asyncio.run(self._run(seconds))
        return BankOutcome(self.sent, self.committed, self.uncommitted, dict(self.kills), time.monotonic() - began_s)

    async def _run(self, seconds: float) -> None:
        async with Admin(self._servers) as admin:
            for topic, partitions in ((TRANSFERS, 3), (LEDGER, 1)):
                await admin.create_topic(topic, partitions=partitions)
        self._start_teller()
        self.say(f"{TRANSFERS_PER_S} transfers a second; an application books them in transactions")
        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(self._watch(reader)) for reader in (self.committed, self.uncommitted)]
            feeding = tasks.create_task(self._feed(seconds))
            await self._break_things(seconds)
            await feeding
            self.say(f"{self.sent:,} transfers were sent; nothing is killed any more, and the rest is booked")
            await self._wait_until_booked()
            for reader in readers:
                reader.cancel()

    @property
    def _servers(self) -> str:
        return self.cluster.bootstrap_servers

    async def _feed(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        async with Producer(self._servers) as producer:
            while time.monotonic() < until_s:
                source, target = self._rng.sample(ACCOUNTS, 2)
                transfer = {"number": self.sent, "from": source, "to": target, "amount": self._rng.randint(1, 100)}
                await producer.send(TRANSFERS, json.dumps(transfer).encode())
                self.sent += 1
                await asyncio.sleep(1 / TRANSFERS_PER_S)

    async def _watch(self, reader: Reader) -> None:
        ledger = TopicPartition(LEDGER, 0)
        async with Consumer(self._servers, isolation_level=reader.isolation) as consumer:
            consumer.assign([ledger])
            consumer.seek(ledger, 0)
            while True:
                while records := await consumer.poll(20, READ_AT_ONCE):
                    for record in records:
                        reader.read(record.value or b"")
                reader.look()

    async def _wait_until_booked(self) -> None:
        """By the reader of committed bookings; by the other one, all that it will see, too."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                while self.committed.transfers < self.sent or self.committed.halves:
                    self._tend_teller()
                    await asyncio.sleep(0.1)
        looks = self.committed.looks, self.uncommitted.looks
        while self.committed.looks < looks[0] + 2 or self.uncommitted.looks < looks[1] + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    # -- faults -----------------------------------------------------------------------------------------------------

    async def _break_things(self, seconds: float) -> None:
        """The application and the nodes by turns, until the time is over."""
        until_s = time.monotonic() + seconds
        faults: list[tuple[str, Callable[[], int] | None]] = [
            ("application", None),
            ("leader of the ledger", lambda: self.cluster.leader_of(LEDGER)),
            ("application", None),
            ("transaction coordinator", lambda: self.cluster.coordinator_of(TRANSACTIONAL_ID, transactional=True)),
            ("application", None),
            ("group coordinator", lambda: self.cluster.coordinator_of(GROUP)),
            ("controller", self.cluster.controller),
        ]
        await self._sleep(2.0)
        while time.monotonic() < until_s:
            name, find = faults[self.kills.total() % len(faults)]
            if find is None:
                self._kill_teller()
                self._start_teller()
                self.kills[name] += 1
                self.say("killed the application; another one begins")
            else:
                await asyncio.to_thread(self._kill_node, name, find)
            await self._sleep(self._rng.uniform(*CALM_S))

    async def _sleep(self, seconds: float) -> None:
        self._tend_teller()
        await asyncio.sleep(seconds)
        self._tend_teller()

    def _kill_node(self, name: str, find: Callable[[], int]) -> None:
        try:
            node_id = find()
        except ClusterError:  # an election is under way
            time.sleep(0.1)
            return
        self.cluster.kill(node_id)
        self.kills[name] += 1
        self.say(f"killed node {node_id}, the {name}, with SIGKILL")
        time.sleep(DOWN_S)
        self.cluster.start_node(node_id)
        self.cluster.wait_in_sync(IN_SYNC_S)
        self.say(f"node {node_id} is back, and in sync")

    def _start_teller(self) -> None:
        log = (self.directory / "teller.log").open("ab")
        with log:
            self._teller = subprocess.Popen(
                [sys.executable, "-P", "-m", "minikafka.chaos.bank_teller", self._servers], stdout=log, stderr=log
            )

    def _tend_teller(self) -> None:
        """Start it again if it has ended by itself."""
        if self._teller is None or self._teller.poll() is not None:
            self._start_teller()

    def _kill_teller(self) -> None:
        if self._teller is not None:
            self._teller.kill()
            self._teller.wait()
            self._teller = None
