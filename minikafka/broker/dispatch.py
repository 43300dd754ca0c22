"""From a frame to its handler and back: decode by API key and version, call, encode, answer in order.

The handler of an API is in the module of ``broker.handlers`` that has its name, and given the parts of the node that
it names (``broker.parts``). It gets what whoever asks may ask (``broker.authorization``). Three kinds are told apart by
what they need:

- *plain*   ``handle(request, context, ...) -> response | None``: answers at once, or later through ``context.send``;
  of a request with more than ``LONG`` bytes it may return a coroutine, which does the rest in portions
- *waiting* ``async handle(request, context, ...) -> response | None``: asks the controller, or waits for a commit
- *direct*  ``handle_frame(frame, position, context, ...) -> None``: the hot ones, which read the frame themselves and
  answer through ``context.reply`` when they can

A request that cannot be read closes its connection: peer and broker no longer agree on where things are. So does an
API at a version that is not served, except ApiVersions, which is how a client finds out. A request that is too large
does, too, unless its module has an answer for that, ``TOO_LARGE``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from minikafka.broker.authorization import Admission, Row
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.client_quotas import ClientQuotas
from minikafka.broker.clock import Clock
from minikafka.broker.context import CLIENT_ELEMENTS_MAX, REQUEST_BYTES_MAX, RequestContext, refuse_large
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers import api_versions
from minikafka.broker.logs import one_line
from minikafka.broker.parts import Parts
from minikafka.broker.places import Memory, Places
from minikafka.broker.staging import Staging
from minikafka.config.node import CLIENT, CONTROLLER, REPLICATION
from minikafka.event_log import get_logger
from minikafka.metadata.client_quotas import REQUEST_PERCENTAGE
from minikafka.metrics.requests import ApiRequests, Requests
from minikafka.net.connection import Connection
from minikafka.net.identity import Identity
from minikafka.net.tasks import TaskOwner
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode
from minikafka.wire.control import UNAUTHENTICATED_FRAME_SIZE_MAX
from minikafka.wire.errors import WireError
from minikafka.wire.framing import FrameError
from minikafka.wire.headers import decode_request_header
from minikafka.wire.schema import Buffer, Message

log = get_logger()

AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What nodes may ask before they have proved the cluster's secret."""

Direct = Callable[[memoryview, int, RequestContext], None]
Handler = Callable[..., Any]
_NOT_SERVED: Final = (1, 0, None, None)  # no version is
_FETCHES: Final = {CLIENT: "FetchConsumer", REPLICATION: "FetchFollower"}
"""Kafka's names for Fetch in its metrics, by listener."""
WAITING_AT_ONCE: Final = 500
"""Requests of one API; others wait for these (``broker.places``). Some take minutes."""
WAITING_OF_ONE: Final = 32
"""Of one client's connection. Nodes share a connection for what all their clients ask."""
PLAIN_COST: Final = 16 * 1024
PLAIN_COST_PER_BYTE: Final = 30
"""What a request of a plain or waiting handler costs the turn (``net.turns``), beside what any costs.

So much for each byte of a plain handler's answer, too: a request of 20 bytes may ask for all log directories."""
WAITING_BYTES: Final = 32 * 1024
"""What a request of a waiting handler holds; with it a connection has about a hundred of them under way."""
WAITING_BYTES_PER_BYTE: Final = 8
LONG: Final = 4 * 1024
"""Bytes of a request from which it has a turn of its own: it may have thousands of elements."""
LONG_TO_WAIT: Final = 1024
"""The same of one that waits: hundreds of elements are kept meanwhile."""
DECODED_BYTES_PER_BYTE: Final = 40
DECODED_BYTES: Final = 12 << 20
"""Of long requests, with what their handlers make of them; more wait undecoded. 300 of 75 KB took 860 MB. So much for
each of five kinds: those that may wait long, for a controller or for followers; Metadata; ListOffsets, whose look-ups
by time may take a minute; others that wait; and those that wait for nothing. None must wait for another kind. What
turns out to need a controller becomes one of the first, or is refused
(:attr:`RequestContext.may_wait_for_controller`)."""
MAY_WAIT_LONG: Final = frozenset({ApiKey.DELETE_RECORDS, ApiKey.INIT_PRODUCER_ID})
"""Beside those that are forwarded to the controller: for followers as long as the client likes, for producer ids."""
WAIT_FOR_MEMBERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""They wait for other clients, who may never come: others must not wait for these. Groups have bounds of their own."""


def handler_module(key: ApiKey) -> ModuleType:
    """The module with the API's handler."""
    return import_module(f"minikafka.broker.handlers.{key.name.lower()}")


def elements_max(key: ApiKey) -> int:
    """Most elements of a client's request in all its arrays together."""
    return int(getattr(handler_module(key), "ELEMENTS_MAX", CLIENT_ELEMENTS_MAX))


class Dispatcher:
    """Frame handler of one Kafka-protocol listener: serves the APIs whose rows name it."""

    def __init__(self, listener: str, parts: Parts) -> None:
        self._tasks = parts.part(TaskOwner)
        self.on_read_event_end = parts.part(Staging).on_read_event_end
        self._must_authenticate = listener == REPLICATION
        self._request_bytes_max = REQUEST_BYTES_MAX if listener == CLIENT else sys.maxsize
        self._work_s = parts.part(Clock).work_s
        self._client_quotas = parts.part(ClientQuotas) if listener == CLIENT else None
        self._metadata = parts.part(Metadata)
        authorizer = parts.part(Authorizer)
        self._rows: dict[ApiKey, Row] = {}
        self._admission = Admission(self._rows, authorizer) if listener == CLIENT and authorizer.is_enabled else None
        self._elements_max: dict[ApiKey, int] = {}  # of clients
        self._plain: dict[ApiKey, Handler] = {}
        self._waiting: dict[ApiKey, Handler] = {}
        self._served: dict[int, tuple[int, int, Direct | None, ApiRequests | None]] = {}
        self._too_large: dict[int, Message] = {}
        requests = parts.part(Requests)
        self._requests_for_versions = requests.of(ApiKey.API_VERSIONS.camel_name)
        served = [key for key in ApiKey if listener in key.listeners]
        self._api_versions = api_versions.Responses(served, parts.part(Identity), lambda: self._metadata.image)
        for key in served:
            if key is not ApiKey.API_VERSIONS:
                name = _FETCHES[listener] if key is ApiKey.FETCH else key.camel_name
                self._serve(key, parts, requests.of(name))
        of_one = WAITING_AT_ONCE if listener == REPLICATION else WAITING_OF_ONE
        self._places = {key: Places(WAITING_AT_ONCE, of_one) for key in self._waiting}
        plain, others, self._long_memory = (Memory(DECODED_BYTES) for _ in range(3))
        of_own = {key: Memory(DECODED_BYTES) for key in (ApiKey.METADATA, ApiKey.LIST_OFFSETS)}
        self._memory: dict[ApiKey, Memory] = {}  # of those that may be long
        for key in (*self._plain, *self._waiting):
            if listener == CLIENT and key not in WAIT_FOR_MEMBERS:
                may_wait_long = key in MAY_WAIT_LONG or CONTROLLER in key.listeners
                shared = plain if key in self._plain else self._long_memory if may_wait_long else others
                self._memory[key] = of_own.get(key, shared)

    def _serve(self, key: ApiKey, parts: Parts, requests: ApiRequests) -> None:
        module = handler_module(key)
        self._rows[key] = module.AUTHORIZATION
        if hasattr(module, "TOO_LARGE"):
            self._too_large[key] = module.TOO_LARGE
        self._elements_max[key] = elements_max(key)
        direct = getattr(module, "handle_frame", None)
        self._served[key] = (*key.versions, direct and parts.given(direct), requests)
        if direct is None:
            handlers = self._waiting if inspect.iscoroutinefunction(module.handle) else self._plain
            handlers[key] = parts.given(module.handle)

    # -- FrameHandler -----------------------------------------------------------------------------------------------

    def on_connection_made(self, connection: Connection) -> None:
        """Nothing is known of the peer yet: a node proves the cluster's secret in small frames."""
        if self._must_authenticate:
            connection.limit_frames(UNAUTHENTICATED_FRAME_SIZE_MAX)

    def on_connection_lost(self, connection: Connection) -> None:
        """What the connection had waiting answers into the void; its fetch session ages out."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        try:
            (key, version, correlation_id, client_id), position = decode_request_header(frame)
            first, last, direct, requests = self._served.get(key, _NOT_SERVED)
            if not first <= version <= last:
                if key != ApiKey.API_VERSIONS:
                    raise FrameError(f"API {key} version {version} is not served here")
                self._answer_api_versions(connection, frame, position, version, correlation_id)
                return
            is_too_large = len(frame) > self._request_bytes_max and key != ApiKey.PRODUCE
            if is_too_large and key not in self._too_large:
                refuse_large(key, len(frame))
            if self._must_authenticate and connection.principal is None and key not in AUTHENTICATION:
                raise FrameError(f"API {key} before authentication")
            reply = connection.open_reply(requests)
            context = RequestContext(connection, reply, key, version, correlation_id, client_id)
            if is_too_large:
                connection.spend(PLAIN_COST)
                context.send(self._too_large[key])
                return
            quotas = self._client_quotas
            if quotas is not None and REQUEST_PERCENTAGE in quotas.bound_keys and not _is_login(connection, key):
                self._handle_measured(quotas, direct, frame, position, context)
            elif direct is not None:
                direct(frame, position, context)
            else:
                self._call(ApiKey(key), frame, position, context)
        except WireError as error:
            raise FrameError(str(error)) from error

    def _handle_measured(
        self, quotas: ClientQuotas, direct: Direct | None, frame: memoryview, position: int, context: RequestContext
    ) -> None:
        """With the time that it takes here; what a waiting handler does later is not counted."""
        quotas.on_request(context)
        began_s = self._work_s()
        try:
            if direct is not None:
                direct(frame, position, context)
            else:
                self._call(ApiKey(context.api_key), frame, position, context)
        finally:
            quotas.on_handled(context.client, self._work_s() - began_s)

    # -- the slower kinds -------------------------------------------------------------------------------------------

    def _call(self, key: ApiKey, frame: memoryview, position: int, context: RequestContext) -> None:
        size = len(frame)
        if size > LONG_TO_WAIT and key in self._memory and (size > LONG or key in self._waiting):
            context.connection.suspend()
            if size <= LONG:
                context.connection.spend(PLAIN_COST + PLAIN_COST_PER_BYTE * size)
            task = self._tasks.start(self._call_later(key, bytes(frame), position, context), key.camel_name)
            context.reply.hold(WAITING_BYTES + size, task.cancel)
            return
        # Bytes behind the message are let pass, as Apache Kafka does: librdkafka leaves some behind Metadata v13.
        request = self._decoded(key, frame, position, context)
        context.connection.spend(PLAIN_COST + PLAIN_COST_PER_BYTE * size)
        if self._admission is None:
            self._handle(key, request, context, size)
            return
        admitting = self._admission.admit(key, request, context, self._metadata.image)
        try:
            next(admitting)
        except StopIteration as end:
            if end.value is not None:
                self._handle(key, request, end.value, size)
            return
        context.connection.suspend()
        task = self._tasks.start(self._admit_in_portions(admitting, key, request, context, size), key.camel_name)
        context.reply.hold(WAITING_BYTES + WAITING_BYTES_PER_BYTE * size, task.cancel)

    def _decoded(self, key: ApiKey, frame: Buffer, position: int, context: RequestContext) -> Message:
        most = max(context.elements_max, self._elements_max[key])
        request, _ = decode(key.request_class, context.version, frame, position, most)
        return request

    async def _call_later(self, key: ApiKey, frame: bytes, position: int, context: RequestContext) -> None:
        """A long request waits for memory, and has a turn of its own, so that small ones do not wait for many of these.

        Meanwhile its connection handles nothing: requests of a client begin in order.
        """
        async with self._memory[key].share(DECODED_BYTES_PER_BYTE * len(frame)) as share:
            context.may_wait_for_controller = partial(share.move_to, self._long_memory)
            admitted: RequestContext | None = context
            try:
                if len(frame) > LONG:
                    await context.connection.wait_for_turn()
                request = self._decoded(key, frame, position, context)
                if self._admission is not None:
                    admitting = self._admission.admit(key, request, context, self._metadata.image)
                    admitted = await _in_portions(admitting, context)
                if admitted is None:
                    return
                waiting = self._waiting.get(key)
                if waiting is None:
                    rest = self._handle(key, request, admitted, len(frame))
                    self.on_read_event_end()
                    if rest is not None:
                        await rest
                    return
                task = self._tasks.start(self._wait(waiting, request, admitted), key.camel_name)
            except WireError as error:
                context.connection.close(str(error))
                return
            except Exception as error:
                self._on_bug(key, context, error)
                return
            finally:
                context.connection.resume()
            await task

    async def _admit_in_portions(
        self,
        admitting: Generator[None, None, RequestContext | None],
        key: ApiKey,
        request: Message,
        context: RequestContext,
        size: int,
    ) -> None:
        """Meanwhile the connection handles nothing: requests of a client are handled in order."""
        try:
            admitted = await _in_portions(admitting, context)
            if admitted is not None:
                self._handle(key, request, admitted, size)
                self.on_read_event_end()
        except Exception as error:
            self._on_bug(key, context, error)
        finally:
            context.connection.resume()

    @staticmethod
    def _on_bug(key: ApiKey, context: RequestContext, error: Exception) -> None:
        """What one client asks must not stop the node for all others."""
        log.error("a request failed", api=key.camel_name, why=one_line(error), exc_info=error)
        context.connection.close()

    def _handle(
        self, key: ApiKey, request: Message, context: RequestContext, size: int
    ) -> Coroutine[None, None, None] | None:
        """What is left to do, if it is too much for a turn."""
        plain = self._plain.get(key)
        if plain is not None:
            response = plain(request, context)
            if isinstance(response, Coroutine):
                assert size > LONG, f"a short {key.camel_name} is handled at once"
                return response
            if response is not None:
                body = context.encoded(response)
                context.connection.spend(PLAIN_COST_PER_BYTE * len(body))
                context.send_body(body)
            return None
        task = self._tasks.start(self._wait(self._waiting[key], request, context), key.camel_name)
        context.reply.hold(WAITING_BYTES + WAITING_BYTES_PER_BYTE * size, task.cancel)
        return None

    async def _wait(self, handler: Handler, request: Message, context: RequestContext) -> None:
        try:
            async with self._places[ApiKey(context.api_key)].one(context.connection):
                response = await handler(request, context)
            if response is not None:
                context.send(response)
        except Exception as error:
            self._on_bug(ApiKey(context.api_key), context, error)
        finally:
            if not context.reply.is_answered:  # the handler failed: better no connection than no answer
                context.connection.close()

    def _answer_api_versions(
        self, connection: Connection, frame: memoryview, position: int, version: int, correlation_id: int
    ) -> None:
        reply = connection.open_reply(self._requests_for_versions)
        reply.send([self._api_versions.answer(frame, position, version, correlation_id)])


async def _in_portions(
    admitting: Generator[None, None, RequestContext | None], context: RequestContext
) -> RequestContext | None:
    """What it returns, after as many turns as it takes."""
    while True:
        await context.connection.wait_for_turn()
        try:
            next(admitting)
        except StopIteration as end:
            admitted: RequestContext | None = end.value
            return admitted


def _is_login(connection: Connection, key: int) -> bool:
    """Of who is not in yet. It counts for nobody: a stranger may call itself by anybody's client id."""
    return key in AUTHENTICATION and connection.is_stranger
