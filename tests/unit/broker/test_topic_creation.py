"""Topics that are created because they are named, before a controller that answers as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast
from uuid import UUID

import pytest
from broker_node import in_time, turns
from deltas import apply_records

from minikafka.broker import topic_creation
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.broker.topic_creation import TopicCreation
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.client_quotas import Client
from minikafka.metadata.records import TopicRecord
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, OffsetAndEpoch
from minikafka.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

Answer = Callable[[str], ErrorCode]
CLIENT = Client("u", "c")


class World:
    """A controller and what becomes of requests: committed topics are seen by the node at once, unless it lags."""

    def __init__(self, **settings: str) -> None:
        self.requests: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Answer = lambda _name: ErrorCode.NONE
        self.failure: KafkaError | None = None
        self.lags = False
        self.metadata = Metadata(cast(MetadataLog, None))
        config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
        self.creation = TopicCreation(config, cast(ControllerClient, self), self.metadata)

    async def call(
        self, request: CreateTopicsRequest, _response_class: type[CreateTopicsResponse], *, timeout_s: float
    ) -> CreateTopicsResponse:
        """The controller's part."""
        self.requests.append([topic.name for topic in request.topics])
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        results = [
            CreatableTopicResult(name=topic.name, error_code=self.answer(topic.name)) for topic in request.topics
        ]
        if not self.lags:
            self.see(*(result.name for result in results if not result.error_code))
        return CreateTopicsResponse(topics=results)

    def see(self, *names: str) -> None:
        """The node applies the creation of these."""
        image = self.metadata.image
        records = [TopicRecord(name, UUID(int=image.offset + 100 + number)) for number, name in enumerate(names)]
        _, delta = apply_records(image, records, OffsetAndEpoch(image.offset + len(records), 1))
        self.metadata._applied_offset += len(records)
        self.metadata._publish(delta)


async def test_the_topics_of_a_request_are_asked_for_at_once() -> None:
    world = World()
    world.see("there")
    assert await world.creation.create_missing(["b", "a", "there", "b"], CLIENT) == {}
    assert world.requests == [["b", "a"]]
    assert await world.creation.create_missing(["a", "b"], CLIENT) == {}
    assert len(world.requests) == 1


async def test_names_that_are_none_are_not_even_asked_for() -> None:
    world = World()
    assert await world.creation.create_missing(["..", "fine", ""], CLIENT) == {
        "..": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert world.requests == [["fine"]]


@pytest.mark.parametrize(("partitions", "at_once"), [("1", 2000), ("3", 666), ("5000", 1)])
async def test_no_request_creates_more_than_the_controller_takes_at_once(partitions: str, at_once: int) -> None:
    world = World(num_partitions=partitions)
    names = [f"t{number}" for number in range(2100)]
    errors = await world.creation.create_missing(names, CLIENT)
    assert world.requests == [names[:at_once]]
    assert errors == dict.fromkeys(names[at_once:], ErrorCode.LEADER_NOT_AVAILABLE), "come again"


async def test_a_topic_that_is_being_created_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_creation, "SEEN_TIMEOUT_S", 3600.0)  # and one that was refused is not
    world = World()
    world.gate.clear()
    loop = asyncio.get_running_loop()
    world.answer = lambda name: ErrorCode.POLICY_VIOLATION if name == "bad" else ErrorCode.NONE
    first = loop.create_task(world.creation.create_missing(["a", "bad"], CLIENT))
    await turns()
    second = loop.create_task(world.creation.create_missing(["a", "b", "bad"], CLIENT))
    await turns()
    assert not first.done()
    assert not second.done()
    assert world.requests == [["a", "bad"], ["b"]]
    world.gate.set()
    assert await in_time(first) == await in_time(second) == {"bad": ErrorCode.POLICY_VIOLATION}
    assert await world.creation.create_missing(["bad"], CLIENT) == {"bad": ErrorCode.POLICY_VIOLATION}
    assert world.requests[2:] == [["bad"]], "the next one tries again"


async def test_whoever_waits_hears_when_the_one_who_asked_is_gone() -> None:
    world = World()
    world.gate.clear()
    loop = asyncio.get_running_loop()
    first = loop.create_task(world.creation.create_missing(["a"], CLIENT))
    await turns()
    second = loop.create_task(world.creation.create_missing(["a"], CLIENT))
    await turns()
    first.cancel()
    assert await in_time(second) == {"a": ErrorCode.LEADER_NOT_AVAILABLE}
    world.gate.set()
    assert await world.creation.create_missing(["a"], CLIENT) == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.NOT_CONTROLLER, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (ErrorCode.TOPIC_ALREADY_EXISTS, None),
    ],
)
async def test_what_clients_hear_of_a_refusal(
    error: ErrorCode, said: ErrorCode | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_creation, "SEEN_TIMEOUT_S", 0.01)
    world = World()
    world.answer = lambda _name: error
    assert await world.creation.create_missing(["a"], CLIENT) == ({} if said is None else {"a": said})


async def test_a_controller_that_is_not_reached_may_be_later() -> None:
    world = World()
    world.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "nobody is")
    assert await world.creation.create_missing(["a"], CLIENT) == {"a": ErrorCode.LEADER_NOT_AVAILABLE}
    world.failure = None
    assert await world.creation.create_missing(["a"], CLIENT) == {}


async def test_the_answer_waits_until_this_node_knows_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.lags = True
    creating = asyncio.get_running_loop().create_task(world.creation.create_missing(["a"], CLIENT))
    await turns()
    world.see("another")
    await turns()
    assert not creating.done()
    world.see("a")
    assert await in_time(creating) == {}
    monkeypatch.setattr(topic_creation, "SEEN_TIMEOUT_S", 0.01)
    assert await in_time(world.creation.create_missing(["b"], CLIENT)) == {}, "not for ever"


async def test_the_offsets_topic_has_settings_of_its_own() -> None:
    world = World(offsets_topic_num_partitions="7", offsets_topic_replication_factor="2")
    asked: list[CreateTopicsRequest] = []
    call = world.call

    async def note(
        request: CreateTopicsRequest, _response_class: type[CreateTopicsResponse], *, timeout_s: float
    ) -> CreateTopicsResponse:
        asked.append(request)
        return await call(request, _response_class, timeout_s=timeout_s)

    world.call = note  # type: ignore[method-assign]
    world.answer = lambda _name: ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError, match=r"INVALID_REPLICATION_FACTOR.*needs 2 live brokers") as caught:
        await world.creation.create_internal("__consumer_offsets")
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.answer = lambda _name: ErrorCode.NONE
    assert await world.creation.create_missing([CONSUMER_OFFSETS_TOPIC], CLIENT) == {}
    await world.creation.create_internal("__consumer_offsets")
    assert [topic for request in asked for topic in request.topics] == [
        world.creation._internal(CONSUMER_OFFSETS_TOPIC)
    ] * 2
    assert (asked[0].topics[0].num_partitions, asked[0].topics[0].replication_factor) == (7, 2)


async def test_a_coordinator_of_groups_has_little_to_read_that_is_not_compacted() -> None:
    topic = World().creation._internal(CONSUMER_OFFSETS_TOPIC)
    settings = {config.name: config.value for config in topic.configs}
    assert settings == {"cleanup.policy": "compact", "segment.bytes": "4194304"}


@pytest.mark.parametrize(("replicas", "min_isr"), [(1, "1"), (3, "2")])
async def test_the_topic_of_transactions_never_asks_for_more_replicas_than_it_has(replicas: int, min_isr: str) -> None:
    world = World(transaction_state_log_replication_factor=str(replicas), transaction_state_log_num_partitions="4")
    topic = world.creation._internal(TRANSACTION_STATE_TOPIC)
    assert (topic.num_partitions, topic.replication_factor) == (4, replicas)
    settings = {config.name: config.value for config in topic.configs}
    assert (settings["min.insync.replicas"], settings["cleanup.policy"]) == (min_isr, "compact")
    assert settings["segment.bytes"] == "4194304", "a coordinator reads it all before it serves"
