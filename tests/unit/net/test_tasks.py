from __future__ import annotations

import asyncio

import pytest
from net_peers import turns

from minikafka.net.tasks import TaskOwner


class Failures:
    def __init__(self) -> None:
        self.seen: list[tuple[str, BaseException]] = []

    def __call__(self, name: str, error: BaseException) -> None:
        self.seen.append((name, error))


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def owner(failures: Failures) -> TaskOwner:
    return TaskOwner("owner", failures)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_failure_is_reported_under_the_tasks_name(owner: TaskOwner, failures: Failures) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    owner.start(fail(), "division")
    await turns()
    assert [(name, type(error)) for name, error in failures.seen] == [("owner:division", ZeroDivisionError)]
    assert len(owner) == 0


async def test_results_and_cancellations_are_no_failures(owner: TaskOwner, failures: Failures) -> None:
    async def answer() -> int:
        return 42

    cancelled = owner.start(forever(), "cancelled")
    assert await owner.start(answer(), "answer") == 42
    cancelled.cancel()
    await turns()
    assert not failures.seen
    assert len(owner) == 0


async def test_closing_cancels_and_awaits_the_end(owner: TaskOwner, failures: Failures) -> None:
    ended: list[str] = []

    async def slow_to_end() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.001)
            ended.append("cleaned up")

    async def fails_at_its_end() -> None:
        try:
            await forever()
        finally:
            raise ZeroDivisionError

    owner.start(slow_to_end(), "slow")
    owner.start(fails_at_its_end(), "bad end")
    await turns()
    assert len(owner) == 2
    await owner.close()
    assert ended == ["cleaned up"]
    assert [name for name, _ in failures.seen] == ["owner:bad end"]
    assert len(owner) == 0


async def test_a_task_may_close_its_owner(owner: TaskOwner) -> None:
    other = owner.start(forever(), "other")

    async def close() -> str:
        await owner.close()
        return "closed"

    assert await owner.start(close(), "closer") == "closed"
    assert other.cancelled()


async def test_after_the_end_nothing_is_started(owner: TaskOwner) -> None:
    await owner.close()
    ran: list[int] = []

    async def late() -> None:
        ran.append(1)

    with pytest.raises(RuntimeError, match="owner is closed and cannot start late"):
        owner.start(late(), "late")
    await turns()
    assert not ran
