"""A small HTTP listener for GET: one request a connection, each answered and closed.

For metrics and health checks, on a port that strangers may reach. Bounds: connections, bytes of a request's head, time
until the head is there, time until the answer is taken. When it is full a newcomer takes the place of the connection
that has waited longest for its head: slow clients keep no other out. Malformed requests get 400 or no answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from minikafka.event_log import get_logger
from minikafka.model import Endpoint
from minikafka.net.listener import bind
from minikafka.net.tasks import TaskOwner

log = get_logger()

CONNECTIONS_MAX: Final = 32
HEAD_BYTES_MAX: Final = 8 * 1024
HEAD_DEADLINE_S: Final = 5.0
ANSWER_DEADLINE_S: Final = 30.0
TEXT: Final = "text/plain; charset=utf-8"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) (/[!-~]*) HTTP/1\.[01]")


class Answer(NamedTuple):
    """Status, body, type of the body."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


Route = Callable[[], Awaitable[Answer]]


class Request(NamedTuple):
    """A parsed request line."""

    method: str
    path: str


def parse_head(head: bytes) -> Request | None:
    """Method and path without the query; None for a malformed request. Headers are ignored."""
    match = _REQUEST_LINE.fullmatch(head.partition(b"\r\n")[0])
    if match is None:
        return None
    return Request(match[1].decode(), match[2].decode().partition("?")[0])


def head_of(answer: Answer) -> bytes:
    """Status line and headers of an answer."""
    return (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


def refuse(status: HTTPStatus, why: str) -> Answer:
    """An error with its reason."""
    return Answer(status, f"{why}\n".encode())


class HttpListener:
    """A listening socket and the requests under way on it."""

    def __init__(self, name: str, endpoint: Endpoint, routes: Mapping[str, Route], tasks: TaskOwner) -> None:
        """``routes``: what answers a GET, by path."""
        self.name = name
        self.endpoint = endpoint
        self._routes = routes
        self._tasks = tasks
        self._server: asyncio.Server | None = None
        self._waiting: dict[asyncio.StreamWriter, None] = {}  # for their heads; ordered sets, oldest first
        self._answering: dict[asyncio.StreamWriter, None] = {}

    async def bind(self) -> None:
        """Take the address; port 0 becomes the one that was given. OSError naming the address when it is taken."""
        self._server = await bind(self.name, self.endpoint, self._protocol)
        self.endpoint = Endpoint(self.endpoint.host, self._server.sockets[0].getsockname()[1])

    async def serve(self) -> None:
        """Accept connections from now on."""
        assert self._server is not None, "bind comes first"
        await self._server.start_serving()

    async def close(self) -> None:
        """Stop accepting and close every connection."""
        if self._server is not None:
            self._server.close()
        for writer in (*self._waiting, *self._answering):
            writer.transport.abort()

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=HEAD_BYTES_MAX), self._accept)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tasks.is_closed or not self._make_room():
            writer.transport.abort()
            return
        self._waiting[writer] = None
        self._tasks.start(self._serve(reader, writer), f"{self.name} request")

    def _make_room(self) -> bool:
        """False when all places are taken by requests that are being answered."""
        if len(self._waiting) + len(self._answering) < CONNECTIONS_MAX:
            return True
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        oldest.transport.abort()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_DEADLINE_S):
                head = await _read_head(reader)
            if head is None or writer not in self._waiting:
                return  # it left, or was replaced
            del self._waiting[writer]
            self._answering[writer] = None
            async with asyncio.timeout(ANSWER_DEADLINE_S):
                await self._answer(head, writer)
        except (TimeoutError, OSError):
            pass  # the peer is too slow, or gone: closing is all there is to do
        except Exception as error:  # a bug, and what a stranger asks must not stop the node
            self._note_failure(error)
        finally:
            self._waiting.pop(writer, None)
            self._answering.pop(writer, None)
            writer.transport.abort()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        request = parse_head(head)
        answer = await self._find_answer(request)
        if writer.transport.is_closing():
            return  # the peer left meanwhile, or the listener closes
        has_body = request is None or request.method != "HEAD"
        writer.write(head_of(answer) + (answer.body if has_body else b""))
        writer.close()
        await writer.wait_closed()

    def _note_failure(self, error: Exception) -> None:
        log.error("HTTP request failed", listener=self.name, why=repr(error), exc_info=error)

    async def _find_answer(self, request: Request | None) -> Answer:
        if request is None:
            return refuse(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1")
        route = self._routes.get(request.path)
        if route is None:
            return refuse(HTTPStatus.NOT_FOUND, f"not found; there are {', '.join(self._routes)}")
        if request.method not in ("GET", "HEAD"):
            return refuse(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served")
        try:
            return await route()
        except Exception as error:  # a bug
            self._note_failure(error)
            return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the node's log says why")


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """Request line and headers; empty when they are too long; None when the peer left before they were complete."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""
    except asyncio.IncompleteReadError:
        return None
