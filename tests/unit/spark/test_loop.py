"""Coroutines are run for callers that wait, and end with their loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.spark.loop import LoopThread


@pytest.fixture
def loop() -> LoopThread:
    return LoopThread("test")


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail() -> None:
    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "because")


def test_results_and_errors_come_back(loop: LoopThread) -> None:
    assert loop.call(answer(7), timeout_s=30, doing="it") == 7
    with pytest.raises(KafkaError, match="because"):
        loop.call(fail(), timeout_s=30, doing="it")
    loop.close()


def test_every_call_has_a_time_out(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            cancelled.set()

    with pytest.raises(KafkaError, match=r"asking in vain timed out after 0\.01 s") as raised:
        loop.call(hang(), timeout_s=0.01, doing="asking in vain")
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert cancelled.wait(30)
    loop.close()


def test_a_time_out_of_the_coroutine_itself_is_its_own(loop: LoopThread) -> None:
    async def time_out() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        loop.call(time_out(), timeout_s=30, doing="it")
    loop.close()


def test_what_is_posted_runs_by_itself(loop: LoopThread, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    async def work() -> None:
        done.set()

    loop.post(fail())
    loop.post(work())
    assert done.wait(30)
    loop.close()
    assert "because" in caplog.text


def test_closing_ends_what_runs_and_refuses_more(loop: LoopThread) -> None:
    ended = threading.Event()
    errors: list[BaseException] = []

    async def hang() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()

    def wait() -> None:
        try:
            loop.call(hang(), timeout_s=1000, doing="it")
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    loop.call(answer(1), timeout_s=30, doing="it")
    loop.close()
    waiting.join(30)
    assert ended.is_set()
    assert [type(error) for error in errors] == [KafkaError]
    with pytest.raises(KafkaError, match="the client is closed"):
        loop.call(answer(1), timeout_s=30, doing="it")
    loop.post(answer(1))  # type: ignore[arg-type]
    loop.close()


def test_a_loop_does_not_wait_for_itself(loop: LoopThread) -> None:
    inner = answer(1)

    async def nested() -> int:
        return loop.call(inner, timeout_s=30, doing="it")

    with pytest.raises(AssertionError, match="waits for itself"):
        loop.call(nested(), timeout_s=30, doing="it")
    loop.close()
    inner.close()
