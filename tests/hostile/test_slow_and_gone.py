"""Clients that do not read, do not end, or end in the middle of everything."""

from __future__ import annotations

import socket
import struct

import pytest
from live_attack import MIB, Target
from live_cluster import eventually
from live_wire import Wire, api_key, batch, fetch_request, produce_request

from minikafka.wire.codec import encode
from minikafka.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.spec("P6")

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def full(attacked: object) -> str:
    """A topic that holds 8 MiB."""
    from minikafka.chaos.local_cluster import LocalCluster

    assert isinstance(attacked, LocalCluster)
    target = Target(attacked)
    target.create_topic("full")
    with target.wire() as wire:
        for _ in range(8):
            wire.ask(produce_request("full", batch(b"x" * (MIB - 1000))), 9)
    return "full"


def parked_fetch(offset: int = 1 << 40) -> bytes:
    """A fetch that waits, for an hour if it may."""
    request = fetch_request("honest", 0, wait_ms=HOUR_MS)
    request.min_bytes = 1 << 30
    return encode(request, 11)


def reset(wire: Wire) -> None:
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.close()


def test_answers_that_wait_behind_a_parked_fetch(target: Target, full: str) -> None:
    """197 MiB of them belonged to one connection."""
    wires = [target.wire() for _ in range(4)]
    request = fetch_request(full, 0)
    request.topics[0].partitions[0].partition_max_bytes = 30_000  # below what goes by sendfile
    everything = MetadataRequest(topics=None)
    for wire in wires:
        wire.send_body(api_key(request), 11, parked_fetch())
        wire.socket.settimeout(1.0)
        send_until_stuck(wire, [encode(everything, 9)] * 2000, api_key(everything), 9)
    assert target.peak_memory() < 200 * MIB
    for wire in wires:
        wire.socket.close()


def send_until_stuck(wire: Wire, bodies: list[bytes], key: int, version: int) -> None:
    """Send as many as the node takes."""
    try:
        for body in bodies:
            wire.send_body(key, version, body)
    except TimeoutError:
        return


def test_consumers_that_do_not_read(target: Target, full: str) -> None:
    request = fetch_request(full, 0)
    request.topics[0].partitions[0].partition_max_bytes = 8 * MIB
    body = encode(request, 11)
    before = target.descriptors()
    wires = [target.wire() for _ in range(60)]
    for wire in wires:
        for _ in range(5):
            wire.send_body(api_key(request), 11, body)
    with target.wire() as reader:
        assert reader.fetch(full, 0), "who does read is served"
    for wire in wires:
        wire.socket.close()
    eventually(lambda: target.descriptors() < before + 30, "all that they held to be let go")


def test_fetches_of_connections_that_were_aborted(target: Target) -> None:
    """A thousand each: the next produce tried all of them, and answered into the void."""
    request = fetch_request("honest", 0)
    body = parked_fetch()
    before = target.descriptors()
    wires = [target.wire() for _ in range(5)]
    for wire in wires:
        for _ in range(1_000):
            wire.send_body(api_key(request), 11, body)
    for wire in wires:
        reset(wire)
    eventually(lambda: target.descriptors() <= before, "the connections to be gone, though nothing is read from them")


def test_fetches_that_nothing_satisfies_wait_in_numbers(target: Target) -> None:
    """They are looked at whenever the honest producer writes."""
    request = fetch_request("honest", 0)
    body = parked_fetch()
    wires = [target.wire() for _ in range(10)]
    for wire in wires:
        for _ in range(990):
            wire.send_body(api_key(request), 11, body)
    with target.wire() as wire:
        for _ in range(5):
            wire.produce("honest", b"x")
    for wire in wires:
        wire.socket.close()


def test_connections_that_come_and_go(target: Target) -> None:
    for number in range(300):
        wire = target.wire()
        if number % 3:
            wire.send_bytes((1000).to_bytes(4) + b"half")
        (reset if number % 2 else Wire.__exit__)(wire, *(() if number % 2 else (None, None, None)))
