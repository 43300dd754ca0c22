"""The probe against sockets that answer properly, wrongly, or not at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from uuid import UUID

import pytest

from minikafka.chaos.probe import (
    NOT_TOLD,
    ClusterView,
    Entrance,
    PartitionView,
    QuorumView,
    login_refusal,
    probe,
    probe_quorum,
)
from minikafka.client import Security
from minikafka.errors import ErrorCode
from minikafka.model import Endpoint
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.headers import decode_request_header, encode_response
from minikafka.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from minikafka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.wire.messages.sasl_handshake import SaslHandshakeResponse
from minikafka.wire.schema import Message

TOPIC_ID = UUID(int=7)
RESPONSE = MetadataResponse(
    brokers=[MetadataResponseBroker(node_id=1), MetadataResponseBroker(node_id=2)],
    cluster_id="c",
    controller_id=2,
    topics=[
        MetadataResponseTopic(
            name="t",
            topic_id=TOPIC_ID,
            partitions=[
                MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]),
                MetadataResponsePartition(partition_index=1, leader_id=2, replica_nodes=[2, 1], isr_nodes=[2]),
            ],
        )
    ],
)


@contextmanager
def answering(answer: bytes | Message) -> Iterator[Endpoint]:
    """A server that reads one request and answers it with these bytes or this response."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            request = connection.recv(4096)
            header, _ = decode_request_header(request[4:])
            connection.sendall(
                answer
                if isinstance(answer, bytes)
                else encode_response(
                    ApiKey(header.api_key),
                    header.api_version,
                    header.correlation_id,
                    encode(answer, header.api_version),
                )
            )

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        yield Endpoint(*server.getsockname())
        thread.join()


def test_a_view_is_what_the_broker_says() -> None:
    with answering(RESPONSE) as endpoint:
        view = probe(endpoint)
    assert view == ClusterView(
        "c",
        2,
        frozenset({1, 2}),
        (PartitionView("t", 0, 1, (1, 2), (1, 2)), PartitionView("t", 1, 2, (2, 1), (2,))),
        frozenset({TOPIC_ID}),
    )
    assert view.has_controller
    assert not view.fully_replicated
    assert [partition.under_replicated for partition in view.partitions] == [False, True]


def test_the_quorum_has_a_leader_or_the_broker_says_why_not() -> None:
    led = ResponseTopicData(partitions=[ResponsePartitionData(error_message=None, leader_id=2)])
    with answering(DescribeQuorumResponse(error_message=None, topics=[led])) as endpoint:
        assert probe_quorum(endpoint) == QuorumView(2)
    with answering(DescribeQuorumResponse(error_code=41, error_message="no leader")) as endpoint:
        assert probe_quorum(endpoint) == QuorumView(None, "no leader")
    with answering(DescribeQuorumResponse(error_code=31, error_message=None)) as endpoint:
        assert probe_quorum(endpoint) == QuorumView(None, NOT_TOLD)
    with answering(b"") as endpoint:
        assert probe_quorum(endpoint) is None


@pytest.mark.parametrize(
    "answer", [b"", b"\0\0", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\4\0\0\0\1"]
)
def test_an_answer_that_is_not_kafkas_counts_as_no_answer(answer: bytes) -> None:
    with answering(answer) as endpoint:
        assert probe(endpoint) is None


def test_who_is_not_let_in_gets_no_answer() -> None:
    login = Security(security_protocol="SASL_PLAINTEXT", sasl_username="admin", sasl_password="wrong")
    with answering(SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)) as endpoint:
        assert probe(endpoint, entrance=Entrance(sasl=login.sasl())) is None
    with answering(SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)) as endpoint:
        assert "SCRAM-SHA-512" in (login_refusal(endpoint, Entrance(sasl=login.sasl())) or "")
    assert login_refusal(endpoint, Entrance(sasl=login.sasl())) is None
    assert login_refusal(endpoint, Entrance()) is None


def test_nobody_there_and_nobody_answering() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = Endpoint(*server.getsockname())
        assert probe(endpoint, timeout_s=0.05) is None
    assert probe(endpoint) is None
