"""``minikafka transaction`` and what else shows transactions, with a live one and one that hangs.

It hangs because its producer never told the coordinator of the partition, and the leader does not ask: verification is
off, as it may be in Kafka, too (KIP-890).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_cli import CommandLine, QuickCommandLine
from live_cluster import NEVER_MS, PATIENCE_S, eventually, running_cluster
from live_wire import Wire, batch, produce_request

from minikafka.errors import ErrorCode
from minikafka.model import ProducerIdentity
from minikafka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.wire.messages.end_txn import EndTxnRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest

TRY_AGAIN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class Classic:
    """A producer of transaction version 1, step by step, at the one node of a cluster."""

    def __init__(self, wire: Wire, transactional_id: str) -> None:
        self.wire, self.transactional_id = wire, transactional_id
        find = FindCoordinatorRequest(coordinator_keys=[transactional_id], key_type=1)
        eventually(lambda: wire.ask(find, 4).coordinators[0].error_code == 0, "a coordinator")
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)

        def asked() -> Any:
            answer = wire.ask(init, 4)
            return None if answer.error_code in TRY_AGAIN else answer

        answer = eventually(asked, "a producer id")
        assert answer.error_code == 0, answer.error_code
        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)

    def add(self, topic: str) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        (result,) = self.wire.ask(request, 3).results_by_topic_v3_and_below
        assert result.results_by_partition[0].partition_error_code == 0

    def write(self, topic: str, value: bytes) -> int:
        """The offset."""
        producer_id, epoch = self.identity
        records = batch(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True)
        request = produce_request(topic, records)
        request.transactional_id = self.transactional_id
        (answer,) = self.wire.ask(request, 9).responses[0].partition_responses
        assert answer.error_code == 0, answer.error_code
        return int(answer.base_offset)

    def commit(self) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=True,
        )
        assert self.wire.ask(request, 3).error_code == 0


@pytest.fixture(scope="module")
def minikafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickCommandLine]:
    """For a node whose leaders do not ask coordinators."""
    directory = tmp_path_factory.mktemp("transactions") / "cluster"
    with running_cluster(directory, 1, transaction_partition_verification_enable="false"):
        yield QuickCommandLine(directory)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs wait for what is only nice to have, as long as a busy machine takes."""
    for module in ("describing", "status"):
        monkeypatch.setattr(f"minikafka.cli.{module}.PATIENCE_S", PATIENCE_S)


@pytest.fixture
def wire(minikafka: QuickCommandLine) -> Iterator[Wire]:
    status = json.loads(minikafka("cluster", "status", "--json"))
    with Wire(int(status["bootstrap_servers"].rpartition(":")[2])) as connection:
        yield connection


def test_readers_that_are_held_back_learn_by_whom(
    minikafka: QuickCommandLine, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    minikafka("topic", "create", "shown")
    wire.produce("shown", b"before")
    open_one = Classic(wire, "painter")
    open_one.add("shown")
    open_one.write("shown", b"inside")
    wire.produce("shown", b"behind")
    waits = b"read_committed consumers wait in 1 partition: shown-0 at offset 1 for the transaction of painter, "
    consume = ("consume", "shown", "--partition", "0", "--offset")
    committed = ("--isolation-level", "read_committed")
    program = CommandLine(minikafka.directory)
    assert program(*consume, "0", "--count", "3") == b"before\ninside\nbehind\n"
    assert program(*consume, "0", "--count", "1", *committed) == b"before\n"

    def silent() -> bytes:
        printed = program.run(*consume, "1", "--timeout", "0.2", *committed)
        assert (printed.stdout, printed.stderr.splitlines()[0]) == (b"", b"no new record in 0.2 s")
        return printed.stderr

    eventually(lambda: waits in silent(), "the reason to be told, which a busy machine may be too slow for")
    (row,) = json.loads(minikafka("topic", "describe", "shown", "--json"))
    assert (row["last_stable_offset"], row["end_offset"]) == (1, 3)
    assert (row["held_back_by"]["transactional_id"], row["held_back_by"]["hangs"]) == ("painter", False)
    assert b"read_committed waits at 1: transaction of painter, " in minikafka("topic", "describe", "shown")
    monkeypatch.setattr("minikafka.cli.held_back.LONG_MS", NEVER_MS)
    assert b"painter" not in minikafka("cluster", "status")  # it may well be over soon
    monkeypatch.setattr("minikafka.cli.held_back.LONG_MS", 0)
    servers = json.loads(minikafka("cluster", "status", "--json"))["bootstrap_servers"]
    for where in ((), ("-b", servers)):
        assert waits in minikafka("cluster", "status", *where)
        (held,) = json.loads(minikafka("cluster", "status", *where, "--json"))["held_back"]
        assert (held["topic"], held["last_stable_offset"], held["transactional_id"]) == ("shown", 1, "painter")
    open_one.commit()
    assert program(*consume, "0", "--count", "3", *committed) == b"before\ninside\nbehind\n"
    assert json.loads(minikafka("cluster", "status", "--json"))["held_back"] == []


@pytest.mark.spec("T27")
def test_transactions_are_seen_and_hanging_ones_aborted(minikafka: QuickCommandLine, wire: Wire) -> None:
    def shown(*words: str, fails: bool = False) -> Any:
        return json.loads(minikafka.run_quickly(*words, "--json", fails=fails).stdout)

    for topic in ("orders", "payments"):
        minikafka("topic", "create", topic)
    live, lost = Classic(wire, "copier"), Classic(wire, "lost")
    live.add("orders")
    live.write("orders", b"live")
    start = lost.write("orders", b"hanging")
    assert start == 1

    listed = [each for each in shown("transaction", "list") if each["transactional_id"] in ("copier", "lost")]
    assert [(each["transactional_id"], each["coordinator"], each["state"]) for each in listed] == [
        ("copier", 1, "Ongoing"),
        ("lost", 1, "Empty"),
    ]
    assert [each["transactional_id"] for each in shown("transaction", "list", "--state", "ongoing")] == ["copier"]
    assert shown("transaction", "list", "--duration-filter", "3600000") == []
    producer_id = str(lost.identity.producer_id)
    assert [each["transactional_id"] for each in shown("transaction", "list", "--producer-id", producer_id)] == ["lost"]
    by_pattern = ("transaction", "list", "--transactional-id-pattern")
    assert [each["transactional_id"] for each in shown(*by_pattern, "l.st")] == ["lost"]
    assert b"'(' is no regular expression of RE2" in minikafka(*by_pattern, "(", fails=True)
    assert b"copier" in minikafka("transaction", "list")

    (described,) = shown("transaction", "describe", "copier")
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 600_000)
    assert described["partitions"] == [{"topic": "orders", "partition": 0}]
    assert b"orders-0" in minikafka("transaction", "describe", "--transactional-id", "copier")
    assert b"transactional id 'nobody' not found" in minikafka("transaction", "describe", "nobody", fails=True)

    producers = shown("transaction", "describe-producers", "orders", "--partition", "0")
    starts = {each["producer_id"]: each["transaction_start"] for each in producers}
    assert starts == {live.identity.producer_id: 0, lost.identity.producer_id: 1}
    assert producers == shown("transaction", "describe-producers", "--topic", "orders", "-p", "0", "--broker-id", "1")
    assert b"there is no live broker 7" in minikafka(
        "transaction", "describe-producers", "orders", "-p", "0", "--broker-id", "7", fails=True
    )
    assert b"last" in minikafka("transaction", "describe-producers", "orders", "-p", "0")

    assert b"no hanging transactions" in minikafka("transaction", "find-hanging")  # it may be alive
    where = ("transaction", "find-hanging", "--max-transaction-timeout", "0")
    for scope in ((), ("--topic", "orders"), ("--topic", "orders", "--partition", "0"), ("--broker-id", "1")):
        (hanging,) = shown(*where, *scope, fails=True)
        assert (hanging["topic"], hanging["partition"], hanging["transaction_start"]) == ("orders", 0, 1)
        assert (hanging["producer_id"], hanging["transactional_id"]) == (lost.identity.producer_id, "lost")
    assert shown(*where, "--topic", "payments") == []
    told = minikafka.run_quickly(*where, fails=True).stdout
    assert b"minikafka transaction abort orders --partition 0 --start-offset 1 --dir" in told

    abort = ("transaction", "abort", "orders", "--partition", "0", "--start-offset")
    assert b"does not hang: transactional id 'copier' is in the state Ongoing" in minikafka(*abort, "0", fails=True)
    assert b"no open transaction begins at offset 5 of orders-0; open ones begin at 0, 1" in minikafka(
        *abort, "5", fails=True
    )
    assert b"aborted the transaction of producer" in minikafka(*abort, "1")
    assert shown(*where) == []
    live.commit()
    eventually(lambda: shown("transaction", "describe", "copier")[0]["state"] == "CompleteCommit", "its marker")

    directory = json.loads(minikafka("cluster", "status", "--json"))["dir"]
    (segment,) = Path(directory).glob("*/data/orders-0/*.log")
    dumped = [line.split("  ")[4:] for line in minikafka("log", "dump", str(segment)).decode().splitlines()]
    kept, gone = (f"producer {identity.producer_id}/0" for identity in (live.identity, lost.identity))
    assert [" ".join(parts[1:]) for parts in dumped] == [
        f"{kept} seq 0 transactional",
        f"{gone} seq 0 transactional",
        f"{gone} seq -1 transactional control abort",
        f"{kept} seq -1 transactional control commit",
    ]


def test_a_transaction_is_terminated(minikafka: QuickCommandLine, wire: Wire) -> None:
    minikafka("topic", "create", "given-up")
    gone = Classic(wire, "gone")
    gone.add("given-up")
    gone.write("given-up", b"half")
    assert minikafka("transaction", "terminate", "gone").startswith(b"gone: aborted its transaction; ")
    (row,) = json.loads(minikafka("topic", "describe", "given-up", "--json"))
    assert (row["held_back_by"], row["last_stable_offset"], row["end_offset"]) == (None, 2, 2)
    assert b"it had no open transaction" in minikafka("transaction", "terminate", "gone")
    assert b"transactional id 'nobody' not found" in minikafka("transaction", "terminate", "nobody", fails=True)


def test_quotas(minikafka: QuickCommandLine) -> None:
    assert minikafka("quota", "list") == b"no client has a quota\n"
    of_loader = ("--client-id", "loader")
    said = minikafka("quota", "set", *of_loader, "producer_byte_rate=1000000", "consumer_byte_rate=2e6")
    assert b"client-id loader: producer_byte_rate is now 1000000" in said
    minikafka("quota", "set", "--client-id-default", "--user", "u", "request_percentage=12.5")
    listed = json.loads(minikafka("quota", "list", "--json"))
    assert sorted(listed, key=lambda each: each["has_user"]) == [
        {
            "user": None,
            "client_id": "loader",
            "has_user": False,
            "has_client_id": True,
            "quotas": {"consumer_byte_rate": 2e6, "producer_byte_rate": 1e6},
        },
        {
            "user": "u",
            "client_id": None,
            "has_user": True,
            "has_client_id": True,
            "quotas": {"request_percentage": 12.5},
        },
    ]
    assert b"user u, client-id (default)" in minikafka("quota", "list")
    assert b"quota 'bytes' is unknown; there are producer_byte_rate" in minikafka(
        "quota", "set", *of_loader, "bytes=1", fails=True
    )
    assert b"must be more than 0" in minikafka("quota", "set", *of_loader, "producer_byte_rate=0", fails=True)
    for wrong, problem in (
        (("producer_byte_rate=1",), b"say for whom"),
        ((*of_loader, "--client-id-default", "producer_byte_rate=1"), b"not both"),
        ((*of_loader, "producer_byte_rate"), b"is not QUOTA=VALUE"),
        ((*of_loader, "producer_byte_rate=many"), b"is not QUOTA=VALUE"),
        ((*of_loader, "producer_byte_rate=1", "producer_byte_rate=2"), b"is named twice"),
    ):
        assert problem in minikafka("quota", "set", *wrong, fails=True)
    minikafka("quota", "remove", *of_loader, "producer_byte_rate", "consumer_byte_rate")
    minikafka("quota", "remove", "--client-id-default", "--user", "u", "request_percentage")
    assert minikafka("quota", "list") == b"no client has a quota\n"


def test_the_level_of_a_feature(minikafka: QuickCommandLine) -> None:
    def described() -> dict[str, Any]:
        features = {each["feature"]: each for each in json.loads(minikafka("cluster", "feature", "describe", "--json"))}
        found = features["transaction.version"]
        assert isinstance(found, dict)
        return found

    def change(verb: str, level: str, *more: str, fails: bool = False) -> bytes:
        return minikafka("cluster", "feature", verb, "--feature", f"transaction.version={level}", *more, fails=fails)

    assert described() == {"feature": "transaction.version", "lowest": 0, "highest": 2, "level": 2}
    assert change("downgrade", "1", "--dry-run") == b"transaction.version can be set to level 1\n"
    assert described()["level"] == 2
    assert change("downgrade", "1") == b"transaction.version is now at level 1\n"
    assert described()["level"] == 1
    assert b"ask for a downgrade" in change("upgrade", "0", fails=True)
    assert b"goes from 0 to 2, not to 3" in change("upgrade", "3", fails=True)
    for wrong in ("x", "-1", "99999"):
        assert b"is not NAME=LEVEL" in change("upgrade", wrong, fails=True)
    assert change("upgrade", "2") == b"transaction.version is now at level 2\n"
    assert b"transaction.version" in minikafka("cluster", "feature", "describe")
