"""An EndTxn that arrives late: what it does in version 1 of the protocol of transactions, and not in version 2.

A teller moves money between two accounts, a transaction for each transfer. The network keeps the commit of the first
transfer back. The client repeats it, and it is done. In the second transfer the teller has taken the money from one
account, and finds that the other one is closed: it will abort. Now the late commit arrives.

In version 1 both transactions have the same producer epoch, so it commits the second one, a half of a transfer, and
nobody can take that back. In version 2 (KIP-890) the first commit has ended its epoch: the late one is refused. The
teller of version 1 is librdkafka, which speaks no other; that of version 2 is minikafka's own client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from minikafka.chaos.delaying_proxy import DelayingProxy
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port
from minikafka.client import Admin, Consumer, Producer
from minikafka.client.admin import FeatureChange
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.features import TRANSACTION_VERSION
from minikafka.model import LATEST, Isolation, TopicPartition
from minikafka.wire.api import ApiKey

TOPIC: Final = "accounts"
TELLER: Final = "teller"
OPENING: Final = 100
AMOUNT: Final = 30

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LateEnd:
    """What became of it. ``answer``: of the coordinator, to the late commit."""

    version: int
    answer: ErrorCode
    abort: ErrorCode
    total_before: int
    total_after: int

    @property
    def is_harmless(self) -> bool:
        """No money is lost: readers of committed records see the same sum as before."""
        return self.total_before == self.total_after

    @property
    def as_expected(self) -> bool:
        """Version 1 is harmed, version 2 is not."""
        return self.is_harmless == (self.version > 1)


class Teller(Protocol):
    """A transactional producer, step by step."""

    def begin(self) -> None:
        """A transaction."""

    def book(self, account: str, amount: int) -> None:
        """Add to an account, and wait until that is in the log."""

    def commit(self) -> None:
        """The transaction."""

    def abort(self) -> None:
        """The transaction. KafkaError."""

    def close(self) -> None:
        """It does not write any more."""


def show_late_end(directory: Path, version: int, say: Say) -> LateEnd:
    """Run it on a node of its own, which lives until it is over."""
    port = free_base_port(1)
    with DelayingProxy(port) as proxy:
        settings = {"advertised.listeners": f"CLIENT://127.0.0.1:{proxy.port}"}
        cluster = LocalCluster.create(directory, brokers=1, base_port=port, settings=settings, detached=False)
        try:
            cluster.start()
            return _play(f"127.0.0.1:{proxy.port}", proxy, version, say)
        finally:
            cluster.kill_all()


def _play(servers: str, proxy: DelayingProxy, version: int, say: Say) -> LateEnd:
    asyncio.run(_prepare(servers, version))
    teller: Teller = RdkafkaTeller(servers) if version < 2 else OwnTeller(servers)
    client = "librdkafka" if version < 2 else "minikafka's client"
    say(f"one node, transaction.version={version}; the teller is {client}, through a proxy that can delay requests")
    try:
        teller.begin()
        for account in ("alice", "bob"):
            teller.book(account, OPENING)
        teller.commit()
        before = asyncio.run(balances(servers))
        say(f"alice and bob have {OPENING} each: committed are {_named(before)}")

        teller.begin()
        teller.book("alice", -AMOUNT)
        teller.book("bob", AMOUNT)
        proxy.keep_next(ApiKey.END_TXN)
        say(f"alice gives bob {AMOUNT}: the network keeps the commit back")
        teller.commit()
        proxy.wait_kept()
        say(f"the client has repeated it: committed are {_named(asyncio.run(balances(servers)))}")

        teller.begin()
        teller.book("alice", -AMOUNT)
        say(f"alice gives bob {AMOUNT} more; so far {AMOUNT} are taken from alice, in an open transaction")
        answer = ErrorCode.of(proxy.deliver().error_code)
        said = "takes it for the end of this transaction" if not answer else f"answers {answer.name}"
        say(f"only now the kept commit arrives: the coordinator {said}")
        abort = _attempt(teller.abort)
        said = "and that is done" if not abort else f"and is told {abort.name}: it is committed"
        say(f"bob's account is closed: the teller aborts, {said}")
    finally:
        teller.close()
    after = asyncio.run(balances(servers))
    result = LateEnd(version, answer, abort, sum(before.values()), sum(after.values()))
    lost = "no money is lost" if result.is_harmless else f"{result.total_before - result.total_after} are lost"
    say(f"committed are {_named(after)}: {lost}")
    return result


def _attempt(act: Callable[[], None]) -> ErrorCode:
    try:
        act()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _named(accounts: dict[str, int]) -> str:
    return ", ".join(f"{account} {amount}" for account, amount in sorted(accounts.items()))


async def _prepare(servers: str, version: int) -> None:
    async with Admin(servers) as admin:
        await admin.create_topic(TOPIC, partitions=1)
        if version < 2:
            await admin.update_features({TRANSACTION_VERSION: version}, change=FeatureChange.SAFE_DOWNGRADE)


async def balances(servers: str) -> dict[str, int]:
    """What a reader of committed records sees, by account, once no transaction is open or ending."""
    tp, accounts = TopicPartition(TOPIC, 0), dict[str, int]()
    async with Admin(servers) as admin:
        while True:  # markers follow the answer to EndTxn
            end, stable = [(await admin.list_offsets({tp: LATEST}, isolation=each))[tp].offset for each in Isolation]
            view = await admin.describe_transaction(TELLER)
            if end == stable and view.state.startswith("Complete"):
                break
            await asyncio.sleep(0.01)
    async with Consumer(servers, isolation_level=Isolation.READ_COMMITTED) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        while await consumer.position(tp) < end:
            for record in await consumer.poll(100):
                account = (record.key or b"").decode()
                accounts[account] = accounts.get(account, 0) + int(record.value or b"0")
    return accounts


class RdkafkaTeller:
    """By confluent-kafka. It speaks version 1."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Producer as RdkafkaProducer

        silent = logging.getLogger(__name__)  # its last error is told here
        silent.addHandler(logging.NullHandler())
        silent.propagate = False
        self._producer = RdkafkaProducer({"bootstrap.servers": servers, "transactional.id": TELLER}, logger=silent)
        self._producer.init_transactions(30)

    def begin(self) -> None:
        """A transaction."""
        self._producer.begin_transaction()

    def book(self, account: str, amount: int) -> None:
        """Add to an account, and wait until that is in the log."""
        self._producer.produce(TOPIC, str(amount), account, partition=0)
        self._producer.flush(30)

    def commit(self) -> None:
        """The transaction."""
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        """The transaction. KafkaError."""
        from confluent_kafka import KafkaException

        try:
            self._producer.abort_transaction(30)
        except KafkaException as error:
            raise KafkaError(ErrorCode.of(error.args[0].code()), error.args[0].str()) from error

    def close(self) -> None:
        """It does not write any more."""
        self._producer.purge()


class OwnTeller:
    """By minikafka's own client. It speaks version 2."""

    def __init__(self, servers: str) -> None:
        self._runner = asyncio.Runner()
        self._producer = self._runner.run(_started(servers))
        self._transaction: AbstractAsyncContextManager[None] | None = None

    def begin(self) -> None:
        """A transaction."""
        self._transaction = self._producer.transaction()
        self._runner.run(self._transaction.__aenter__())

    def book(self, account: str, amount: int) -> None:
        """Add to an account, and wait until that is in the log."""
        self._runner.run(self._producer.send_and_wait(TOPIC, str(amount).encode(), key=account.encode(), partition=0))

    def commit(self) -> None:
        """The transaction."""
        self._leave(None)

    def abort(self) -> None:
        """The transaction. KafkaError."""
        try:
            self._leave(_OnPurposeError())
        except _OnPurposeError:
            return

    def close(self) -> None:
        """It does not write any more."""
        self._runner.run(self._producer.close())
        self._runner.close()

    def _leave(self, error: BaseException | None) -> None:
        assert self._transaction is not None
        kind: Any = None if error is None else type(error)
        self._runner.run(_leaving(self._transaction, kind, error))


class _OnPurposeError(Exception):
    pass


async def _leaving(transaction: AbstractAsyncContextManager[None], kind: Any, error: BaseException | None) -> None:
    await transaction.__aexit__(kind, error, None)


async def _started(servers: str) -> Producer:
    producer = Producer(servers, transactional_id=TELLER)
    await producer.start()
    return producer
