"""Clients are kept for those who need one next, as long as they are sound."""

from __future__ import annotations

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.spark.pool import IDLE_MAX, Pool


class Client:
    def __init__(self, made: list[Client], failures: list[KafkaError]) -> None:
        self.is_open = False
        self._failures = failures
        made.append(self)

    async def start(self) -> None:
        if self._failures:
            raise self._failures.pop()
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False


@pytest.fixture
def made() -> list[Client]:
    return []


@pytest.fixture
def failures() -> list[KafkaError]:
    return []


@pytest.fixture
def pool(made: list[Client], failures: list[KafkaError]) -> Pool[Client]:
    return Pool(lambda: Client(made, failures), connect_timeout_s=5)


async def test_a_client_is_used_again(pool: Pool[Client], made: list[Client]) -> None:
    for _ in range(3):
        async with pool.borrowed() as client:
            assert client.is_open
    assert len(made) == 1
    first, second = await pool.borrow(), await pool.borrow()
    assert first is not second
    await pool.give_back(first)
    assert await pool.borrow() is first


async def test_a_client_is_not_used_again_after_an_error(pool: Pool[Client], made: list[Client]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with pool.borrowed():
            raise ZeroDivisionError
    assert not made[0].is_open
    assert await pool.borrow() is not made[0]


async def test_a_pool_keeps_few_idle_clients_and_closes_the_rest(pool: Pool[Client], made: list[Client]) -> None:
    for client in [await pool.borrow() for _ in range(IDLE_MAX + 2)]:
        await pool.give_back(client)
    assert sum(client.is_open for client in made) == IDLE_MAX
    await pool.close_idle()
    assert not any(client.is_open for client in made)


async def test_in_the_end_all_are_closed(pool: Pool[Client], made: list[Client]) -> None:
    lent, given_back, forgotten = [await pool.borrow() for _ in range(3)]
    await pool.give_back(given_back)
    pool.forget(forgotten)
    await pool.close_idle()
    assert [client.is_open for client in (lent, given_back, forgotten)] == [True, False, True]
    await pool.close()
    assert [client.is_open for client in (lent, given_back, forgotten)] == [False, False, True]


async def test_connecting_is_tried_again(pool: Pool[Client], made: list[Client], failures: list[KafkaError]) -> None:
    failures += [KafkaError(ErrorCode.NETWORK_EXCEPTION, "not yet")] * 2
    assert (await pool.borrow()).is_open
    assert len(made) == 3
    failures.append(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "never"))
    with pytest.raises(KafkaError, match="never"):
        await pool.borrow()
