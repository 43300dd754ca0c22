from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence

import pytest
from broker_node import eventually, turns

from minikafka.broker.drivers import commits as commits_module
from minikafka.broker.drivers.commits import Commits, UnreadableYetError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch
from minikafka.storage.errors import PassingFailure


class Slow:
    """Applies one record in a portion."""

    def __init__(self) -> None:
        self.applied_offset = 0
        self.high_watermark = 0
        self.error: Exception | None = None

    def commit(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark

    def install(self, values: Sequence[bytes], snapshot_id: OffsetAndEpoch) -> None:
        self.applied_offset = snapshot_id.offset - 1
        self.high_watermark = snapshot_id.offset

    def apply_portion(self) -> bool:
        if self.error is not None:
            raise self.error
        self.applied_offset = min(self.applied_offset + 1, self.high_watermark)
        return self.applied_offset < self.high_watermark


@pytest.fixture
def state() -> Slow:
    return Slow()


@pytest.fixture
async def commits(state: Slow) -> AsyncIterator[Commits]:
    made = Commits(state)
    task = asyncio.get_running_loop().create_task(made.run())
    await turns()
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_a_few_records_are_applied_at_once(commits: Commits, state: Slow) -> None:
    commits.commit(1)
    assert state.applied_offset == 1
    await commits.wait_for(1)


async def test_more_are_applied_beside_and_whoever_proposed_them_is_told(commits: Commits, state: Slow) -> None:
    told: dict[int, int] = {}  # what was applied by then

    async def propose(offset: int) -> None:
        await commits.wait_for(offset)
        told[offset] = state.applied_offset

    async with asyncio.TaskGroup() as proposals:
        for offset in (1, 5, 9):
            proposals.create_task(propose(offset))
        await turns()
        commits.commit(9)
        assert state.applied_offset == 1
        commits.commit(10)
        assert state.applied_offset == 1, "the task goes on from there"
    assert told[5] < 9, "not only when all are applied"
    await eventually(lambda: state.applied_offset == 10, "the rest")
    await turns()
    commits.commit(11)
    assert state.applied_offset == 11, "at once again"


async def test_nothing_is_applied_while_the_log_is_cut(commits: Commits, state: Slow) -> None:
    commits.commit(5)
    async with commits.uncut:
        reached = state.applied_offset
        await turns(10)
        assert state.applied_offset == reached
    await eventually(lambda: state.applied_offset == 5, "the rest")


async def test_a_snapshot_is_loaded_beside(commits: Commits, state: Slow) -> None:
    waiting = asyncio.get_running_loop().create_task(commits.wait_for(7))
    await turns()
    commits.install([], OffsetAndEpoch(7, 1))
    await eventually(waiting.done, "the snapshot")


async def test_what_cannot_be_read_for_want_of_something_is_read_again(
    commits: Commits, state: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "PAUSE_S", 0.0)
    state.error = UnreadableYetError("too many open files")
    commits.commit(3)
    await turns(10)
    state.error = None
    await eventually(lambda: state.applied_offset == 3, "the records")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "input/output error"),
        OSError(errno.EMFILE, "too many open files"),
        PassingFailure("could not unmark the log of orders-0: too many open files"),
    ],
    ids=["disk", "descriptors", "subscriber"],
)
async def test_any_other_failure_is_not_survived(state: Slow, error: Exception) -> None:
    commits = Commits(state)
    commits.install([], OffsetAndEpoch(7, 1))
    state.error = error
    with pytest.raises(type(error)):
        await commits.run()
    with pytest.raises(type(error)):
        Commits(state).commit(8)


async def test_a_lost_leadership_leaves_proposals_unknown(commits: Commits) -> None:
    waiting = asyncio.get_running_loop().create_task(commits.wait_for(1))
    await turns()
    commits.fail()
    with pytest.raises(KafkaError) as refused:
        await waiting
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
