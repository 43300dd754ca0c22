"""An event loop in a thread of its own, for synchronous callers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

import uvloop

from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.tasks import TaskOwner

T = TypeVar("T")

END_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


class LoopThread:
    """Runs coroutines for any number of threads, until ``close``. Its thread is a daemon: it keeps no process alive."""

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._tasks = TaskOwner(name, _complain)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T], *, timeout_s: float, doing: str) -> T:
        """Wait for ``coroutine``; its result or exception. Raises KafkaError(REQUEST_TIMED_OUT) after ``timeout_s``."""
        assert threading.current_thread() is not self._thread, "a loop that waits for itself waits for ever"
        bounded = _bounded(coroutine, timeout_s, doing)
        try:
            future = asyncio.run_coroutine_threadsafe(bounded, self._loop)
        except RuntimeError:
            bounded.close()
            coroutine.close()
            raise _closed() from None
        try:
            return future.result(timeout_s + END_TIMEOUT_S)  # _bounded's time-out is first, unless the loop ended
        except CancelledError:
            raise _closed() from None
        except TimeoutError:
            if future.done():
                raise
            raise _closed() from None
        finally:
            future.cancel()  # has an effect only after an interruption, such as KeyboardInterrupt

    def post(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start ``coroutine`` and return at once, from any thread. A closed loop drops it."""
        try:
            self._loop.call_soon_threadsafe(self._start, coroutine)
        except RuntimeError:
            coroutine.close()

    def close(self) -> None:
        """Cancel all coroutines, then end the thread."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_TIMEOUT_S)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        await self._tasks.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self._tasks.is_closed:
            coroutine.close()
        else:
            self._tasks.start(coroutine, "posted")


async def _bounded(coroutine: Coroutine[Any, Any, T], timeout_s: float, doing: str) -> T:
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await coroutine
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"{doing} timed out after {timeout_s:g} s"
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from None


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, "the client is closed, because this process is ending")


def _complain(name: str, error: BaseException) -> None:
    _log.warning("%s failed: %s", name, error)
