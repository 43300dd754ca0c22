from __future__ import annotations

import ast
import asyncio
import errno
import inspect
from pathlib import Path

import pytest
from broker_node import eventually, in_time

import minikafka.broker
from minikafka.broker import backoff
from minikafka.broker.node import Node
from minikafka.broker.supervision import supervised
from minikafka.errors import ErrorCode, KafkaError

NO_DESCRIPTOR = OSError(errno.EMFILE, "Too many open files")


class Loop:
    """Fails as it is told to, then runs for ever."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.begun = 0
        self.running = asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        if self.failures:
            raise self.failures.pop(0)
        self.running.set()
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 0.0)


async def test_what_the_world_does_to_a_loop_it_outlives() -> None:
    loop = Loop(NO_DESCRIPTOR, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone"), NO_DESCRIPTOR)
    task = asyncio.get_running_loop().create_task(supervised(loop.run, "loop"))
    await in_time(loop.running.wait())
    assert loop.begun == 4
    task.cancel()


async def test_a_bug_ends_a_supervised_task() -> None:
    loop = Loop(NO_DESCRIPTOR, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await in_time(supervised(loop.run, "loop"))
    assert loop.begun == 2


async def test_a_loop_that_is_over_is_over() -> None:
    async def end() -> None:
        """As a lifecycle does when the node stops."""

    await in_time(supervised(end, "loop"))


@pytest.mark.parametrize(
    "name", ["controller", "isr", "directories", "moves", "synced topics", "snapshots", "lifecycle"]
)
async def test_the_loops_of_a_node_are_supervised(node: Node, name: str) -> None:
    (task,) = [task for task in node.tasks._tasks if task.get_name().endswith(f":{name}")]
    assert inspect.getcoroutinelocals(task.get_coro())["name"] == name  # type: ignore[arg-type]


async def test_a_node_whose_loop_meets_a_bug_stops(node: Node) -> None:
    loop = Loop(NO_DESCRIPTOR, ZeroDivisionError())
    node._start_supervised(loop.run, "loop")
    await eventually(node.stopped.is_set, "the node to stop")
    assert isinstance(node.failure, ZeroDivisionError)


def test_no_loop_of_a_node_is_started_without_supervision() -> None:
    """``run``, ``serve`` and ``*_forever`` do not end by themselves: started as tasks, they are supervised or fatal."""
    package = Path(minikafka.broker.__file__).parent
    bare = {
        f"{path.relative_to(package)}: {ast.unparse(call)}"
        for path in package.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("tasks.start")
        if isinstance(call.args[0], ast.Call)
        if ast.unparse(call.args[0].func).endswith((".run", ".serve", "_forever"))
    }
    assert bare == set()
