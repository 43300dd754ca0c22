"""Transactions from the first request to the markers, on real nodes; what coordinators decide is tested in
tests/unit/transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from broker_client import Client, batch, produce_request
from broker_node import alter_setting, create_topic, delete_topic, eventually, in_time, led, turns
from captured_logs import capture_logs

from minikafka.broker import transaction_admission, transaction_coordinators
from minikafka.broker.drivers import markers as marker_driver
from minikafka.broker.handlers import write_txn_markers
from minikafka.broker.node import Node
from minikafka.broker.pacing import PerTurn
from minikafka.broker.peers import Peers
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.coordination.partitioning import partition_for
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import EVERY_BROKER
from minikafka.model import TRANSACTION_STATE_TOPIC, ProducerIdentity, TopicPartition
from minikafka.net import listener
from minikafka.transactions import records, shard
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import Outcome
from minikafka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from minikafka.wire.messages.end_txn import EndTxnRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.list_transactions import ListTransactionsRequest
from minikafka.wire.messages.write_txn_markers import WriteTxnMarkersRequest

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]
E = ErrorCode

SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_num_partitions": 2,
    "transaction_state_log_replication_factor": 1,
}
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
OLD, NEW = 11, 12
"""Versions of Produce: with 12 begins transaction version 2."""


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    node = await start_node(**SETTINGS)
    for topic in ("orders", "payments"):
        await create_topic(node, topic)
    return node


async def init(client: Client, name: str = "copier", version: int | None = None, **how: Any) -> ProducerIdentity:
    """A producer of that id, whose coordinator is found and loaded."""
    await client.ask(FindCoordinatorRequest(coordinator_keys=[name], key_type=1))
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **how)
    async with asyncio.timeout(30):
        while True:
            answer = await client.ask(request, version)
            if answer.error_code not in (E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS):
                break
            await asyncio.sleep(0.001)
    assert answer.error_code == 0, ErrorCode.of(answer.error_code)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def addition(producer: ProducerIdentity, *partitions: TopicPartition) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="copier",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition]) for tp in partitions],
    )


def errors_of(answer: Any) -> list[int]:
    return [
        partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]


async def add(client: Client, producer: ProducerIdentity, *partitions: TopicPartition, version: int = 3) -> list[int]:
    return errors_of(await client.ask(addition(producer, *partitions), version))


async def produce(
    client: Client,
    producer: ProducerIdentity,
    sequence: int = 0,
    *,
    topic: str = "orders",
    index: int = 0,
    version: int = OLD,
    name: str | None = "copier",
) -> int:
    records = batch(b"value", producer=(*producer, sequence), is_transactional=True)
    request = produce_request(topic, records, partition=index)
    request.transactional_id = name
    answer = await client.ask(request, version)
    error: int = answer.responses[0].partition_responses[0].error_code
    return error


def the_end(producer: ProducerIdentity, *, commits: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id="copier", producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commits
    )


async def end(client: Client, producer: ProducerIdentity, *, commits: bool, version: int = 4) -> Any:
    return await client.ask(the_end(producer, commits=commits), version)


async def described(client: Client, name: str = "copier") -> TransactionState:
    answer = await client.ask(DescribeTransactionsRequest(transactional_ids=[name]))
    state: TransactionState = answer.transaction_states[0]
    return state


async def is_in_state(client: Client, state: str) -> None:
    async with asyncio.timeout(30):
        while (await described(client)).transaction_state != state:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# -- a transaction of an old client -----------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
async def test_a_transaction_of_version_1(node: Node, client: Client, commits: bool) -> None:
    producer = await init(client)
    assert await add(client, producer, ORDERS, PAYMENTS) == [0, 0]
    for topic in ("orders", "payments"):
        assert await produce(client, producer, topic=topic) == 0
        assert await produce(client, producer, 1, topic=topic) == 0
    state = await described(client)
    assert (state.transaction_state, state.producer_id, state.producer_epoch) == ("Ongoing", *producer)
    assert {(topic.topic, *topic.partitions) for topic in state.topics} == {("orders", 0), ("payments", 0)}
    assert led(node, ORDERS).log.last_stable_offset(2) == 0
    answer = await end(client, producer, commits=commits)
    assert answer.error_code == 0
    await is_in_state(client, "CompleteCommit" if commits else "CompleteAbort")
    for tp in (ORDERS, PAYMENTS):
        assert led(node, tp).log.log_end_offset == 3, "two records and the marker"
        assert led(node, tp).log.last_stable_offset(3) == 3
    assert await add(client, producer, ORDERS) == [0], "the next one"
    assert await produce(client, producer, 2) == 0


@pytest.mark.spec("T3")
@pytest.mark.parametrize("version", range(4, 6))
async def test_a_producer_that_comes_back_aborts_what_it_left(node: Node, client: Client, version: int) -> None:
    first = await init(client)
    await add(client, first, ORDERS)
    await produce(client, first)
    second = await init(client, version=version)
    assert second > first
    assert led(node, ORDERS).log.last_stable_offset(2) == 2, "aborted"
    assert await produce(client, first, 1) == E.INVALID_PRODUCER_EPOCH
    assert await add(client, first, ORDERS) == [E.PRODUCER_FENCED]
    assert await add(client, first, ORDERS, version=1) == [E.INVALID_PRODUCER_EPOCH], "older clients know no other"
    assert (await end(client, first, commits=True)).error_code == E.PRODUCER_FENCED
    assert (await end(client, first, commits=True, version=1)).error_code == E.INVALID_PRODUCER_EPOCH


async def test_records_of_a_partition_that_was_not_added_are_refused(node: Node, client: Client) -> None:
    producer = await init(client)
    await add(client, producer, ORDERS)
    assert await produce(client, producer, topic="payments") == E.TRANSACTION_ABORTABLE
    assert await produce(client, producer, topic="payments", version=10) == E.INVALID_TXN_STATE
    assert await produce(client, producer, name=None) == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await produce(client, producer, name="another") == E.INVALID_PRODUCER_ID_MAPPING
    assert led(node, PAYMENTS).log.log_end_offset == 0
    assert led(node, ORDERS).log.log_end_offset == 0


@pytest.mark.spec("T6")
async def test_a_late_record_does_not_hang(node: Node, client: Client) -> None:
    """KIP-890: it comes after the end of its transaction, and nobody would end it."""
    producer = await init(client)
    await add(client, producer, ORDERS)
    await produce(client, producer)
    await end(client, producer, commits=True)
    await is_in_state(client, "CompleteCommit")
    assert await produce(client, producer, 1) == E.TRANSACTION_ABORTABLE
    assert led(node, ORDERS).log.last_stable_offset(2) == 2


async def test_a_repeated_record_of_a_transaction_that_is_over_is_known(node: Node, client: Client) -> None:
    producer = await init(client)
    await add(client, producer, ORDERS)
    assert await produce(client, producer) == 0
    await end(client, producer, commits=True)
    await is_in_state(client, "CompleteCommit")
    assert await produce(client, producer) == 0
    assert led(node, ORDERS).log.log_end_offset == 2


async def test_without_verification_leaders_do_not_ask(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**SETTINGS)
    await create_topic(node, "orders")
    client = await dial(node)
    producer = await init(client)
    assert await produce(client, producer) != 0
    await alter_setting(node, EVERY_BROKER, "transaction.partition.verification.enable", "false")
    await eventually(lambda: node.image.config_of(EVERY_BROKER), "the setting")
    assert await produce(client, producer) == 0, "as Kafka before 3.7"


@pytest.mark.spec("T6")
async def test_a_record_that_was_verified_before_the_end_comes_too_late(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await init(client)
    await add(client, producer, ORDERS)
    ask = TransactionAdmission.admit_all

    async def slow(self: TransactionAdmission, *args: Any, **how: Any) -> Any:
        answer = await ask(self, *args, **how)
        await end(other, producer, commits=True)
        await is_in_state(other, "CompleteCommit")
        return answer

    other = await Client.connect(node)
    monkeypatch.setattr(TransactionAdmission, "admit_all", slow)
    assert await produce(client, producer) == E.TRANSACTION_ABORTABLE, "the leader asks again"
    assert led(node, ORDERS).log.log_end_offset == 1
    other.close()


@pytest.mark.spec("T6")
async def test_the_marker_of_the_transaction_before_may_come_while_the_leader_asks(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await init(client)
    assert await produce(client, producer, version=NEW) == 0
    markers, ask = node.transactions.markers, TransactionAdmission._ask
    send = markers.send
    monkeypatch.setattr(markers, "send", lambda *what: asyncio.get_running_loop().call_later(0.02, send, *what))

    async def slow(self: TransactionAdmission, *args: Any, **how: Any) -> Any:
        monkeypatch.setattr(TransactionAdmission, "_ask", ask)
        await is_in_state(other, "CompleteCommit")
        return await ask(self, *args, **how)

    other = await Client.connect(node)
    answer = await end(client, producer, commits=True, version=5)
    monkeypatch.setattr(TransactionAdmission, "_ask", slow)
    assert await produce(client, ProducerIdentity(answer.producer_id, answer.producer_epoch), version=NEW) == 0
    other.close()


async def test_what_does_not_exist_is_not_added_and_neither_is_the_rest(node: Node, client: Client) -> None:
    producer = await init(client)
    missing = TopicPartition("orders", 7)
    assert await add(client, producer, PAYMENTS, missing) == [
        E.UNKNOWN_TOPIC_OR_PARTITION,  # first: librdkafka gives up when it reads the other one before
        E.OPERATION_NOT_ATTEMPTED,
    ]
    assert (await described(client)).transaction_state == "Empty"


# -- a transaction of version 2 ---------------------------------------------------------------------------------------


async def test_a_transaction_of_version_2(node: Node, client: Client) -> None:
    producer = await init(client)
    for commits in (True, False):
        assert await produce(client, producer, version=NEW) == 0, "the leader adds the partition"
        assert (await described(client)).transaction_state == "Ongoing"
        answer = await end(client, producer, commits=commits, version=5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
            0,
            producer.producer_id,
            producer.epoch + 1,
        )
        repeated = await end(client, producer, commits=commits, version=5)
        assert repeated.error_code in (E.NONE, E.CONCURRENT_TRANSACTIONS)
        late = await produce(client, producer, 1, version=NEW)
        assert late == E.INVALID_PRODUCER_EPOCH, "in an epoch that is over"
        producer = ProducerIdentity(answer.producer_id, answer.producer_epoch)


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_the_next_transaction_begins_while_the_markers_are_on_their_way(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Nobody is told to try again later; and a leader must not take them for the end of what it asked about."""
    for module in (transaction_coordinators, transaction_admission):
        monkeypatch.setattr(module, "COMPLETION_WAIT_S", 30.0)  # however slow the machine
    markers = node.transactions.markers
    send = markers.send
    monkeypatch.setattr(markers, "send", lambda *what: asyncio.get_running_loop().call_later(0.03, send, *what))
    producer = await init(client)
    sequence = 0
    for _ in range(4):
        if version == OLD:
            assert await add(client, producer, ORDERS) == [0]
        assert await produce(client, producer, sequence, version=version) == 0
        answer = await end(client, producer, commits=True, version=5 if version == NEW else 4)
        assert answer.error_code == 0
        sequence += 1
        if version == NEW:
            producer, sequence = ProducerIdentity(answer.producer_id, answer.producer_epoch), 0
    assert led(node, ORDERS).log.log_end_offset >= 7


@pytest.mark.spec("T5")
@pytest.mark.parametrize(
    ("wait_s", "added", "state"), [(30.0, E.NONE, "CompleteAbort"), (0.0, E.CONCURRENT_TRANSACTIONS, "CompleteCommit")]
)
async def test_an_abort_goes_behind_what_was_asked_for_before_it(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch, wait_s: float, added: ErrorCode, state: str
) -> None:
    """librdkafka does not wait for an answer to what it wanted to add. The markers of the last end are on their way."""
    monkeypatch.setattr(transaction_coordinators, "COMPLETION_WAIT_S", wait_s)
    markers = node.transactions.markers
    send = markers.send
    monkeypatch.setattr(markers, "send", lambda *what: asyncio.get_running_loop().call_later(0.03, send, *what))
    producer = await init(client)
    assert await add(client, producer, ORDERS) == [0]
    assert (await end(client, producer, commits=True)).error_code == 0
    adding = client.send(addition(producer, PAYMENTS), 3)
    ending = client.send(the_end(producer, commits=False), 4)
    assert errors_of(await adding) == [added]
    assert (await ending).error_code == 0
    await is_in_state(client, state)
    assert not node.transactions.additions
    assert await add(client, producer, PAYMENTS) == [0]
    assert (await end(client, producer, commits=True)).error_code == 0


@pytest.mark.spec("T6")
@pytest.mark.parametrize("version", [OLD, NEW])
async def test_batches_in_flight_stay_in_order_when_coordinators_do_not_answer(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The first one was refused for now, a later one let in, and then the first one could never be."""
    ask, random = TransactionAdmission._ask, Random(version)

    async def unsure(self: TransactionAdmission, *args: Any, **how: Any) -> Any:
        partitions = args[2]
        if random.random() < 0.4:
            return dict.fromkeys(partitions, E.COORDINATOR_NOT_AVAILABLE)
        return await ask(self, *args, **how)

    monkeypatch.setattr(TransactionAdmission, "_ask", unsure)
    await create_topic(node, "new", partitions=12)
    for index in range(12):
        producer = await init(client)
        tp = TopicPartition("new", index)
        if version == OLD:
            assert await add(client, producer, tp) == [0]
        unwritten, first = [0, 1, 2, 3], 0
        while unwritten:
            in_flight = unwritten[: random.randint(1, 4)]
            sent = [produce(client, producer, each, topic="new", index=index, version=version) for each in in_flight]
            for each, error in zip(in_flight, await asyncio.gather(*sent), strict=True):
                if error == E.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    assert each != first, "it is what the log waits for"
                elif error:
                    assert ErrorCode.of(error).retriable
                else:
                    assert each == first, "one behind another that is not written"
                    unwritten.remove(each)
                    first += 1
        assert led(node, tp).log.log_end_offset == 4


async def test_partitions_of_one_request_are_added_together(node: Node, client: Client) -> None:
    producer = await init(client)
    request = produce_request("orders", batch(b"x", producer=(*producer, 0), is_transactional=True))
    request.topic_data += produce_request(
        "payments", batch(b"x", producer=(*producer, 0), is_transactional=True)
    ).topic_data
    request.transactional_id = "copier"
    answer = await client.ask(request, NEW)
    assert [each.partition_responses[0].error_code for each in answer.responses] == [0, 0]
    assert len((await described(client)).topics) == 2
    records = led(node, TopicPartition(TRANSACTION_STATE_TOPIC, partition_for("copier", 2))).log.log_end_offset
    assert records == 2, "the epoch, and both partitions"


# -- leaders and other nodes ------------------------------------------------------------------------------------------


async def test_only_nodes_ask_for_many_transactions(node: Node, client: Client) -> None:
    producer = await init(client)
    asked = AddPartitionsToTxnTransaction(
        transactional_id="copier",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    for version in (4, 5):
        answer = await client.ask(AddPartitionsToTxnRequest(transactions=[asked]), version)
        assert answer.error_code == E.CLUSTER_AUTHORIZATION_FAILED
    assert (await described(client)).transaction_state == "Empty"


async def test_coordinator_and_leader_are_on_different_nodes(start_node: StartNode, join: Join, dial: Dial) -> None:
    first = await start_node(**SETTINGS)
    second = await join(first)
    await create_topic(first, "orders", partitions=2, replicas=[[1], [2]])
    await create_topic(first, TRANSACTION_STATE_TOPIC, partitions=2, replicas=[[1], [2]])
    clients = {1: await dial(first), 2: await dial(second)}
    await eventually(
        lambda: (
            [shard.coordinator.phase for node in (first, second) for shard in node.transactions] == [Phase.ACTIVE] * 2
        ),
        "the coordinators",
    )
    home = partition_for("copier", 2) + 1
    producer = await init(clients[home])
    for node_id, node in ((1, first), (2, second)):
        tp = TopicPartition("orders", node_id - 1)
        records = batch(b"x", producer=(*producer, 0), is_transactional=True)
        request = produce_request("orders", records, partition=tp.partition)
        request.transactional_id = "copier"
        answer = await clients[node_id].ask(request, NEW)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert led(node, tp).log.last_stable_offset(1) == 0
        request.transactional_id = "unknown"
    await end(clients[home], producer, commits=True, version=5)
    await is_in_state(clients[home], "CompleteCommit")
    for node_id, node in ((1, first), (2, second)):
        assert led(node, TopicPartition("orders", node_id - 1)).log.last_stable_offset(2) == 2
    away = clients[3 - home]
    assert (await end(away, producer, commits=True)).error_code == E.NOT_COORDINATOR


async def test_a_leader_asks_once_and_its_coordinator_lets_it_wait_for_the_end_before(
    start_node: StartNode, join: Join, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask again and again takes what the markers need on a busy machine. Once more is for a marker that came."""
    for module in (transaction_coordinators, transaction_admission):
        monkeypatch.setattr(module, "COMPLETION_WAIT_S", 30.0)
    first = await start_node(**SETTINGS)
    second = await join(first)
    await create_topic(first, "orders", replicas=[[2]])
    await create_topic(first, TRANSACTION_STATE_TOPIC, partitions=2, replicas=[[1], [1]])
    await eventually(lambda: [each.coordinator.phase for each in first.transactions] == [Phase.ACTIVE] * 2, "it")
    client, leader = await dial(first), await dial(second)
    send, call, asked = first.transactions.markers.send, Peers.call, []
    monkeypatch.setattr(
        first.transactions.markers, "send", lambda *what: asyncio.get_running_loop().call_later(0.3, send, *what)
    )

    async def counted(self: Peers, node_id: int, request: Any, *args: Any, **how: Any) -> Any:
        asked.append(type(request))
        return await call(self, node_id, request, *args, **how)

    monkeypatch.setattr(Peers, "call", counted)
    producer = await init(client)
    now_s = asyncio.get_running_loop().time
    for is_crowded in (False, False, True):
        monkeypatch.setattr(transaction_coordinators, "WAITING_MAX", 0 if is_crowded else 1)
        asked.clear()
        began_s = now_s()
        assert await produce(leader, producer, version=NEW) == 0
        pauses = (now_s() - began_s) / transaction_admission.CROWD_PAUSE_S if is_crowded else 0
        assert asked.count(AddPartitionsToTxnRequest) <= 3 + pauses
        answer = await end(client, producer, commits=True, version=5)
        producer = ProducerIdentity(answer.producer_id, answer.producer_epoch)


@pytest.fixture
async def held(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> tuple[ProducerIdentity, Callable[[], None]]:
    """A producer whose transaction has ended, and what has its markers written. What is added waits as long."""
    monkeypatch.setattr(transaction_coordinators, "COMPLETION_WAIT_S", 30.0)
    producer = await init(client)
    assert await add(client, producer, ORDERS) == [0]
    ordered: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(node.transactions.markers, "send", lambda *what: ordered.append(what))
        assert (await end(client, producer, commits=True)).error_code == 0
    return producer, lambda: node.transactions.markers.send(*ordered[0])


async def test_who_waits_keeps_the_place_and_a_crowd_is_told_to_try_again(
    node: Node,
    client: Client,
    dial: Dial,
    held: tuple[ProducerIdentity, Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests are counted, also those of one id; and nobody asks the coordinator again and again meanwhile."""
    producer, write_markers = held
    monkeypatch.setattr(transaction_coordinators, "WAITING_MAX", 2)
    asked, add_partitions = [], TransactionCoordinator.add_partitions

    def counted(self: TransactionCoordinator, *args: Any) -> Any:
        asked.append(args)
        return add_partitions(self, *args)

    monkeypatch.setattr(TransactionCoordinator, "add_partitions", counted)
    waiting = [client.send(addition(producer, tp), 3) for tp in (ORDERS, PAYMENTS)]
    await eventually(lambda: node.transactions.waiting == 2, "both to wait")
    other = await dial(node)
    for _ in range(5):
        assert await add(other, producer, ORDERS) == [E.CONCURRENT_TRANSACTIONS]
        await asyncio.sleep(0.01)
    assert len(asked) == 7
    assert not any(each.done() for each in waiting)
    write_markers()
    assert [errors_of(await in_time(each)) for each in waiting] == [[0], [0]]
    assert node.transactions.waiting == 0


async def test_what_waits_is_answered_when_the_coordinator_moves(
    node: Node, client: Client, held: tuple[ProducerIdentity, Callable[[], None]]
) -> None:
    waiting = client.send(addition(held[0], PAYMENTS), 3)
    await eventually(lambda: node.transactions.waiting == 1, "it to wait")
    for index in range(2):
        node.transactions.on_leading_no_more(TopicPartition(TRANSACTION_STATE_TOPIC, index))
    assert errors_of(await in_time(waiting)) == [E.NOT_COORDINATOR]
    assert not node.transactions.additions
    assert node.transactions.waiting == 0


async def test_a_partition_that_the_coordinator_has_not_heard_of_is_not_added(
    start_node: StartNode, join: Join, dial: Dial
) -> None:
    """At the end of the transaction it would be taken for a deleted one, and get no marker."""
    first = await start_node(**SETTINGS)
    second = await join(first)
    await create_topic(first, "orders", replicas=[[2]])
    await create_topic(first, TRANSACTION_STATE_TOPIC, replicas=[[1]])
    await eventually(lambda: [each.coordinator.phase for each in first.transactions] == [Phase.ACTIVE], "it")
    client, leader = await dial(first), await dial(second)
    producer = await init(client)
    records = produce_request("orders", batch(b"x", producer=(*producer, 0), is_transactional=True))
    records.transactional_id = "copier"
    await eventually(lambda: (led := second.replicas.get(ORDERS)) and led.replica.leader, "the second node to lead")
    topics = first.metadata.image.topics_by_name
    late = topics.pop("orders")  # metadata come late to this node
    answer = await leader.ask(records, NEW)
    assert answer.responses[0].partition_responses[0].error_code == E.NOT_ENOUGH_REPLICAS, "try again"
    assert (await described(client)).transaction_state == "Empty"
    topics["orders"] = late
    answer = await leader.ask(records, NEW)
    assert answer.responses[0].partition_responses[0].error_code == 0
    await end(client, producer, commits=True, version=5)
    await is_in_state(client, "CompleteCommit")
    assert led(second, ORDERS).log.last_stable_offset(2) == 2


async def test_markers_of_many_partitions_are_written_in_portions(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one transaction may be thousands: neither in one request nor in one turn of the loop."""
    await create_topic(node, "many", partitions=130)
    monkeypatch.setattr(marker_driver, "MARKERS_PER_REQUEST", 60)
    monkeypatch.setattr(records, "AT_ONCE", 50)
    monkeypatch.setattr(shard, "AT_ONCE", 50)
    markers = node.transactions.markers
    monkeypatch.setattr(markers, "_per_turn", PerTurn(20))
    producer = await init(client)
    await add(client, producer, *(TopicPartition("many", index) for index in range(130)))
    with (
        counted_per_turn(monkeypatch, node.replicas, "stage_marker") as turns,
        counted_per_turn(monkeypatch, markers, "_order_now") as orders,
    ):
        await end(client, producer, commits=True)
        await is_in_state(client, "CompleteCommit")
    assert sum(turns) == 130
    assert max(turns) == 20
    assert sum(orders) == 3 + 3, "empty ones while they are sorted"
    assert max(orders) == 1


async def test_the_record_of_a_large_transaction_is_made_in_portions(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_topic(node, "many", partitions=50)
    monkeypatch.setattr(records, "AT_ONCE", 20)
    monkeypatch.setattr(shard, "AT_ONCE", 20)
    producer = await init(client)
    with counted_per_turn(monkeypatch, node.transactions._per_turn, "take") as turns:
        await add(client, producer, *(TopicPartition("many", index) for index in range(50)))
    assert sum(turns) > 2 * 50 // 20, "sorted, then put together"
    assert len((await described(client)).topics[0].partitions) == 50


async def test_a_large_record_is_not_written_for_a_coordinator_that_has_resigned(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has read the log without it, maybe on this node, in the same leader epoch."""
    await create_topic(node, "many", partitions=50)
    monkeypatch.setattr(records, "AT_ONCE", 20)
    monkeypatch.setattr(shard, "AT_ONCE", 20)
    producer = await init(client)
    home = TopicPartition(TRANSACTION_STATE_TOPIC, partition_for("copier", 2))
    before = node.transactions.shard_of("copier")
    assert before is not None
    told: list[Outcome] = []
    many = [TopicPartition("many", index) for index in range(50)]
    now_ms = node.transactions._ports.clock.monotonic_ms()
    before.step(before.coordinator.add_partitions("copier", producer, many, 0, told.append, now_ms))
    node.transactions.on_leading(led(node, home))
    assert told == [Outcome(E.NOT_COORDINATOR)]
    end_offset = led(node, home).log.log_end_offset
    await is_in_state(client, "Empty")
    await turns(50)
    assert led(node, home).log.log_end_offset == end_offset


@pytest.mark.spec("T9")
async def test_what_would_be_beyond_a_limit_of_the_node_is_refused(start_node: StartNode, dial: Dial) -> None:
    """A transaction that its log could not end, and another transactional id."""
    limits = {"transaction_state_log_segment_bytes": 1024, "transaction_memory_max_bytes": 1300}
    node = await start_node(**SETTINGS, **limits)
    long = [TopicPartition(letter * 249, 0) for letter in "abcd"]
    for tp in long:
        await create_topic(node, tp.topic)
    client = await dial(node)
    producer = await init(client)
    assert await add(client, producer, *long[:3]) == [0, 0, 0]
    with capture_logs() as lines:
        assert await add(client, producer, long[3]) == [E.RECORD_LIST_TOO_LARGE]
        assert await add(client, producer, long[3]) == [E.RECORD_LIST_TOO_LARGE]
    (told,) = (line for line in lines if line["event"] == "a transaction is refused")
    assert "transaction.state.log.segment.bytes" in told["why"]
    another = InitProducerIdRequest(transactional_id="another", transaction_timeout_ms=60_000)
    await eventually(lambda: all(each.coordinator.phase is Phase.ACTIVE for each in node.transactions), "all shards")
    assert (await client.ask(another)).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert (await end(client, producer, commits=True)).error_code == 0
    await is_in_state(client, "CompleteCommit")


async def test_what_is_committed_at_once_is_answered_in_portions(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that comes back commits what thousands of clients wait for."""
    await init(client)
    (shard,) = (each for each in node.transactions if "copier" in each.coordinator.shard.entries)
    monkeypatch.setattr(shard, "_per_turn", PerTurn(5))
    names = [name for name in (f"id-{number}" for number in range(80)) if node.transactions.shard_of(name) is shard]
    with counted_per_turn(monkeypatch, shard.coordinator, "on_committed") as turns:
        answers = await asyncio.gather(
            *(client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)) for name in names)
        )
    assert all(answer.error_code == 0 for answer in answers)
    assert sum(turns) == len(names) > 20
    assert max(turns) == 5


async def test_records_that_wait_for_a_coordinator_end_with_their_connection(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody counts any more what they hold."""
    monkeypatch.setattr(listener, "SWEEP_INTERVAL_S", 0.01)  # the connection is not read from meanwhile
    node = await start_node(**SETTINGS)
    await create_topic(node, "orders")
    producer = await init(await dial(node))
    cancelled = asyncio.Event()
    asked = asyncio.Event()

    async def silent(*_what: Any, **_how: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(TransactionAdmission, "admit_all", silent)
    leaving = await dial(node)
    lost = asyncio.ensure_future(produce(leaving, producer, version=NEW))
    await in_time(asked.wait())
    leaving.close()
    with pytest.raises(ConnectionError):
        await lost
    await in_time(cancelled.wait())
    assert node.failure is None


@contextmanager
def counted_per_turn(monkeypatch: pytest.MonkeyPatch, target: Any, name: str) -> Iterator[list[int]]:
    """How often it is called in each turn of the loop."""
    turns, is_counting, call = [0], True, getattr(target, name)

    def next_turn() -> None:
        turns.append(0)
        if is_counting:
            asyncio.get_running_loop().call_soon(next_turn)

    def counted(*what: Any, **how: Any) -> Any:
        turns[-1] += 1
        return call(*what, **how)

    monkeypatch.setattr(target, name, counted)
    next_turn()
    yield turns
    is_counting = False


async def test_a_request_has_one_producer(node: Node, client: Client) -> None:
    """Each question to a coordinator takes time, and the connection waits."""
    producers = [await init(client), await init(client, "other")]
    request = produce_request("orders", batch(b"x", producer=(*producers[0], 0), is_transactional=True))
    more = produce_request("payments", batch(b"x", producer=(*producers[1], 0), is_transactional=True))
    request.topic_data += more.topic_data
    request.transactional_id = "copier"
    answer = await client.ask(request, NEW)
    errors = [each.partition_responses[0].error_code for each in answer.responses]
    assert errors == [E.INVALID_PRODUCER_ID_MAPPING] * 2, "as in Kafka"
    assert (await described(client)).transaction_state == "Empty"


@pytest.mark.spec("T2")
async def test_markers_follow_the_leader_that_changes(
    start_node: StartNode, join: Join, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that led the partition is paused, say, and answers nothing."""
    first = await start_node(**SETTINGS)
    second = await join(first)
    await create_topic(first, "orders", replicas=[[2, 1]])
    await create_topic(first, TRANSACTION_STATE_TOPIC, replicas=[[1]])
    await eventually(lambda: [each.coordinator.phase for each in first.transactions] == [Phase.ACTIVE], "it")
    client, leader = await dial(first), await dial(second)
    producer = await init(client)
    records = produce_request("orders", batch(b"x", producer=(*producer, 0), is_transactional=True))
    records.transactional_id = "copier"
    answer = await leader.ask(records, NEW)
    assert answer.responses[0].partition_responses[0].error_code == 0
    call, asked = Peers.call, asyncio.Event()

    async def silent(self: Peers, node_id: int, *what: Any, **how: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Peers, "call", silent)
    await end(client, producer, commits=True, version=5)
    await in_time(asked.wait())
    monkeypatch.setattr(Peers, "call", call)
    await second.stop()
    await is_in_state(client, "CompleteCommit")
    assert led(first, ORDERS).log.last_stable_offset(2) == 2


async def test_markers_look_only_at_partitions_that_are_under_way(node: Node, client: Client) -> None:
    """100,000 may change at once: for each node that had got a marker they were all walked over, 40 ms each."""

    class NotWalked(frozenset[TopicPartition]):
        def __iter__(self) -> Iterator[TopicPartition]:
            raise AssertionError("walked")

    producer = await init(client)
    await add(client, producer, ORDERS)
    await produce(client, producer)
    await end(client, producer, commits=True)
    await is_in_state(client, "CompleteCommit")
    node.transactions.markers.on_metadata(MetadataDelta(node.image, node.image, partitions=NotWalked([ORDERS])))


@pytest.mark.spec("T2")
async def test_a_marker_that_waits_holds_up_no_other_call(
    start_node: StartNode, join: Join, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The followers of its partition are slow, say. All calls of a kind from one node to another share a connection."""
    first = await start_node(**SETTINGS)
    second = await join(first)
    await create_topic(first, "orders", replicas=[[2]])
    await create_topic(first, "payments", replicas=[[2]])
    await create_topic(first, TRANSACTION_STATE_TOPIC, replicas=[[1]])
    await eventually(lambda: [each.coordinator.phase for each in first.transactions] == [Phase.ACTIVE], "it")
    await eventually(lambda: second.image.topic(TRANSACTION_STATE_TOPIC), "the other to know the coordinator")
    write, waiting, done = write_txn_markers.write_markers, asyncio.Event(), asyncio.Event()

    async def slow(request: WriteTxnMarkersRequest, *what: Any) -> Any:
        if any(topic.name == "payments" for marker in request.markers for topic in marker.topics):
            waiting.set()
            await done.wait()
        return await write(request, *what)

    monkeypatch.setattr(write_txn_markers, "write_markers", slow)
    client, leader = await dial(first), await dial(second)

    async def committed(name: str, topic: str) -> None:
        producer = await init(client, name)
        assert await produce(leader, producer, topic=topic, name=name, version=NEW) == 0
        request = EndTxnRequest(transactional_id=name, committed=True)
        request.producer_id, request.producer_epoch = producer
        assert (await client.ask(request, 5)).error_code == 0

    await committed("slow", "payments")
    await in_time(waiting.wait())
    await committed("copier", "orders")
    await is_in_state(client, "CompleteCommit")
    assert (await described(client, "slow")).transaction_state == "PrepareCommit"
    done.set()


async def test_a_request_that_is_given_up_when_its_time_is_up_is_given_up_once(node: Node) -> None:
    """The leader changes in the very turn in which its time is up: that must not end the node."""
    markers = node.transactions.markers
    before = node.metadata.image
    delta = MetadataDelta(before, before, partitions=frozenset([ORDERS]))
    told: list[bool] = []

    def tell(limit: asyncio.Timeout) -> None:
        told.append(limit.expired())
        markers.on_metadata(delta)
        told.append(limit in destination.limits)

    destination = markers._destinations[99]

    async def written() -> None:
        async with asyncio.timeout(0) as limit:
            destination.limits[limit] = frozenset([ORDERS])
            asyncio.get_running_loop().call_soon(tell, limit)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await written()
    assert told == [True, False]


@pytest.mark.spec("T2")
async def test_a_partition_that_is_deleted_needs_no_marker(node: Node, client: Client) -> None:
    producer = await init(client)
    await add(client, producer, ORDERS, PAYMENTS)
    await produce(client, producer)
    await delete_topic(node, "payments")
    assert (await end(client, producer, commits=True)).error_code == 0
    await is_in_state(client, "CompleteCommit")


async def test_the_next_coordinator_goes_on(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**SETTINGS)
    await create_topic(node, "orders")
    client = await dial(node)
    producer = await init(client)
    await add(client, producer, ORDERS)
    await produce(client, producer)
    await node.stop()
    node = await start_node(**SETTINGS)
    client = await dial(node)
    async with asyncio.timeout(30):
        while (answer := await end(client, producer, commits=True)).error_code:
            assert answer.error_code in (E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS)
            await asyncio.sleep(0.001)
    await is_in_state(client, "CompleteCommit")
    assert led(node, ORDERS).log.last_stable_offset(2) == 2


async def test_a_coordinator_that_is_not_there_makes_producers_try_again(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await init(client)
    await add(client, producer, ORDERS)
    (shard,) = (each for each in node.transactions if "copier" in each.coordinator.shard.entries)
    monkeypatch.setattr(shard.coordinator, "phase", Phase.LOADING)
    assert await produce(client, producer) == E.NOT_ENOUGH_REPLICAS
    assert await produce(client, producer, version=NEW) == E.NOT_ENOUGH_REPLICAS
    assert (await end(client, producer, commits=True)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    listed = await client.ask(ListTransactionsRequest())
    assert listed.error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert (await described(client)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS


# -- offsets, queries, bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_a_group_is_added(node: Node, client: Client, version: int) -> None:
    producer = await init(client)
    request = AddOffsetsToTxnRequest(
        transactional_id="copier", producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    assert (await client.ask(request, version)).error_code == 0
    (topic,) = (await described(client)).topics
    assert topic.topic == "__consumer_offsets", "made when first needed"
    request.group_id = ""
    assert (await client.ask(request, version)).error_code == E.INVALID_GROUP_ID
    request.group_id, request.producer_epoch = "g", 7
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert (await client.ask(request, version)).error_code == fenced


async def test_transactions_are_listed_and_described(node: Node, client: Client) -> None:
    producer = await init(client)
    await add(client, producer, ORDERS)
    other = await init(client, "other")

    async def listed(**how: Any) -> list[tuple[str, int, str]]:
        answer = await client.ask(ListTransactionsRequest(**how))
        assert answer.error_code == 0
        found = answer.transaction_states
        return sorted((each.transactional_id, each.producer_id, each.transaction_state) for each in found)

    both = [("copier", producer.producer_id, "Ongoing"), ("other", other.producer_id, "Empty")]
    assert await listed() == both
    assert await listed(state_filters=["Ongoing"]) == both[:1]
    assert await listed(producer_id_filters=[other.producer_id]) == both[1:]
    assert await listed(duration_filter=3_600_000) == []
    assert await listed(transactional_id_pattern="c.*r") == both[:1]
    assert await listed(transactional_id_pattern="copie") == []  # of a part
    assert await listed(transactional_id_pattern="") == both
    answer = await client.ask(ListTransactionsRequest(transactional_id_pattern="(("))
    assert (answer.error_code, answer.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, [])
    answer = await client.ask(ListTransactionsRequest(state_filters=["Nonsense"]))
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Nonsense"], [])
    assert (await described(client, "unknown")).error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert (await described(client, "")).error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"transactional_id": ""}, E.INVALID_REQUEST),
        ({"transaction_timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, E.INVALID_REQUEST),
        ({"producer_id": 5, "producer_epoch": 1}, E.PRODUCER_FENCED),
    ],
)
async def test_what_cannot_be_is_refused(node: Node, client: Client, how: dict[str, Any], error: ErrorCode) -> None:
    await init(client)
    request = InitProducerIdRequest(**{"transactional_id": "copier", "transaction_timeout_ms": 60_000, **how})
    answer = await client.ask(request)
    assert (answer.error_code, answer.producer_id) == (error, -1)


async def test_without_a_controller_no_producer_begins(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never() -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")

    await init(client)
    monkeypatch.setattr(node.transactions._producer_ids, "ensure", never)
    answer = await client.ask(InitProducerIdRequest(transactional_id="new", transaction_timeout_ms=60_000))
    assert answer.error_code == E.COORDINATOR_NOT_AVAILABLE
