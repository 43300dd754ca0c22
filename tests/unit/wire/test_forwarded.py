"""Requests inside calls of the control plane, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller import controller
from minikafka.wire.api import BROKERS, CLIENTS, ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.forwarded import Forwarded, decode_answer, decode_forwarded, encode_answer, encode_forwarded, key_of
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.schema import Message

quick = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
Messages = Callable[..., st.SearchStrategy[Message]]
FORWARDED = [key for key in ApiKey if key.listeners >= BROKERS]

HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=2, broker_epoch=7, current_metadata_offset=9, offline_log_dirs=[UUID(int=5), UUID(int=6)]
)
KEY, VERSION, DATA = encode_forwarded(HEARTBEAT)


def test_the_controller_carries_out_what_is_forwarded_and_nothing_else() -> None:
    assert {key.request_class for key in FORWARDED} == controller._TIMED.keys() | controller._UNTIMED.keys()


@pytest.mark.parametrize("key", FORWARDED, ids=lambda key: key.camel_name)
@quick
@given(data=st.data())
def test_there_and_back(key: ApiKey, messages: Messages, data: st.DataObject) -> None:
    version = key.versions.last
    request = data.draw(messages(key.request_class, version))
    forwarded = decode_forwarded(encode_forwarded(request))
    assert forwarded == Forwarded(request, key, version)
    assert forwarded.key is key_of(request) is key
    response = data.draw(messages(key.response_class, version))
    assert decode_answer(request, key.response_class, encode_answer(response, forwarded)) == response


def test_a_heartbeat_tells_of_directories_that_failed() -> None:
    assert decode_forwarded([KEY, VERSION, DATA]).request.offline_log_dirs == [UUID(int=5), UUID(int=6)]


@pytest.mark.parametrize("key", [key for key in FORWARDED if key.listeners & CLIENTS], ids=lambda key: key.camel_name)
@quick
@given(data=st.data())
def test_what_clients_may_send_in_any_version_can_be_forwarded(
    key: ApiKey, messages: Messages, data: st.DataObject
) -> None:
    version = data.draw(st.integers(*key.versions))
    request = data.draw(messages(key.request_class, version))
    assert decode_forwarded(encode_forwarded(request)).key is key


@pytest.mark.parametrize("key", FORWARDED, ids=lambda key: key.camel_name)
def test_an_older_version_is_answered_in_its_own(key: ApiKey) -> None:
    """It comes from a node of an older release."""
    for version in range(key.versions.first, key.versions.last + 1):
        body = [int(key), version, encode(key.request_class(), version)]
        forwarded = decode_forwarded(body)
        assert forwarded == Forwarded(key.request_class(), key, version)
        assert encode_answer(key.response_class(), forwarded) == encode(key.response_class(), version)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"key": KEY},
        DATA,
        [KEY],
        [KEY, VERSION],
        [KEY, VERSION, DATA, 0],
        [KEY, VERSION, list(DATA)],
        [KEY, VERSION, DATA.decode("latin-1")],
        [KEY, None, DATA],
        [KEY, str(VERSION), DATA],
        [float(KEY), VERSION, DATA],
        [b"", VERSION, DATA],
    ],
    ids=repr,
)
def test_what_is_no_forwarded_request_at_all(body: Any) -> None:
    with pytest.raises(KafkaError, match=r"not a forwarded request: \[key, version, bytes\] is expected") as refused:
        decode_forwarded(body)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("data", [b"", *(DATA[:end] for end in range(1, len(DATA))), DATA + b"\0"], ids=len)
def test_bytes_that_are_no_such_request(data: bytes) -> None:
    with pytest.raises(KafkaError, match="a malformed BrokerHeartbeat request: ") as refused:
        decode_forwarded([KEY, VERSION, data])
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("key", [-1, 9999, 1 << 64, 9])
@pytest.mark.parametrize("version", [0, 3])
def test_an_api_that_is_unknown_or_not_the_controllers(key: int, version: int) -> None:
    with pytest.raises(KafkaError, match=r"is unknown to this node|is not for the controller of this node") as refused:
        decode_forwarded([key, version, b""])
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [-1, VERSION - 1, VERSION + 1, 1 << 64])
def test_a_version_that_this_node_does_not_speak(version: int) -> None:
    with pytest.raises(KafkaError, match=f"BrokerHeartbeat version {version} is not for the controller") as refused:
        decode_forwarded([KEY, version, DATA])
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("key", [key for key in ApiKey if key not in FORWARDED], ids=lambda key: key.camel_name)
def test_what_a_node_answers_itself_is_not_forwarded(key: ApiKey) -> None:
    """Clients' other APIs, and those between nodes: the controller is not to be asked for them."""
    for version in key.versions.first, key.versions.last:
        with pytest.raises(
            KafkaError, match=f"{key.camel_name} version {version} is not for the controller"
        ) as refused:
            decode_forwarded([int(key), version, encode(key.request_class(), version)])
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_the_key_of_what_is_no_request() -> None:
    assert key_of(FetchRequest()) is ApiKey.FETCH
    with pytest.raises(KeyError):
        key_of(BrokerHeartbeatResponse())


@pytest.mark.parametrize(
    "answer", [None, [], "", bytearray(), b"", encode(BrokerHeartbeatResponse(), VERSION)[:-1], b"\0" * 99], ids=repr
)
def test_answers_that_are_none(answer: Any) -> None:
    with pytest.raises(KafkaError, match="the controller's answer is malformed: ") as failed:
        decode_answer(HEARTBEAT, BrokerHeartbeatResponse, answer)
    assert failed.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_answer_is_of_the_version_that_was_asked_in() -> None:
    request, version = CreateTopicsRequest(), ApiKey.CREATE_TOPICS.versions.last
    answer = encode_answer(CreateTopicsResponse(throttle_time_ms=5), decode_forwarded(encode_forwarded(request)))
    assert answer == encode(CreateTopicsResponse(throttle_time_ms=5), version)
    assert decode_answer(request, CreateTopicsResponse, answer).throttle_time_ms == 5
