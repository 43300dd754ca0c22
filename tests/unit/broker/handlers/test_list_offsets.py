from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from broker_client import NOW_MS, Client
from broker_node import create_topic, eventually, led
from broker_replicas import told

from minikafka.broker.lookups import JOBS_AT_ONCE, Lookups
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.storage.read_jobs import ReadJob
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

Dial = Callable[..., Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
async def orders(node: Node, client: Client) -> None:
    """Four records, stamped now, now + 2 s, now + 1 s (two)."""
    await create_topic(node, "orders")
    await client.produce("orders", b"a", timestamp=NOW_MS)
    await client.produce("orders", b"b", timestamp=NOW_MS + 2000)
    await client.produce("orders", b"c", b"d", timestamp=NOW_MS + 1000)


async def ask(
    client: Client,
    timestamp: int,
    *,
    topic: str = "orders",
    partition: int = 0,
    epoch: int = -1,
    isolation: int = 0,
    version: int | None = None,
) -> tuple[int, int, int]:
    """(error, timestamp, offset)."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    answer = (await client.ask(request, version)).topics[0].partitions[0]
    assert answer.partition_index == partition
    return answer.error_code, answer.timestamp, answer.offset


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("version", range(ApiKey.LIST_OFFSETS.versions.first, ApiKey.LIST_OFFSETS.versions.last + 1))
async def test_every_version_is_understood(client: Client, version: int) -> None:
    assert await ask(client, -1, version=version) == (0, -1, 4)
    assert await ask(client, -2, version=version) == (0, -1, 0)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 4)),
        (-2, (0, -1, 0)),
        (-4, (0, -1, 0)),
        (-3, (0, NOW_MS + 2000, 1)),
        (0, (0, NOW_MS, 0)),
        (NOW_MS, (0, NOW_MS, 0)),
        (NOW_MS + 1, (0, NOW_MS + 2000, 1)),
        (NOW_MS + 2001, (0, -1, -1)),
        (-5, (0, -1, -1)),
        (-6, (0, -1, -1)),
        (-7, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
    ],
)
async def test_offsets_by_time(client: Client, timestamp: int, expected: tuple[int, int, int]) -> None:
    assert await ask(client, timestamp) == expected
    assert await ask(client, timestamp, isolation=1) == expected


@pytest.mark.usefixtures("orders")
@pytest.mark.spec("R21")
async def test_a_new_leader_tells_no_end_before_it_knows_what_was_committed(node: Node, client: Client) -> None:
    leader = led(node, ORDERS).leader
    assert leader is not None
    leader.leader_epoch_start_offset, leader.high_watermark = 4, 3
    assert await ask(client, -1) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
    assert await ask(client, -1, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1)
    assert await ask(client, NOW_MS + 2001) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
    assert await ask(client, NOW_MS + 1) == (0, NOW_MS + 2000, 1), "what is committed is"
    assert await ask(client, -2) == (0, -1, 0)
    leader.high_watermark = 4
    assert await ask(client, -1) == (0, -1, 4)


@pytest.mark.usefixtures("orders")
async def test_nothing_beyond_the_high_watermark_is_told(node: Node, client: Client) -> None:
    leader = led(node, ORDERS).leader
    assert leader is not None
    leader.high_watermark = 1
    assert await ask(client, -1) == (0, -1, 1)
    assert await ask(client, NOW_MS + 1) == (0, -1, -1)
    assert await ask(client, -3) == (0, -1, -1)


async def test_an_empty_log(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    assert await ask(client, -1) == (0, -1, 0)
    assert await ask(client, -3) == (0, -1, -1)
    assert await ask(client, NOW_MS) == (0, -1, -1)


@pytest.mark.spec("E6")
@pytest.mark.usefixtures("orders")
async def test_errors_come_per_partition(node: Node, client: Client) -> None:
    assert (await ask(client, -1, topic="nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(client, -1, partition=9))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(client, -1, epoch=1))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await ask(client, -1, epoch=0))[0] == 0
    told(led(node, ORDERS), 2, 1)
    assert (await ask(client, -1))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await ask(client, -1, epoch=0))[0] == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.usefixtures("orders")
async def test_the_epoch_of_the_offset_comes_with_it(node: Node, client: Client) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    assert (await client.ask(request)).topics[0].partitions[0].leader_epoch == 0


# -- beside the loop --------------------------------------------------------------------------------------------------


@pytest.mark.spec("P6")
@pytest.mark.usefixtures("orders")
async def test_batches_are_looked_into_beside_the_loop(node: Node, client: Client) -> None:
    """A batch of 1.4 KB that holds two million records kept the loop for 2.65 s at each question."""
    threads: list[str] = []
    run = ReadJob.run

    def noted(job: ReadJob[object]) -> None:
        threads.append(threading.current_thread().name)
        run(job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ReadJob, "run", noted)
        assert await ask(client, NOW_MS + 1000) == (0, NOW_MS + 2000, 1)
        assert await ask(client, -3) == (0, NOW_MS + 2000, 1)
    assert len(threads) >= 2
    assert threading.current_thread().name not in threads


@pytest.mark.spec("P6")
@pytest.mark.usefixtures("orders")
async def test_a_log_that_is_cut_during_a_look_up_is_asked_again(node: Node, client: Client) -> None:
    gate = threading.Event()
    run = ReadJob.run

    def held_up(job: ReadJob[object]) -> None:
        gate.wait(20)
        run(job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ReadJob, "run", held_up)
        asked = asyncio.get_running_loop().create_task(ask(client, NOW_MS + 1000))
        await eventually(lambda: node.parts.part(Lookups)._by_time._left < JOBS_AT_ONCE, "the look-up to begin")
        led(node, ORDERS).log.truncate_to(1)
        gate.set()
        assert (await asked)[0] == ErrorCode.OFFSET_NOT_AVAILABLE


@pytest.mark.spec("P6")
@pytest.mark.usefixtures("orders")
async def test_look_ups_that_wait_hold_no_copies(node: Node, dial: Dial) -> None:
    """A copy of the active segment's index may have megabytes, and one connection may have a thousand requests."""
    clients = [await dial(node) for _ in range(JOBS_AT_ONCE + 1)]  # each has one at once
    gate = threading.Event()
    prepared: list[ReadJob[object]] = []
    run, prepare = ReadJob.run, ReadJob.__init__

    def held_up(job: ReadJob[object]) -> None:
        gate.wait(20)
        run(job)

    def note(job: ReadJob[object], *args: object, **how: object) -> None:
        prepared.append(job)
        prepare(job, *args, **how)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ReadJob, "run", held_up)
        patched.setattr(ReadJob, "__init__", note)
        asked = [asyncio.get_running_loop().create_task(ask(each, NOW_MS + 1000)) for each in 7 * clients]
        await eventually(lambda: len(prepared) >= JOBS_AT_ONCE, "look-ups to begin")
        await asyncio.sleep(0.05)
        assert len(prepared) == JOBS_AT_ONCE
        gate.set()
        assert {(await one)[0] for one in asked} == {ErrorCode.NONE}


@pytest.mark.usefixtures("orders")
async def test_a_partition_that_is_named_twice_is_refused(client: Client) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted, wanted])])
    answers = (await client.ask(request)).topics[0].partitions
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2
