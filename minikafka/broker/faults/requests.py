"""Carries out the rules of a test, between a listener for clients and the handler of its requests."""

from __future__ import annotations

from functools import partial
from typing import Final

from minikafka.broker.faults.rules import Effect, Rule, Rules
from minikafka.errors import ErrorCode
from minikafka.net.breakable import BreakableConnection, Treatment
from minikafka.net.connection import Connection, FrameHandler
from minikafka.replication.fetch_session import INITIAL_EPOCH
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.errors import WireError
from minikafka.wire.framing import PREFIX_SIZE, FrameError
from minikafka.wire.headers import RequestHeader, decode_request_header, decode_response_header, encode_response
from minikafka.wire.messages.api_versions import ApiVersionsResponse
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.refusals import OF_PARTITIONS, refuse_as_brokers_do, say_error
from minikafka.wire.schema import Message, VersionRange

READS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
)
"""Carried out in any case, which changes nothing: errors go into true answers, with the brokers that they name."""


_OF_ACKS_0: Final = "a rule: produce with acks=0 failed"
"""By its end a client learns of it, for nothing is answered."""


class RuledRequests:
    """A frame handler before another one."""

    def __init__(self, handler: FrameHandler, rules: Rules) -> None:
        self._handler = handler
        self._rules = rules
        self.on_read_event_end = handler.on_read_event_end
        self.on_connection_made = handler.on_connection_made
        self.on_connection_lost = handler.on_connection_lost

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        if not self._rules:
            self._handler.on_frame(connection, frame)
            return
        assert isinstance(connection, BreakableConnection)
        try:
            header, position = decode_request_header(frame)
        except WireError:
            self._handler.on_frame(connection, frame)  # which says so
            return
        self._check_version(header)
        rule = self._rules.find(header.api_key, header.client_id)
        if rule is not None and rule.api is ApiKey.FETCH and rule.error in OF_PARTITIONS:
            request = _decoded_request(header, frame, position)
            if isinstance(request, FetchRequest) and request.session_epoch > INITIAL_EPOCH:
                # Its answer names those partitions only that have news. So the client has to name all of them.
                self._refuse(connection, frame, header, position, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
                return
        if rule is not None:
            self._rules.count(rule)
        if rule is None:
            connection.treatment = self._fewer_versions(header)
        elif rule.effect is Effect.DROP and not rule.is_after:
            connection.open_reply()
            return
        elif rule.effect is Effect.DISCONNECT and not rule.is_after:
            connection.close()
            return
        elif rule.effect is Effect.ERROR and not (rule.is_after or rule.api in READS):
            self._refuse(connection, frame, header, position, rule.error)
            return
        else:
            connection.treatment = _treatment(rule, header)
        self._handler.on_frame(connection, frame)

    def _check_version(self, header: RequestHeader) -> None:
        served = self._rules.versions(header.client_id).get(header.api_key)
        if served is not None and not served.has(header.api_version):
            raise FrameError(f"a rule: API {header.api_key} version {header.api_version} is not served")

    def _fewer_versions(self, header: RequestHeader) -> Treatment | None:
        versions = self._rules.versions(header.client_id) if header.api_key == ApiKey.API_VERSIONS else {}
        return Treatment(change=partial(_with_versions, header, versions)) if versions else None

    def _refuse(
        self, connection: Connection, frame: memoryview, header: RequestHeader, position: int, code: ErrorCode
    ) -> None:
        key, version = ApiKey(header.api_key), header.api_version
        request = _decoded_request(header, frame, position)
        if request is None:
            self._handler.on_frame(connection, frame)
            return
        if key is ApiKey.PRODUCE and not getattr(request, "acks"):  # noqa: B009 - of one message class only
            connection.close(_OF_ACKS_0)
            return
        reply = connection.open_reply()
        answer = refuse_as_brokers_do(request, key.response_class, code)
        reply.send((encode_response(key, version, header.correlation_id, encode(answer, version)),))


def _treatment(rule: Rule, header: RequestHeader) -> Treatment:
    match rule.effect:
        case Effect.DELAY:
            return Treatment(delay_ms=rule.delay_ms)
        case Effect.DROP:
            return Treatment(is_dropped=True)
        case Effect.DISCONNECT:
            return Treatment(change=lambda _frame: None)
        case Effect.DUPLICATE:
            return Treatment(change=lambda frame: frame + frame)
        case _:
            return Treatment(change=partial(_with_error, header, rule))


def _with_error(header: RequestHeader, rule: Rule, frame: bytes) -> bytes | None:
    if not frame:  # acks=0: as when a node fails
        return None
    response = _decoded(header, frame)
    say_error(response, rule.error)
    return _encoded(header, response)


def _with_versions(header: RequestHeader, versions: dict[int, VersionRange], frame: bytes) -> bytes:
    response = _decoded(header, frame)
    assert isinstance(response, ApiVersionsResponse)
    for row in response.api_keys:
        if (served := versions.get(row.api_key)) is not None:
            row.min_version = max(row.min_version, served.first)
            row.max_version = min(row.max_version, served.last)
    return _encoded(header, response)


def _decoded_request(header: RequestHeader, frame: memoryview, position: int) -> Message | None:
    """None: nobody here knows this version. FrameError when it cannot be read."""
    key = ApiKey(header.api_key)
    if not key.versions.has(header.api_version):
        return None
    try:
        return decode(key.request_class, header.api_version, frame, position)[0]
    except WireError as error:
        raise FrameError(str(error)) from error


def _decoded(header: RequestHeader, frame: bytes) -> Message:
    key = ApiKey(header.api_key)
    body = memoryview(frame)[PREFIX_SIZE:]
    _, position = decode_response_header(body, key, header.api_version)
    return decode(key.response_class, _version(header), body, position)[0]


def _encoded(header: RequestHeader, response: Message) -> bytes:
    body = encode(response, _version(header))
    return encode_response(header.api_key, header.api_version, header.correlation_id, body)


def _version(header: RequestHeader) -> int:
    """Of the answer: an unknown version of ApiVersions is answered in version 0."""
    return header.api_version if ApiKey(header.api_key).versions.has(header.api_version) else 0
