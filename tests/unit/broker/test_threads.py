from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from broker_node import in_time

import minikafka.broker
from minikafka.broker.node import Node
from minikafka.broker.threads import READ_THREADS, SYNC_THREADS, UPKEEP_THREADS, Threads

OFF_THE_LOOP = {"run_in_executor", "to_thread", "set_default_executor"}


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    made = Threads(asyncio.get_running_loop())
    yield made
    made.close()


@pytest.mark.parametrize("busy", ["sync", "read", "upkeep"])
async def test_votes_wait_for_no_other_work(threads: Threads, busy: str) -> None:
    gate = threading.Event()
    jobs = [getattr(threads, busy)(gate.wait) for _ in range(100)]
    try:
        assert await in_time(threads.metadata(lambda: "written")) == "written"
    finally:
        gate.set()
    await in_time(asyncio.gather(*jobs))


async def test_a_name_is_looked_up_while_every_other_thread_is_busy(node: Node) -> None:
    gate = threading.Event()
    threads = node.threads
    purposes: tuple[Callable[[Callable[[], Any]], Any], ...] = (threads.sync, threads.read, threads.upkeep)
    jobs = [purpose(gate.wait) for purpose in purposes for _ in range(40)]
    try:
        assert await in_time(asyncio.get_running_loop().getaddrinfo("localhost", 9092))
    finally:
        gate.set()
    await in_time(asyncio.gather(*jobs))


async def test_the_metadata_log_has_one_thread_and_keeps_the_order(threads: Threads) -> None:
    done: list[tuple[int, str]] = []
    await asyncio.gather(
        *(threads.metadata(lambda i=i: done.append((i, threading.current_thread().name))) for i in range(20))
    )
    assert [number for number, _ in done] == list(range(20))
    assert {name for _, name in done} == {"metadata_0"}


@pytest.mark.parametrize(
    ("purpose", "size"), [("sync", SYNC_THREADS), ("read", READ_THREADS), ("upkeep", UPKEEP_THREADS)]
)
async def test_a_pool_is_bounded_and_its_threads_are_named(threads: Threads, purpose: str, size: int) -> None:
    everyone = threading.Barrier(size + 1)
    run = getattr(threads, purpose)
    names: set[str] = set()

    def work() -> None:
        names.add(threading.current_thread().name)
        everyone.wait()

    jobs = [run(work) for _ in range(size)]
    queued = run(lambda: names.add("queued"))
    await asyncio.get_running_loop().run_in_executor(None, everyone.wait)
    await in_time(asyncio.gather(*jobs, queued))
    assert names == {f"{purpose}_{number}" for number in range(size)} | {"queued"}


async def test_what_a_job_raises_reaches_who_asked(threads: Threads) -> None:
    def fail() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await in_time(threads.sync(fail))


async def test_nothing_begins_after_close(threads: Threads) -> None:
    threads.close()
    with pytest.raises(RuntimeError):
        await threads.sync(lambda: None)


def test_the_default_executor_is_left_to_name_look_ups() -> None:
    package = Path(minikafka.broker.__file__).parent.parent
    found = {
        str(path.relative_to(package))
        for part in ("broker", "net", "storage", "raft", "groups", "replication")
        for path in (package / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in OFF_THE_LOOP
    }
    assert found == {"broker/threads.py"}
