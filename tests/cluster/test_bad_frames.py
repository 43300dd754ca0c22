"""Bytes that are no requests, over a real socket: the connection closes, and the node does not care."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Callable
from struct import pack

import pytest
from live_wire import ClosedError, Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.wire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = [pytest.mark.spec("P6"), pytest.mark.usefixtures("nodes_are_unharmed")]

MIB = 1 << 20
FRAME_SIZE_MAX = 100 * MIB
TLS_HELLO = bytes.fromhex("160301020001fc0303") + bytes(range(200))
NOT_A_PREFIX = {
    "negative": pack(">i", -1),
    "most negative": pack(">i", -(2**31)),
    "over the limit": pack(">i", FRAME_SIZE_MAX + 1),
    "largest": pack(">i", 2**31 - 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": TLS_HELLO,
}


def header(key: int, version: int, client_id: bytes = b"test") -> bytes:
    """A request header of version 1; tagged fields have to follow it where they belong."""
    return pack(">hhih", key, version, 7, len(client_id)) + client_id


NOT_A_FRAME = {
    "empty": b"",
    "one byte": b"\0",
    "shorter than its header": header(ApiKey.METADATA, 1)[:9],
    "client id beyond the frame": pack(">hhih", ApiKey.METADATA, 1, 7, 500) + b"test",
    "client id of length -2": pack(">hhih", ApiKey.METADATA, 1, 7, -2),
    "client id not UTF-8": header(ApiKey.METADATA, 1, b"\xff\xfe") + pack(">i", 0),
    "unknown API key": header(9999, 0),
    "negative API key": header(-1, 0),
    "an API of brokers": header(56, 0) + b"\0" * 100,
    "version too new": header(ApiKey.FETCH, 99) + b"\0" * 100,
    "version too old": header(ApiKey.FETCH, 3) + b"\0" * 100,
    "negative version": header(ApiKey.METADATA, -1) + b"\0" * 100,
    "no body": header(ApiKey.METADATA, 1),
    "array count beyond the frame": header(ApiKey.METADATA, 1) + pack(">i", 2**31 - 1),
    "negative array count": header(ApiKey.CREATE_TOPICS, 2) + pack(">i", -5),
    "compact array count beyond the frame": header(ApiKey.METADATA, 9) + b"\0" + b"\xff\xff\xff\xff\x07",
    "string beyond the frame": header(ApiKey.METADATA, 1) + pack(">ih", 1, 32767) + b"abc",
    "string not UTF-8": header(ApiKey.METADATA, 1) + pack(">ih", 1, 2) + b"\xc3\x28",
    "varint too long": header(ApiKey.METADATA, 9) + b"\xff" * 11,
    "tagged field beyond the frame": header(ApiKey.METADATA, 9) + b"\x01\x00\x7f" + b"abc",
    "more tagged fields than bytes": header(ApiKey.METADATA, 9) + b"\x7f\x00\x00",
    "records beyond the frame": header(ApiKey.PRODUCE, 3)
    + pack(">hhiih", -1, 1, 0, 1, 1)
    + b"tiii"
    + pack(">i", 2**31 - 1),
}


@pytest.mark.parametrize("listener", [0, 1, 2], ids=["client", "replication", "controller"])
@pytest.mark.parametrize("name", NOT_A_PREFIX)
def test_what_is_no_size_prefix_closes_the_connection(server: LocalCluster, listener: int, name: str) -> None:
    with Wire(server.layout.ports(1)[listener]) as wire:
        wire.send_bytes(NOT_A_PREFIX[name])
        assert wire.is_closed_by_node()


@pytest.mark.parametrize("name", NOT_A_FRAME)
def test_what_is_no_request_closes_the_connection(wire: Wire, name: str) -> None:
    wire.send_frame(NOT_A_FRAME[name])
    assert wire.is_closed_by_node()


@pytest.mark.parametrize("listener", [1, 2], ids=["replication", "controller"])
def test_the_inner_listeners_hear_nobody_who_did_not_prove_the_secret(server: LocalCluster, listener: int) -> None:
    with Wire(server.layout.ports(1)[listener]) as wire:
        wire.send(MetadataRequest(topics=None), 9)
        assert wire.is_closed_by_node()


def test_the_log_says_what_was_wrong(server: LocalCluster) -> None:
    for name in ("HTTP", "TLS", "over the limit"):
        with Wire(server.layout.client_port(1)) as wire:
            wire.send_bytes(NOT_A_PREFIX[name])
            assert wire.is_closed_by_node()
    log = server.layout.log_file(1).read_text()
    assert "an HTTP request was sent" in log
    assert "a TLS handshake was sent to a plaintext port" in log
    assert f"frame of {FRAME_SIZE_MAX + 1} bytes: a size must be from 0 to {FRAME_SIZE_MAX}" in log


def test_requests_before_the_bad_one_are_answered(wire: Wire) -> None:
    wire.send(MetadataRequest(topics=[]), 9)
    answer = wire.receive(MetadataRequest(), 9)
    assert {broker.node_id for broker in answer.brokers} == {1, 2, 3}
    wire.send_frame(header(9999, 0))
    assert wire.is_closed_by_node()


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(wire: Wire, version: int) -> None:
    wire.send_frame(header(ApiKey.API_VERSIONS, version) + b"\0what a newer client sends")
    frame = wire.receive_frame()
    assert frame[:4] == pack(">i", 7)
    answer = decode_exactly(ApiVersionsResponse, 0, frame, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(ApiKey.API_VERSIONS, 0, 5)]
    assert wire.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3).error_code == 0


def test_unknown_tagged_fields_are_ignored(wire: Wire) -> None:
    tagged = b"\x02" + b"\x00\x03abc" + b"\xff\x01\x00"  # two fields: tag 0 with 3 bytes, tag 255 with none
    body = encode(MetadataRequest(topics=[]), 9)
    assert body.endswith(b"\0")
    wire.send_frame(header(ApiKey.METADATA, 9) + tagged + body[:-1] + tagged)
    frame = wire.receive_frame()
    assert {broker.node_id for broker in decode_exactly(MetadataResponse, 9, frame, 5).brokers} == {1, 2, 3}


def test_noise_is_survived(port: int) -> None:
    rng = random.Random(2)
    for _ in range(300):
        key, version = rng.choice(list(ApiKey)), rng.randrange(14)
        noise = rng.randbytes(rng.randrange(60))
        with Wire(port) as wire:
            wire.send_frame(header(key, version) + noise)
            wire.socket.shutdown(socket.SHUT_WR)
            while not wire.is_closed_by_node():
                pass


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rss(server: LocalCluster) -> Callable[[], int]:
    """Node 1's resident memory in bytes."""

    def read() -> int:
        process = server.process(1)
        assert process is not None
        return process.rss_bytes

    return read


def test_nothing_is_allocated_for_what_a_prefix_announces(port: int, rss: Callable[[], int]) -> None:
    before = rss()
    wires = [Wire(port) for _ in range(20)]
    for wire in wires:
        wire.send_bytes(pack(">i", FRAME_SIZE_MAX) + b"the first bytes of 100 MiB")
    with Wire(port) as other:
        other.ask(MetadataRequest(topics=[]), 9)
    assert rss() - before < 20 * MIB
    for wire in wires:
        wire.socket.close()


def test_idle_connections_cost_little(port: int, rss: Callable[[], int]) -> None:
    before = rss()
    wires = [Wire(port) for _ in range(500)]
    wires[-1].ask(MetadataRequest(topics=[]), 9)
    assert rss() - before < 50 * MIB
    for wire in wires:
        wire.socket.close()


def test_a_client_that_never_reads_is_not_read_from(port: int, rss: Callable[[], int]) -> None:
    """It asks and asks; once its answers pile up, the node stops listening to it, and to nobody else."""
    before = rss()
    with Wire(port) as wire, Wire(port) as other:
        wire.socket.setblocking(False)
        body = encode(MetadataRequest(topics=None), 9)
        frame = header(ApiKey.METADATA, 9) + b"\0" + body
        requests = (len(frame).to_bytes(4) + frame) * 1_000_000
        sent = 0
        while sent < len(requests) and select.select([], [wire.socket], [], 2.0)[1]:
            sent += wire.socket.send(memoryview(requests)[sent : sent + 65536])
            assert other.ask(MetadataRequest(topics=[]), 9).brokers
        assert sent < len(requests), "it is read from without end"
        assert rss() - before < 100 * MIB


def test_half_a_request_and_then_nothing_is_closed_with_the_connection(port: int) -> None:
    with Wire(port) as wire:
        wire.send_bytes(pack(">i", 100) + b"half")
        wire.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(ClosedError):
            wire.receive_frame()
