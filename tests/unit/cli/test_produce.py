"""What ``minikafka produce`` does once a record failed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import IO, Any, Self

import pytest

from minikafka.cli.produce import _produce, _Tally
from minikafka.errors import ErrorCode, KafkaError


class Failing:
    """A producer whose second record fails. It counts what it was asked."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code
        self.sent = self.flushed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, _topic: str, _value: bytes, **_how: Any) -> asyncio.Future[None]:
        self.sent += 1
        delivery = asyncio.get_running_loop().create_future()
        if self.sent == 2:
            delivery.set_exception(KafkaError(self._code, "no"))
        await asyncio.sleep(0)
        return delivery

    async def flush(self) -> None:
        self.flushed += 1


@pytest.fixture
def lines() -> Iterator[IO[bytes]]:
    """As many as a pipe holds, whose writer goes on to hold it."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"line\n" * 1000)
    with os.fdopen(read_end, "rb") as file:
        yield file
    os.close(write_end)


@pytest.mark.parametrize(("code", "flushed"), [(ErrorCode.REQUEST_TIMED_OUT, 0), (ErrorCode.MESSAGE_TOO_LARGE, 1)])
async def test_a_failed_record_ends_it_and_the_others_are_awaited_only_where_they_may_pass(
    lines: IO[bytes], code: ErrorCode, flushed: int
) -> None:
    producer, tally = Failing(code), _Tally()
    with pytest.raises(KafkaError, match="line 2 was not written: no"):
        await _produce(producer, "events", lines, None, tally, False, None)  # type: ignore[arg-type]
    assert producer.sent < 5
    assert producer.flushed == flushed
