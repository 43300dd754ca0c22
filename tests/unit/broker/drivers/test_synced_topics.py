"""What a broker claims to lose nothing of with power: synced first, given up before anything may be lost again."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from broker_node import HastyDisk, alter_setting, alter_topic, create_topic, eventually

from minikafka.broker.drivers.synced_topics import SyncedTopics
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.metadata.effective import EVERY_BROKER
from minikafka.model import TopicPartition
from minikafka.records.batch import Buffer
from minikafka.storage.registration import RecordJob, Registrations
from minikafka.storage.registration_file import REGISTRATION_FILE, read_registration

Dial = Any


async def set_flush_messages(node: Node, topic: str, value: str) -> None:
    await alter_topic(node, topic, "flush.messages", value)


def claimed(node: Node) -> frozenset[Any]:
    return node.control_plane.registrations.synced_topics


@pytest.mark.spec("P2")
async def test_a_topic_is_claimed_once_its_older_records_are_synced(
    node: Node, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = await create_topic(node, "orders")
    await (await dial(node)).produce("orders", b"not synced")
    log = node.store.get(tp)
    assert log is not None
    assert log.recovery_point == 0
    claims: list[tuple[bool, int]] = []
    claim = Registrations.prepare_claim

    def observed(registrations: Registrations, topics: frozenset[Any]) -> RecordJob:
        claims.append((log.topic_id in topics, log.recovery_point))
        return claim(registrations, topics)

    monkeypatch.setattr(Registrations, "prepare_claim", observed)
    await set_flush_messages(node, "orders", "1")
    await eventually(lambda: log.topic_id in claimed(node), "the topic to be claimed")
    assert claims[-1] == (True, 1)
    assert all(is_claimed == (synced == 1) for is_claimed, synced in claims)


@pytest.mark.spec("P2")
async def test_a_claim_is_given_up_before_the_setting_goes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    tp = await create_topic(node, "orders", flush_messages=1)
    log = node.store.get(tp)
    assert log is not None
    await eventually(lambda: log.topic_id in claimed(node), "the topic to be claimed")
    seen: list[int] = []
    claim = Registrations.prepare_claim

    def observed(registrations: Registrations, topics: frozenset[Any]) -> RecordJob:
        seen.append(log.config.flush_messages)
        return claim(registrations, topics)

    monkeypatch.setattr(Registrations, "prepare_claim", observed)
    await set_flush_messages(node, "orders", "1000")
    await eventually(lambda: log.config.flush_messages == 1000, "the setting")
    assert seen[0] == 1
    assert claimed(node) == frozenset()


@pytest.mark.spec("P2")
async def test_the_setting_may_be_that_of_all_brokers(start_node: Any) -> None:
    """Without the claim a replica that had everything did not lead after a power cut."""
    node = await start_node(log_flush_interval_messages=1)
    orders, others = await create_topic(node, "orders"), await create_topic(node, "others", flush_messages=1000)
    logs = node.store.get(orders), node.store.get(others)
    await eventually(lambda: logs[0].topic_id in claimed(node), "the topic to be claimed")
    assert logs[1].topic_id not in claimed(node)
    await alter_setting(node, EVERY_BROKER, "log.flush.interval.messages", "2")
    await eventually(lambda: logs[0].config.flush_messages == 2, "the setting")
    assert claimed(node) == frozenset()


async def test_a_restart_keeps_the_claims(node: Node, start_node: Any) -> None:
    await create_topic(node, "orders", flush_messages=1)
    await create_topic(node, "others")
    await eventually(lambda: claimed(node), "the topic to be claimed")
    topics = claimed(node)
    await node.stop()
    again = await start_node()
    assert claimed(again) == topics


async def test_a_log_that_cannot_be_synced_is_not_claimed(node: Node) -> None:
    tp = await create_topic(node, "orders")
    log = node.store.get(tp)
    assert log is not None
    synced_topics: SyncedTopics = node.data_plane.synced_topics
    log.close()
    assert await synced_topics._synced(frozenset({log.topic_id})) == frozenset()


@pytest.mark.spec("P2", "P6")
async def test_a_claim_is_given_up_for_want_of_a_descriptor_too(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 7 of issue 11: the node stopped. Now nothing is claimed until the file can be written again."""
    tp = await create_topic(node, "orders", flush_messages=1)
    log = node.store.get(tp)
    assert log is not None
    await eventually(lambda: log.topic_id in claimed(node), "the topic to be claimed")
    path, write, is_short = node.store.directories[0].path, HastyDisk._write, True

    def refuse(disk: HastyDisk, path: str, data: Buffer, *, durable: bool) -> None:
        if REGISTRATION_FILE in path and is_short:
            raise OSError(errno.EMFILE, "too many open files", path)
        write(disk, path, data, durable=durable)

    monkeypatch.setattr(HastyDisk, "_write", refuse)
    await set_flush_messages(node, "orders", "1000")
    await eventually(lambda: log.config.flush_messages == 1000, "the setting")
    assert read_registration(HastyDisk(), path) is None
    is_short = False
    await eventually(lambda: read_registration(HastyDisk(), path) is not None, "the registration")
    assert read_registration(HastyDisk(), path).synced == ()  # type: ignore[union-attr]
    assert node.failure is None


@pytest.mark.spec("P2")
async def test_a_topic_that_is_given_up_while_it_is_synced_must_be_synced_anew(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting goes and comes back while the second partition syncs: the first may have unsynced records since."""
    tp = await create_topic(node, "orders", 2)
    log = node.store.get(tp)
    assert log is not None
    synced_topics: SyncedTopics = node.data_plane.synced_topics
    await set_flush_messages(node, "orders", "1")
    await eventually(lambda: log.topic_id in claimed(node), "the topic to be claimed")
    synced: list[TopicPartition] = []

    async def sync(partition: Partition) -> None:
        synced.append(partition.topic_partition)
        if len(synced) == 2:
            await set_flush_messages(node, "orders", "1000")
            await set_flush_messages(node, "orders", "1")

    with monkeypatch.context() as patch:
        patch.setattr(synced_topics._jobs, "sync", sync)
        patch.setattr(synced_topics, "_wait_all_told", asyncio.Event().wait)  # the task of the node waits from there on
        assert await synced_topics._synced(frozenset({log.topic_id})) == frozenset()
    assert len(synced) == 2
