"""What a request of one record costs the broker when a client pipelines them: the price of everything but bytes.

Up to 400 requests are under way on one connection, sent a hundred at a time; each has a batch of one record of 100
bytes. The broker's CPU time is read from the system, the client's does not count. An idempotent producer's batches have
its id and their sequence, which the broker compares with what it knows of the producer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

from benchmarks.bare import ACKS_ALL, CLIENT_ID, PRODUCE_VERSION, BareClient, produce_request
from benchmarks.clusters import broker_cpu, create_topic, leader_of, running_cluster, spent
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.produce import ProduceRequest, ProduceResponse

SUMMARY = "what a request of one record costs the broker"
REQUESTS: Final = 200_000
AT_ONCE: Final = 100
IN_FLIGHT_MAX: Final = 400
ACKS_LEADER: Final = 1
KINDS: Final = (  # copies, acks, idempotent, target
    (1, ACKS_LEADER, False, Target("<", 15.0)),
    (3, ACKS_ALL, False, None),
    (3, ACKS_ALL, True, None),
)
_INIT_VERSION: Final = 4


def run(run: Run) -> list[Figure]:
    """The better of three turns each: the work is the same every time, and what disturbs only adds."""
    found = []
    with running_cluster() as cluster:
        for copies, acks, idempotent, target in KINDS:
            topic = f"rf{copies}{'-idempotent' * idempotent}"
            create_topic(cluster, topic, copies=copies)
            turns = [requests_cost_us(cluster, topic, acks, idempotent=idempotent) for _ in range(run.times(3))]
            leader_us, all_us = min(turn[0] for turn in turns), min(turn[1] for turn in turns)
            name = f"RF {copies}, acks={'all' if acks == ACKS_ALL else acks}{', idempotent' * idempotent}"
            note = "leader's turns: " + ", ".join(f"{turn[0]:.1f}" for turn in turns)
            found.append(Figure(f"CPU of the leader per request, {name}", leader_us, "us", target, note))
            if copies > 1:
                found.append(Figure(f"CPU of all brokers per request, {name}", all_us, "us"))
    return found


def requests_cost_us(cluster: LocalCluster, topic: str, acks: int, *, idempotent: bool = False) -> tuple[float, float]:
    """Microseconds of CPU for each request: the leader's, and all brokers'."""
    leader = leader_of(cluster, topic)
    with BareClient(cluster.layout.client_port(leader)) as client:
        chunks = _idempotent_chunks(client, topic) if idempotent else _plain_chunks(topic, acks)
        first = _pipeline(client, chunks, AT_ONCE)
        before = broker_cpu(cluster)
        last = _pipeline(client, chunks, REQUESTS)
        used = spent(before, broker_cpu(cluster))
    assert last - first == REQUESTS, "the offsets do not say that every record was written"
    return used[leader] / REQUESTS * 1e6, sum(used.values()) / REQUESTS * 1e6


def _plain_chunks(topic: str, acks: int) -> Iterator[bytes]:
    """The same hundred requests again and again."""
    return repeat(_frames([produce_request(topic, 0, acks)] * AT_ONCE))


def _idempotent_chunks(client: BareClient, topic: str) -> Iterator[bytes]:
    """Requests of one producer in their order, made before they are wanted."""
    request = InitProducerIdRequest(transactional_id=None)
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, request, InitProducerIdResponse)
    assert answer.error_code == 0, answer
    of: dict[str, Any] = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    firsts = range(0, AT_ONCE + REQUESTS, AT_ONCE)
    made = [
        _frames([produce_request(topic, 0, base_sequence=first + n, **of) for n in range(AT_ONCE)]) for first in firsts
    ]
    return iter(made)


def _frames(requests: list[ProduceRequest]) -> bytes:
    bodies = (encode(request, PRODUCE_VERSION) for request in requests)
    return b"".join(
        encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, n, CLIENT_ID, body) for n, body in enumerate(bodies)
    )


def _pipeline(client: BareClient, chunks: Iterator[bytes], count: int) -> int:
    """Send that many requests and receive the answers; the last one's offset. Answers have one size, so bytes count."""
    client.socket.sendall(next(chunks))
    tail = client.receive_frame()
    size, sent, received = 4 + len(tail), AT_ONCE, 4 + len(tail)
    while received < count * size:
        if sent < count and sent - received // size <= IN_FLIGHT_MAX - AT_ONCE:
            client.socket.sendall(next(chunks))
            sent += AT_ONCE
            continue
        chunk = client.socket.recv(1 << 20)
        assert chunk, "the broker closed the connection"
        received += len(chunk)
        tail = (tail + chunk)[-(size - 4) :]
    _, position = decode_response_header(tail, ApiKey.PRODUCE, PRODUCE_VERSION)
    answer = decode_exactly(ProduceResponse, PRODUCE_VERSION, tail, position).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    return answer.base_offset
