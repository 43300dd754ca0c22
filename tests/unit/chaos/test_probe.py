"""The probe against sockets that answer properly, wrongly, or not at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from minikafka.chaos.probe import ClusterView, PartitionView, probe
from minikafka.model import Endpoint
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.headers import decode_request_header, encode_response
from minikafka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

RESPONSE = MetadataResponse(
    brokers=[MetadataResponseBroker(node_id=1), MetadataResponseBroker(node_id=2)],
    cluster_id="c",
    controller_id=2,
    topics=[
        MetadataResponseTopic(
            name="t",
            partitions=[
                MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]),
                MetadataResponsePartition(partition_index=1, leader_id=2, replica_nodes=[2, 1], isr_nodes=[2]),
            ],
        )
    ],
)


@contextmanager
def answering(answer: bytes | None) -> Iterator[Endpoint]:
    """A server that reads one request and answers with these bytes (None: a metadata response to the request)."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            request = connection.recv(4096)
            header, _ = decode_request_header(request[4:])
            assert header.api_key == ApiKey.METADATA
            body = encode(RESPONSE, header.api_version)
            connection.sendall(
                encode_response(ApiKey.METADATA, header.api_version, header.correlation_id, body)
                if answer is None
                else answer
            )

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        yield Endpoint(*server.getsockname())
        thread.join()


def test_a_view_is_what_the_broker_says() -> None:
    with answering(None) as endpoint:
        view = probe(endpoint)
    assert view == ClusterView(
        "c",
        2,
        frozenset({1, 2}),
        (PartitionView("t", 0, 1, (1, 2), (1, 2)), PartitionView("t", 1, 2, (2, 1), (2,))),
    )
    assert view.has_controller
    assert not view.fully_replicated
    assert [partition.under_replicated for partition in view.partitions] == [False, True]


@pytest.mark.parametrize(
    "answer", [b"", b"\0\0", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\4\0\0\0\1"]
)
def test_an_answer_that_is_not_kafkas_counts_as_no_answer(answer: bytes) -> None:
    with answering(answer) as endpoint:
        assert probe(endpoint) is None


def test_nobody_there_and_nobody_answering() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = Endpoint(*server.getsockname())
        assert probe(endpoint, timeout_s=0.05) is None
    assert probe(endpoint) is None
