"""A process of the simulation is an event loop that asyncio's own parts cannot tell from theirs."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from simulator.killed import Killed
from simulator.loop import DEFAULT_THREADS, Process, Simulator

World = Any


# -- time -------------------------------------------------------------------------------------------------------------


def test_virtual_time_passes_at_once(world: World) -> None:
    began = time.monotonic()
    world.run(asyncio.sleep(100_000), limit_s=1e6)
    assert world.simulator.now >= 100_000
    assert time.monotonic() - began < 60


def test_timers_fire_in_order_and_not_before_their_time(world: World) -> None:
    fired: list[tuple[str, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for delay_s in (0.3, 0.1, 0.2):
            loop.call_later(delay_s, lambda d=delay_s: fired.append((str(d), loop.time())))
        cancelled = loop.call_later(0.15, lambda: fired.append(("cancelled", 0.0)))
        cancelled.cancel()
        await asyncio.sleep(1)

    world.run(main())
    assert [name for name, _ in fired] == ["0.1", "0.2", "0.3"]
    assert all(at >= float(name) for name, at in fired)


def test_callbacks_of_one_process_run_first_in_first_out(world: World) -> None:
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(100):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(0.1)

    world.run(main())
    assert seen == list(range(100))


def test_running_code_finds_its_own_loop(world: World) -> None:
    async def who() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert world.run(who(), world.a) is world.a
    assert world.run(who(), world.b) is world.b
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


# -- asyncio's own parts ----------------------------------------------------------------------------------------------


def test_timeouts_and_cancellation(world: World) -> None:
    async def main() -> list[str]:
        seen = []
        try:
            async with asyncio.timeout(0.5):
                await asyncio.sleep(10)
        except TimeoutError:
            seen.append("timed out")
        task = asyncio.get_running_loop().create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            seen.append("cancelled")
        return seen

    assert world.run(main()) == ["timed out", "cancelled"]
    assert world.simulator.now < 1


def test_locks_events_queues_and_gather(world: World) -> None:
    async def main() -> list[int]:
        lock, event, queue = asyncio.Lock(), asyncio.Event(), asyncio.Queue[int](maxsize=1)
        taken: list[int] = []

        async def produce() -> None:
            for number in range(5):
                await queue.put(number)
            event.set()

        async def consume() -> None:
            for _ in range(5):
                async with lock:
                    taken.append(await queue.get())

        await asyncio.gather(produce(), consume())
        await event.wait()
        done, pending = await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0.1))})
        assert (len(done), len(pending)) == (1, 0)
        return taken

    assert world.run(main()) == [0, 1, 2, 3, 4]


def test_threads_take_time_and_hand_over_results_and_errors(world: World) -> None:
    async def main() -> tuple[int, str, float]:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(None, lambda: 7)
        try:
            await loop.run_in_executor(None, lambda: 1 // 0)
        except ZeroDivisionError as error:
            return result, str(error), loop.time()
        raise AssertionError

    result, error, now = world.run(main())
    assert (result, "division" in error) == (7, True)
    assert now > 0


def test_a_job_that_spends_time_lets_everything_else_happen(world: World) -> None:
    seen: list[tuple[str, int]] = []

    def job(name: str) -> str:
        for turn in range(3):
            seen.append((name, turn))
            world.a.spend(1.0)
        return name

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(None, job, name) for name in ("x", "y")]
        await asyncio.sleep(1.5)
        seen.append(("loop", 1))
        return list(await asyncio.gather(*jobs))

    assert world.run(main()) == ["x", "y"]
    assert sorted(seen[:2]) == [("x", 0), ("y", 0)]
    assert sorted(seen[2:4]) == [("x", 1), ("y", 1)]
    assert seen[4] == ("loop", 1)
    assert 3 <= world.simulator.now < 3.1


def test_a_slow_machine_waits_no_longer_for_its_disk(world: World) -> None:
    """Two hundred times a slow sync would be longer than any cluster is given to become whole."""

    async def main() -> float:
        world.a.slowness = 200.0
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, world.a.spend, 1.0)
        return loop.time()

    assert 1.0 < world.run(main()) < 1.1


def test_a_pool_runs_as_many_jobs_as_it_has_threads(world: World) -> None:
    running: list[int] = []
    most: list[int] = []

    def job() -> None:
        running.append(1)
        most.append(len(running))
        world.a.spend(1.0)
        running.pop()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(2) as pool, ThreadPoolExecutor(1) as other:
            jobs = [loop.run_in_executor(pool, job) for _ in range(5)]
            await loop.run_in_executor(other, lambda: 1)  # does not wait for those
            assert loop.time() < 0.1
            await asyncio.gather(*jobs)
        with pytest.raises(RuntimeError, match="after shutdown"):
            await loop.run_in_executor(pool, job)

    world.run(main())
    assert max(most) == 2
    assert 3 <= world.simulator.now < 3.1


def test_a_killed_process_ends_in_the_middle_of_its_jobs(world: World) -> None:
    seen: list[str] = []

    def job() -> None:
        seen.append("began")
        world.a.spend(1.0)
        seen.append("ended")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, job) for _ in range(10)))

    world.a.spawn(main())
    world.simulator.run(0.5)
    assert seen == ["began"] * DEFAULT_THREADS
    world.a.kill()
    world.simulator.run(10)
    assert seen == ["began"] * DEFAULT_THREADS


def test_a_process_that_kills_itself_in_a_job_ends_there(world: World) -> None:
    seen: list[str] = []

    def fatal() -> None:
        world.a.kill()
        raise Killed

    def job() -> None:
        world.a.spend(1.0)
        seen.append("ended")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(loop.run_in_executor(None, job), loop.run_in_executor(None, fatal))

    task = world.a.spawn(main())
    world.simulator.run(10)
    assert not seen
    assert not task.done()


def test_a_job_of_a_paused_process_waits(world: World) -> None:
    def job() -> float:
        world.a.spend(1.0)
        return float(world.simulator.now)

    async def main() -> float:
        return await asyncio.get_running_loop().run_in_executor(None, job)

    task = world.a.spawn(main())
    world.simulator.run(0.5)
    world.a.pause()
    world.simulator.run(20)
    world.a.resume()
    assert 20 <= world.simulator.run_until_done(task, 10) < 20.1


def test_what_waits_on_the_loop_holds_it_up(world: World) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        world.a.spend(0.7)
        assert loop.time() == 0
        await asyncio.sleep(0)
        return loop.time()

    assert 0.7 <= world.run(main()) < 0.71


def test_a_thread_has_no_running_loop(world: World) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, asyncio.get_running_loop)

    with pytest.raises(RuntimeError, match="no running event loop"):
        world.run(main())


def test_what_nobody_caught_is_collected(world: World) -> None:
    def fail() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0.1)

    world.run(main())
    assert [str(context["exception"]) for context in world.a.unhandled] == ["a bug"]


# -- what is done to processes ----------------------------------------------------------------------------------------


def test_nothing_of_a_killed_process_runs(world: World) -> None:
    seen: list[str] = []

    async def main() -> None:
        try:
            while True:
                seen.append("turn")
                await asyncio.sleep(0.1)
        finally:
            seen.append("finally")

    world.a.spawn(main())
    world.simulator.run(1.05)
    world.a.kill()
    world.simulator.run(10)
    gc.collect()
    assert set(seen) == {"turn"}
    assert len(seen) == 11


def test_what_was_just_about_to_run_does_not_end_in_order_either(world: World) -> None:
    """A task that was woken is held by nothing but the wake-up, which a kill drops."""
    seen: list[str] = []

    async def main(woken: asyncio.Future[None]) -> None:
        try:
            await woken
        finally:
            seen.append("finally")

    futures: list[asyncio.Future[None]] = [world.a.create_future()]
    world.a.spawn(main(futures[0]))
    world.simulator.run(1)
    world.a.enter(lambda: futures.pop().set_result(None))
    world.a.kill()
    gc.collect()
    assert not seen


def test_a_process_may_be_killed_in_the_middle_of_a_turn(world: World) -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(world.a.kill)
        loop.call_soon(seen.append, "after")
        await asyncio.sleep(0)
        seen.append("task")

    world.a.spawn(main())
    world.simulator.run(1)
    assert not seen


def test_a_paused_process_goes_on_where_it_was(world: World) -> None:
    async def main() -> tuple[float, int]:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        job = await asyncio.get_running_loop().run_in_executor(None, lambda: 5)
        return asyncio.get_running_loop().time() - began, job

    task = world.a.spawn(main())
    world.simulator.run(0.5)
    world.a.pause()
    world.simulator.run(30)
    assert not task.done()
    world.a.resume()
    took_s, job = world.simulator.run_until_done(task, 10)
    assert (job, 29 < took_s < 31) == (5, True)


def test_a_slow_process_takes_longer(world: World) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(1000):
            await asyncio.sleep(0)
        return loop.time() - began

    quick = world.run(main(), world.a)
    world.b.slowness = 100.0
    assert world.run(main(), world.b) > 50 * quick


# -- determinism ------------------------------------------------------------------------------------------------------


def busy(seed: int, make_world: Callable[[int], World]) -> tuple[int, list[str]]:
    world = make_world(seed)
    order: list[str] = []

    async def main(process: Process) -> None:
        for _ in range(20):
            await asyncio.sleep(world.simulator.rng.random() / 1000)
            order.append(process.host)

    for process in (world.a, world.b):
        process.spawn(main(process))
    world.simulator.run(1)
    return world.simulator.fingerprint, order


def test_the_same_seed_is_the_same_run_and_another_is_another(make_world: Callable[[int], World]) -> None:
    assert busy(1, make_world) == busy(1, make_world)
    assert busy(1, make_world) != busy(2, make_world)


def test_waiting_for_what_will_never_happen_is_an_error() -> None:
    simulator = Simulator(1)
    with pytest.raises(AssertionError, match="nothing will ever complete"):
        simulator.run_until_done(asyncio.Future(loop=asyncio.new_event_loop()), 1)
