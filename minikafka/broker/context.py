"""Origin of a request, and the way of its answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from minikafka.metadata.client_quotas import Client
from minikafka.net.connection import Connection
from minikafka.net.reply import Reply
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode, encode_around
from minikafka.wire.error_codes import errors_of
from minikafka.wire.framing import FrameError
from minikafka.wire.headers import encode_response
from minikafka.wire.primitives import ELEMENTS_MAX
from minikafka.wire.schema import Message

CLIENT_ELEMENTS_MAX: Final = 10_000
"""Some 40 ms of work. Nodes, which fetch each other's partitions, may name more."""

MANY_ELEMENTS_MAX: Final = 25_000
"""The same where an element takes little, and clients name all partitions that they know, and cannot ask twice: the
module of such an API has this as its ``ELEMENTS_MAX``. To decode them takes 40 ms; what follows is done in portions."""

REQUEST_BYTES_MAX: Final = 4 << 20
"""Of a client's request, without the records of a Produce. With what is made of it, it takes seven times as much: one
of 71 MB, with long names, had a node at 470 MB. In Kafka all that members of a group say fits in a record of 1 MiB."""

CLIENT_ID_MAX: Final = 1_000
"""Characters: no quota is for a longer id. Quotas remember 10,000 clients, whose ids might have 32 KiB."""


def refuse_large(api_key: int, size: int) -> NoReturn:
    """For a request beyond REQUEST_BYTES_MAX."""
    name = ApiKey(api_key).camel_name
    raise FrameError(f"a {name} has {size} bytes, {REQUEST_BYTES_MAX} are allowed; ask for less at once")


def _always() -> bool:
    """A short request is not counted."""
    return True


@dataclass(slots=True, eq=False)
class RequestContext:
    """One request: its connection, its version, and the way of its answer."""

    connection: Connection
    reply: Reply
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    throttle_ms: int = 0
    """What the client is told to wait; its connection is muted for so long."""
    may_wait_for_controller: Callable[[], bool] = _always
    """To be asked by whoever is about to, unless its API is forwarded to the controller: of those that may wait long
    only so many are kept. False: answer without it, that the client asks again."""

    @property
    def listener(self) -> str:
        """The name of the listener that it came by."""
        return self.connection.listener

    @property
    def client(self) -> Client:
        """Whose quotas hold."""
        return Client(self.connection.user, (self.client_id or "")[:CLIENT_ID_MAX])

    @property
    def is_replica(self) -> bool:
        """True when the peer is a node that proved the cluster secret on the replication listener."""
        return self.connection.principal is not None

    @property
    def elements_max(self) -> int:
        """Most elements in all arrays of the request together."""
        return CLIENT_ELEMENTS_MAX if self.connection.principal is None else ELEMENTS_MAX

    def throttle(self, wait_ms: float) -> None:
        """The client exceeds a quota: the answer says so, and no further request is handled for that time."""
        if wait_ms > self.throttle_ms:
            self.throttle_ms = math.ceil(wait_ms)
            self.connection.mute(wait_ms / 1000)

    def send(self, response: Message) -> None:
        """Encode ``response`` at the request's version and put it in the connection's order of answers."""
        self.send_body(self.encoded(response))

    def encoded(self, response: Message) -> bytes:
        """``response`` at the request's version."""
        self.note_errors(errors_of(response))
        if self.throttle_ms and "throttle_time_ms" in type(response).SCHEMA:
            response.throttle_time_ms = self.throttle_ms  # type: ignore[attr-defined]
        return encode(response, self.version)

    def send_around(self, response: Message, field: str, elements: list[bytes]) -> None:
        """Answer with ``response`` and these elements, which are encoded already, in its array ``field``."""
        self.send_body(encode_around(response, self.version, field, elements))

    def note_errors(self, codes: Sequence[int]) -> None:
        """The answer has these errors, none of which is 0."""
        if codes and (requests := self.reply.requests) is not None:
            requests.note_errors(codes)

    def send_body(self, body: bytes) -> None:
        """Answer with a response that is encoded already."""
        self.reply.send((encode_response(self.api_key, self.version, self.correlation_id, body),))
