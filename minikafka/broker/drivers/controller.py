"""Runs the controller machine on the node that leads the metadata quorum (rows C1-C3).

The records of a request go to the quorum at once; its response waits until they are committed. So the machine's own
image is ahead of the committed one. When leadership is lost, the image and all waiting requests are dropped.

A request that touches every partition is carried out in portions (42,000 partitions take a second of CPU), and the loop
does other work between portions. The next request waits in line: the machine carries out one at a time. At most one
client request is in line, the others wait before it. Otherwise heartbeats could wait behind 64 elections of all
partitions, and sessions would end. A heartbeat counts from its arrival, not from its turn.

A broker whose process is gone (``minikafka.broker.liveness``) is fenced at once, not when its session ends. A new
controller probes every broker: one may have died with the old controller.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from minikafka.broker.client_quotas import ClientQuotas
from minikafka.broker.clock import Clock
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.broker.pacing import PerTurn
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.client_quotas import Client
from minikafka.metadata.controller.controller import Controller, Portions
from minikafka.metadata.controller.state import AcceptPartitions, accept_all
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.records import encode_record
from minikafka.model import ANONYMOUS
from minikafka.net.tasks import TaskOwner
from minikafka.wire.api import BROKERS
from minikafka.wire.forwarded import decode_forwarded, encode_answer, key_of
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest
from minikafka.wire.messages.create_topics import CreateTopicsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest
from minikafka.wire.schema import Message

log = get_logger()

NOT_LEADING: Final = -1
UNCOMMITTED_MAX: Final = 20_000
"""With more uncommitted metadata records than this, requests of clients are refused."""
ENCODED_AT_ONCE: Final = 2_000
"""Records of a portion: to encode one takes some 4 microseconds."""

T = TypeVar("T")

ChangeOfPartitions = CreateTopicsRequest | CreatePartitionsRequest | DeleteTopicsRequest


class ControllerDriver:
    """The active controller, while this node leads the quorum."""

    def __init__(
        self,
        node_id: int,
        controller: Controller,
        raft: RaftDriver,
        metadata: Metadata,
        clock: Clock,
        tasks: TaskOwner,
        quotas: ClientQuotas,
        doubt: Callable[[int], None],
    ) -> None:
        """``doubt(broker_id)`` has a broker probed."""
        self._node_id = node_id
        self._controller = controller
        self._raft = raft
        self._metadata = metadata
        self._clock = clock
        self._tasks = tasks
        self._quotas = quotas
        self._doubt = doubt
        self._epoch = NOT_LEADING
        self._epoch_start_offset = NOT_LEADING
        self._end_offset = 0
        self._nudge = asyncio.Event()
        self._in_line = asyncio.Lock()  # held by the request that is carried out
        self._of_clients = asyncio.Lock()  # held by the client request that is in line
        self._per_turn = PerTurn(1)  # of these: fifty that one commit had woken took a turn of half a second
        self.is_active = False
        self.on_active: Callable[[], None] = lambda: None

    # -- leadership -------------------------------------------------------------------------------------------------

    def on_became_leader(self, epoch: int, epoch_start_offset: int) -> None:
        """Act as controller as soon as everything up to this epoch's first record is applied."""
        self._epoch, self._epoch_start_offset = epoch, epoch_start_offset
        self._maybe_activate()

    def on_lost_leadership(self) -> None:
        """Stop at once."""
        self._epoch = NOT_LEADING
        if self.is_active:
            self.is_active = False
            self._controller.deactivate()
            log.info("resigned as the active controller")

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Committed records were applied."""
        self._maybe_activate()

    def _maybe_activate(self) -> None:
        if self._epoch == NOT_LEADING or self.is_active:
            return
        if self._metadata.applied_offset <= self._epoch_start_offset:
            return
        self.is_active = True
        self._end_offset = self._metadata.applied_offset
        records = self._controller.activate(self._metadata.image, self._epoch, self._clock.monotonic_ms())
        try:
            if records:
                self._append([encode_record(record) for record in records])
        except KafkaError as error:
            log.info("leadership was lost before it was taken up", why=str(error))
            return
        log.info("active controller", epoch=self._epoch)
        self._nudge.set()
        self.on_active()
        for broker in self._metadata.image.live_brokers():
            if broker.broker_id != self._node_id:
                self._doubt(broker.broker_id)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def handle_call(self, peer_id: int, body: Any) -> bytes:
        """A request from another node, which speaks for no other broker than itself."""
        forwarded = decode_forwarded(body)
        speaks_for = forwarded.request.broker_id if forwarded.key.listeners == BROKERS else peer_id
        if speaks_for != peer_id:
            message = f"node {peer_id} sent a {forwarded.key.camel_name} request for broker {speaks_for}"
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)
        return encode_answer(await self.handle(forwarded.request), forwarded)

    async def handle(self, request: Message) -> Any:
        """Carry a request out; its response once it is committed.

        KafkaError: its own, NOT_CONTROLLER, or THROTTLING_QUOTA_EXCEEDED while too much waits to be committed.
        """
        if not isinstance(request, ChangeOfPartitions) or request.client_id is None:
            return await self._handle(request, accept_all)
        quota = self._quotas.of_partitions(
            Client(request.user or ANONYMOUS, request.client_id), is_strict=request.knows_quotas
        )
        response = await self._handle(request, quota.accept)
        response.throttle_time_ms = math.ceil(quota.throttle_ms)
        return response

    async def _handle(self, request: Message, accept_partitions: AcceptPartitions) -> Any:
        def begin() -> Portions[Any]:
            return self._begin(request, accept_partitions)

        if isinstance(request, BrokerHeartbeatRequest):
            self._controller.expect_heartbeat(request, self._clock.monotonic_ms())
        if key_of(request).listeners == BROKERS:
            response, end_offset = await self._carry_out(begin)
        else:
            async with self._of_clients:
                await self._per_turn.wait()
                response, end_offset = await self._carry_out(begin)
        # Also without records of its own: the answer may rest on what was appended before it.
        await self._raft.committed(end_offset)
        return response

    def _begin(self, request: Message, accept_partitions: AcceptPartitions) -> Portions[Any]:
        self._check_active()
        if self._raft.uncommitted > UNCOMMITTED_MAX and key_of(request).listeners != BROKERS:
            # The log refuses what is far beyond, and a controller whose records it refused must go.
            message = f"{self._raft.uncommitted} metadata records wait for a majority of the voters; try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._nudge.set()
        return self._controller.in_portions(request, self._clock.monotonic_ms(), accept_partitions)

    def _check_active(self) -> None:
        if not self.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller")

    # -- one at a time ----------------------------------------------------------------------------------------------

    async def _carry_out(self, begin: Callable[[], Portions[T]]) -> tuple[T, int]:
        """Carry out what ``begin`` begins, when everything before it is whole, and append it. Its response, and where
        the log ends then. Once begun it goes on to its end: whoever asked may be gone by then."""
        await self._in_line.acquire()
        is_begun = False
        try:
            steps = self._steps(begin())
            next(steps)
            is_begun = not self._tasks.is_closed
            if not is_begun:
                self.on_lost_leadership()
                raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} stops")
        except StopIteration as end:
            done: tuple[T, int] = end.value
            return done
        except KafkaError:
            raise
        except Exception:
            self._give_up()
            raise
        finally:
            if not is_begun:
                self._in_line.release()
        answer: asyncio.Future[tuple[T, int]] = asyncio.get_running_loop().create_future()
        epoch = self._epoch
        task = self._tasks.start(self._go_on(steps, epoch, answer), "request")
        task.add_done_callback(partial(self._on_end, epoch, answer))
        try:
            return await answer
        finally:
            del answer, task  # with an error, which has this frame, they would be left to the garbage collector

    def _steps(self, portions: Portions[T]) -> Generator[None, None, tuple[T, int]]:
        outcome = yield from portions
        values: list[bytes] = []
        for start in range(0, len(outcome.records), ENCODED_AT_ONCE):
            if start:
                yield
            values += map(encode_record, outcome.records[start : start + ENCODED_AT_ONCE])
        if values:
            self._append(values)
        return outcome.response, self._end_offset

    async def _go_on(
        self, steps: Generator[None, None, tuple[T, int]], epoch: int, answer: asyncio.Future[tuple[T, int]]
    ) -> None:
        try:
            while True:
                await asyncio.sleep(0)
                if self._epoch != epoch:
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, "leadership was lost before the change was appended")
                next(steps)
        except StopIteration as end:
            if not answer.done():
                answer.set_result(end.value)
        except KafkaError as error:
            if not answer.done():
                answer.set_exception(error)
            del answer  # the error has this frame

    def _on_end(self, epoch: int, answer: asyncio.Future[Any], task: asyncio.Task[None]) -> None:
        if (task.cancelled() or task.exception() is not None) and self._epoch == epoch:
            self._give_up()
        self._in_line.release()
        if not answer.done():
            answer.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} stops"))

    def _append(self, values: Sequence[bytes]) -> None:
        try:
            self._end_offset = self._raft.append(values)
        except KafkaError:
            self._give_up()
            raise
        assert self._end_offset == self._controller.image.offset + 1, "the controller's image left the log"

    def _give_up(self) -> None:
        """The machine carried out half a request, or replayed what the log did not take: nothing that it says from here
        on could be trusted. Whoever leads next begins from the log."""
        self.on_lost_leadership()
        self._raft.step_down()

    # -- time -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Let sessions end and periodic work be done, for ever."""
        while True:
            self._nudge.clear()
            if self.is_active:
                await self._tick()
            await self._pause()

    async def _tick(self) -> None:
        try:
            await self._carry_out(self._begin_tick)
        except KafkaError as error:
            log.info("a change was not appended", why=str(error))

    def _begin_tick(self) -> Portions[None]:
        self._check_active()
        return self._controller.tick_in_portions(self._clock.monotonic_ms())

    async def _pause(self) -> None:
        deadline_ms = self._controller.next_deadline_ms() if self.is_active else None
        timeout_s = None if deadline_ms is None else max(0.001, (deadline_ms - self._clock.monotonic_ms()) / 1000)
        try:
            async with asyncio.timeout(timeout_s):
                await self._nudge.wait()
        except TimeoutError:
            pass

    # -- brokers that are gone --------------------------------------------------------------------------------------

    def on_gone(self, broker_id: int) -> None:
        """A broker's process is gone: fence it."""
        broker = self._metadata.image.broker(broker_id)
        if self.is_active and broker is not None and not broker.fenced and not self._tasks.is_closed:
            self._tasks.start(self._fence(broker_id, broker.broker_epoch), f"fence-{broker_id}")

    async def _fence(self, broker_id: int, broker_epoch: int) -> None:
        def begin() -> Portions[None]:
            self._check_active()
            return self._controller.fence_gone_in_portions(broker_id, broker_epoch, self._clock.monotonic_ms())

        try:
            await self._carry_out(begin)
        except KafkaError as error:
            log.info("broker not fenced", broker=broker_id, why=str(error))
        else:
            self._nudge.set()
            log.info("broker fenced: its process is gone", broker=broker_id)
