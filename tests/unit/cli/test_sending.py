"""What ``minikafka produce`` does once a record failed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, Self

import pytest

from minikafka.cli.record_input import LineForm
from minikafka.cli.sending import Sending, Tally, Transactions
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
    producer, tally = Failing(code), Tally()
    with pytest.raises(KafkaError, match="line 2 was not written: no"):
        await Sending(producer, "events", lines, LineForm().parse, tally).run(False)  # type: ignore[arg-type]
    assert producer.sent < 5
    assert producer.flushed == flushed


class Transactional:
    """A producer that notes which records were committed together. Its 23rd record fails, if it gets so far."""

    def __init__(self) -> None:
        self.committed: list[list[bytes]] = []
        self.aborted: list[list[bytes]] = []
        self._open: list[bytes] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self._open = []
        try:
            yield
        except BaseException:
            self.aborted.append(self._open)
            raise
        self.committed.append(self._open)

    async def send(self, _topic: str, value: bytes, **_how: Any) -> asyncio.Future[None]:
        self._open.append(value)
        delivery = asyncio.get_running_loop().create_future()
        if value == b"23":
            delivery.set_exception(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "no"))
        else:
            delivery.set_result(None)
        await asyncio.sleep(0)
        return delivery

    async def flush(self) -> None:
        await asyncio.sleep(0)


async def send_in_transactions(tmp_path: Path, count: int, every: int | None) -> Transactional:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % n for n in range(1, count + 1)))
    producer, tally = Transactional(), Tally()
    with path.open("rb") as file:
        sending = Sending(producer, "events", file, LineForm().parse, tally)  # type: ignore[arg-type]
        transactions = Transactions(every)
        with suppress(KafkaError) if count >= 23 else nullcontext():
            await sending.run(False, transactions)
    assert transactions.committed == sum(map(len, producer.committed))
    return producer


@pytest.mark.parametrize(("every", "sizes"), [(None, [20]), (10, [10, 10]), (8, [8, 8, 4]), (50, [20])])
async def test_records_are_committed_together(tmp_path: Path, every: int | None, sizes: list[int]) -> None:
    producer = await send_in_transactions(tmp_path, 20, every)
    assert list(map(len, producer.committed)) == sizes
    assert [value for values in producer.committed for value in values] == [b"%d" % n for n in range(1, 21)]


@pytest.mark.parametrize(("every", "committed"), [(None, 0), (10, 20)])
async def test_a_failed_record_aborts_its_transaction(tmp_path: Path, every: int | None, committed: int) -> None:
    producer = await send_in_transactions(tmp_path, 30, every)
    assert sum(map(len, producer.committed)) == committed
    (aborted,) = producer.aborted
    assert b"23" in aborted


async def test_nothing_to_write_is_no_transaction(tmp_path: Path) -> None:
    producer = await send_in_transactions(tmp_path, 0, None)
    assert (producer.committed, producer.aborted) == ([], [])
