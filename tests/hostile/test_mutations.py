"""Requests with bytes changed, cut out, doubled: at the decoders, and through sockets."""

from __future__ import annotations

import os
import random
from typing import Final
from uuid import UUID

import pytest
from filled_requests import filled
from hostile_requests import LARGEST
from live_attack import Target
from live_wire import ClosedError, api_key, batch, fetch_request, produce_request

from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.errors import WireError
from minikafka.wire.framing import FrameError
from minikafka.wire.headers import decode_request_header, encode_request
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.schema import Message

pytestmark = pytest.mark.spec("P6")

DECODED: Final = int(os.environ.get("HOSTILE_DECODED", "3000"))
SENT: Final = int(os.environ.get("HOSTILE_SENT", "300"))
SEED: Final = int(os.environ.get("SEED", "1"))
VICTIM: Final = "victim"
"""The topic that requests are about, and more that has a name."""
ANSWER_S: Final = 1.0
"""Of one that does not wait for something else."""
LENGTHS: Final = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", bytes(4), b"\xff\x7f", b"\0")


def seeds() -> list[tuple[int, int, bytes]]:
    """(key, version, body) of valid requests of every kind, small ones."""
    requests: list[tuple[Message, int]] = [
        (MetadataRequest(topics=None), 9),
        (produce_request("honest", batch(b"x", b"y")), 9),
        (fetch_request("honest", 0), 11),
    ]
    found = [(int(api_key(request)), version, encode(request, version)) for request, version in requests]
    for make, version in LARGEST.values():
        request = make()
        found.append((int(api_key(request)), version, encode(request, version)[:400]))
    ends = ((key, version) for key in ApiKey for version in (key.versions.first, key.versions.last))
    found += [(int(key), v, encode(filled(key.request_class, v, VICTIM, UUID(int=7)), v)) for key, v in ends]
    return found


def mutated(body: bytes, rng: random.Random) -> bytes:
    """The body with one to four accidents."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + 4] = rng.choice(LENGTHS)
            case 2:
                del data[at : at + rng.randrange(20)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(8))
            case _:
                data[at:at] = data[at : at + rng.randrange(200)]
    return bytes(data)


def test_decoders_answer_or_refuse() -> None:
    rng = random.Random(SEED)
    known = seeds()
    for _ in range(DECODED):
        key, version, body = rng.choice(known)
        frame = memoryview(mutated(encode_request(key, version, 7, "test", body)[4:], rng))
        try:
            header, position = decode_request_header(frame)
            if header[0] in set(ApiKey) and ApiKey(header[0]).versions.has(header[1]):
                decode(ApiKey(header[0]).request_class, header[1], frame, position)
        except (WireError, FrameError):
            continue


def test_a_node_answers_or_closes(target: Target) -> None:
    """Requests that are valid again by chance are carried out; none may delete or create what the others need.

    One at a time: whatever comes behind a frame that closes its connection is not looked at.
    """
    rng = random.Random(SEED)
    harmless = [seed for seed in seeds() if seed[0] not in {ApiKey.DELETE_TOPICS, ApiKey.CREATE_TOPICS}]
    target.create_topic(VICTIM)
    left, answered = SENT, 0
    while left:
        with target.wire() as wire:
            wire.socket.settimeout(ANSWER_S)
            try:
                while left:
                    left -= 1
                    key, version, body = rng.choice(harmless)
                    frame = encode_request(key, version, 7, "test", body)[4:]
                    wire.send_frame(frame[:8] + mutated(frame[8:], rng))
                    wire.receive_frame()
                    answered += 1
            except (ClosedError, TimeoutError):
                continue  # refused, or one that waits: a group that others join, a fetch without end
    assert answered > SENT // 10
