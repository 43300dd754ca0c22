"""Virtual time for whole processes: a simulator, and for each process an asyncio event loop of its own.

Nothing here waits. :class:`Simulator` keeps every event that is to happen, in the order of virtual time, and jumps
from one to the next. A :class:`Process` is what runs on one machine: it has its own event loop, so what it schedules
is run first in, first out, as asyncio promises; which process runs next is decided by seeded randomness, and each turn
costs it a random bit of virtual time. A process can be paused (SIGSTOP) and killed: after :meth:`Process.kill` not one
more line of it runs, no ``finally`` block and no ``__del__`` that matters, because what it held is kept for good and
everything it could touch is dead.

All randomness comes from the simulator's ``rng``. The same seed gives the same trace: :attr:`Simulator.fingerprint`
is a checksum over every turn, message and disk operation, to compare two runs with.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack
from zlib import crc32

from simulator.killed import Killed
from simulator.threads import Job, Pool

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Event = tuple[float, float, int, Callable[[Any], None], Any]

CALLBACK_COST_S: Final = 20e-6
THREAD_START_S: Final = 100e-6
DEFAULT_THREADS: Final = 6
"""Of the executor that asyncio makes where none is given, on a machine of two cores."""


class Simulator:
    """The queue of everything that will happen. ``now`` is in virtual seconds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.fingerprint = 0
        self.turns = 0
        self.after_turn: Callable[[Process], None] = lambda process: None
        self._events: list[Event] = []
        self._count = 0

    def at(self, when: float, act: Callable[[Any], None], argument: Any = None, *, order: float | None = None) -> None:
        """Call ``act(argument)`` at ``when``. Events of one moment happen in random order, or by ``order``, from 0 to
        1: for those of another stream of randomness."""
        self._count += 1
        heapq.heappush(self._events, (when, self.rng.random() if order is None else order, self._count, act, argument))

    def after(
        self, delay_s: float, act: Callable[[Any], None], argument: Any = None, *, order: float | None = None
    ) -> None:
        """Call ``act(argument)`` when ``delay_s`` virtual seconds have passed."""
        self.at(self.now + delay_s, act, argument, order=order)

    def mark(self, what: str) -> None:
        """Let ``what`` be part of the fingerprint."""
        self.fingerprint = crc32(what.encode(), self.fingerprint)

    def run(self, until: float) -> None:
        """Let everything happen that is due up to virtual time ``until``."""
        queue = self._events
        pop = heapq.heappop
        while queue and queue[0][0] <= until:
            event = pop(queue)
            if event[0] > self.now:
                self.now = event[0]
            event[3](event[4])
        self.now = max(self.now, until)

    def run_until_done(self, future: asyncio.Future[T], limit_s: float) -> T:
        """Let things happen until ``future`` is done, and give its result. AssertionError after ``limit_s``."""
        give_up = self.now + limit_s
        queue = self._events
        while not future.done():
            assert queue, f"nothing will ever complete {future!r}"
            assert queue[0][0] <= give_up, f"not done after {limit_s} virtual seconds: {future!r}"
            self.run(queue[0][0])
        return future.result()


class Process(asyncio.AbstractEventLoop):
    """One process: the event loop that its code sees, with what the machine does to it from outside.

    ``host`` is the machine it runs on, which the network knows it by. Its threads are simulated, too (``threads``): a
    job is interleaved with the loop wherever it spends time. Exceptions that nobody caught are collected in
    ``unhandled``.
    """

    def __init__(self, simulator: Simulator, host: str, connect: Connect, listen: Listen) -> None:
        self.simulator = simulator
        self.host = host
        self.is_alive = True
        self.slowness = 1.0
        """How many times longer its callbacks take, and starting a thread: its processor is slow, not its disk."""
        self.is_out_of_descriptors = False
        """Nothing can be opened, connected or accepted."""
        self.unhandled: list[dict[str, Any]] = []
        self._connect = connect
        self._listen = listen
        self._ready: deque[asyncio.Handle] = deque()
        self._has_turn = False
        self._busy_until = 0.0
        self._held_s = 0.0
        self._is_paused = False
        self._pools: dict[Any, Pool] = {}
        self._jobs: dict[Job, None] = {}  # that began and did not end
        self._parked_jobs: list[Job] = []
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], Any] | None = None
        self._resources: list[Callable[[], None]] = []

    # -- what happens to it from outside ----------------------------------------------------------------------------

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "main") -> asyncio.Task[T]:
        """Start a task in this process, from outside of it."""
        return self.enter(lambda: self.create_task(coroutine, name=name))

    def enter(self, act: Callable[[], T]) -> T:
        """Call ``act`` as code of this process."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return act()
        finally:
            events._set_running_loop(before)

    def on_kill(self, act: Callable[[], None]) -> None:
        """Call ``act`` when the process is killed: what holds something of it lets go."""
        self._resources.append(act)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more."""
        if not self.is_alive:
            return
        self.is_alive = False
        _keep_for_good((self, asyncio.all_tasks(self), [*self._ready]))
        self._ready.clear()
        for job in list(self._jobs):
            if job is not Job.current:  # that one ends by itself
                job.kill()
        for release in self._resources:
            release()

    def pause(self) -> None:
        """SIGSTOP: nothing of it runs until :meth:`resume`; what arrives waits."""
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        if not self._is_paused:
            return
        self._is_paused = False
        jobs, self._parked_jobs = self._parked_jobs, []
        for job in jobs:
            self.simulator.after(self._thread_delay_s(), self._go_on, job)
        self._want_turn()

    def _is_dead(self) -> bool:
        return not self.is_alive

    def _want_turn(self) -> None:
        if not self._has_turn and self._ready and self.is_alive and not self._is_paused:
            self._has_turn = True
            self.simulator.at(max(self.simulator.now, self._busy_until), self._take_turn)

    def _take_turn(self, _: None) -> None:
        """One iteration of the loop: everything that was ready when it began."""
        if not self.is_alive or self._is_paused:
            self._has_turn = False
            return
        simulator = self.simulator
        ready = self._ready
        count = len(ready)
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _turn in range(count):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self._is_dead():
                    break
        finally:
            events._set_running_loop(before)
        simulator.turns += 1
        simulator.fingerprint = crc32(
            b"%s %d %d" % (self.host.encode(), count, simulator.now * 1e9), simulator.fingerprint
        )
        turn_s = count * CALLBACK_COST_S * self.slowness * (0.5 + simulator.rng.random())
        self._busy_until = simulator.now + turn_s + self._held_s
        self._held_s = 0.0
        self._has_turn = False  # not before: what became ready in this turn waits until it has ended
        self._want_turn()
        simulator.after_turn(self)

    # -- the event loop: callbacks and timers -------------------------------------------------------------------------

    def time(self) -> float:
        return self.simulator.now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.is_alive:
            self._ready.append(handle)
            self._want_turn()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.simulator.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_alive:
            self.simulator.at(when, self._on_timer, handle)
        return handle

    def _on_timer(self, handle: asyncio.TimerHandle) -> None:
        if self.is_alive and not handle.cancelled():
            self._ready.append(handle)
            self._want_turn()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Part of the contract between asyncio's handles and loops; it is skipped when its time comes."""

    # -- the event loop: futures, tasks, threads ----------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, **kwargs)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """A thread takes the job after a while. It has as many as ``executor`` would have (a ThreadPoolExecutor)."""
        if executor is not None and executor._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        pool = self._pools.get(executor)
        if pool is None:
            pool = self._pools[executor] = Pool(DEFAULT_THREADS if executor is None else executor._max_workers)
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                if not future.cancelled():
                    self._report(_succeed, future, func(*args))
            except Killed:
                return
            except BaseException as error:
                self._report(_fail, future, error)
            finally:
                self._jobs.pop(job, None)
                if self.is_alive:
                    pool.leave()

        def start() -> None:
            self.simulator.after(self._thread_delay_s(), self._go_on, job)

        job = Job(work)
        pool.submit(start)
        return future

    def _go_on(self, job: Job) -> None:
        if not self.is_alive:
            return
        if self._is_paused:
            self._parked_jobs.append(job)
        else:
            self._jobs[job] = None
            job.go_on()

    def spend(self, seconds: float) -> None:
        """Code of this process waits for so long, in a system call. In a thread others run meanwhile; else the loop is
        held up, and what is ready after this turn has to wait. Killed when that is how it ends."""
        job = Job.current
        if job is None or job not in self._jobs:
            self._held_s += seconds
        elif seconds > 0:
            self.simulator.after(seconds, self._go_on, job)
            job.wait()

    def _report(
        self, settle: Callable[[asyncio.Future[T], Any], None], future: asyncio.Future[T], outcome: Any
    ) -> None:
        def arrive(_: None) -> None:
            self.call_soon(settle, future, outcome)

        self.simulator.after(THREAD_START_S, arrive)

    def _thread_delay_s(self) -> float:
        return THREAD_START_S * (0.5 + self.simulator.rng.random()) * self.slowness

    # -- the event loop: network --------------------------------------------------------------------------------------

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """As asyncio's, over the simulated network."""
        return await self._connect(self, protocol_factory, str(host), int(port))

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """As asyncio's, over the simulated network."""
        is_serving, backlog = bool(options.get("start_serving", True)), int(options.get("backlog", 100))
        return self._listen(self, protocol_factory, str(host), int(port), is_serving, backlog)

    # -- the event loop: the rest of its contract ---------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_alive or isinstance(context.get("exception"), Killed):
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.unhandled.append(context)

    def set_exception_handler(self, handler: Any) -> None:
        self._handler = handler

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.is_alive

    def is_closed(self) -> bool:
        return not self.is_alive


Connect = Callable[[Process, Callable[[], Any], str, int], Coroutine[Any, Any, Any]]
Listen = Callable[[Process, Callable[[], Any], str, int, bool, int], Any]


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _keep_for_good(what: object) -> None:
    """Never collect it, not even when the interpreter ends: collecting a coroutine runs its ``finally`` blocks, which a
    kill -9 does not."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(what))
