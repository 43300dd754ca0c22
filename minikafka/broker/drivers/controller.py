"""Runs the controller machine on the node that leads the metadata quorum (rows C1-C3).

A command's records go to the quorum at once and its response waits until they are committed. The machine's own image
runs ahead by what is not committed yet; when leadership is lost it is thrown away with everything that waits.

A broker whose process is gone (``minikafka.broker.liveness`` knows) is fenced now, not when its session ends. A new
controller has every broker looked at: one may have gone with the old controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import Command, FenceBroker, decode_command
from minikafka.metadata.controller.controller import Controller
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.records import Record, encode_record
from minikafka.net.tasks import TaskOwner

log = structlog.get_logger(__name__)

NOT_LEADING: Final = -1
UNCOMMITTED_MAX: Final = 20_000
"""More metadata records than this that are not committed let clients' commands be refused."""


class ControllerDriver:
    """The active controller while this node leads, nothing otherwise."""

    def __init__(
        self,
        node_id: int,
        controller: Controller,
        raft: RaftDriver,
        metadata: Metadata,
        clock: Clock,
        tasks: TaskOwner,
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._raft = raft
        self._metadata = metadata
        self._clock = clock
        self._tasks = tasks
        self._epoch = NOT_LEADING
        self._epoch_start_offset = NOT_LEADING
        self._end_offset = 0
        self._nudge = asyncio.Event()
        self.is_active = False
        self.on_active: Callable[[], None] = lambda: None
        self.doubt: Callable[[int], None] = lambda _broker_id: None  # have it looked at

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
            log.info("no longer the active controller")

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
                self._append(records)
        except KafkaError as error:
            log.info("leadership was lost before it was taken up", why=str(error))
            return
        log.info("active controller", epoch=self._epoch)
        self._nudge.set()
        self.on_active()
        for broker in self._metadata.image.live_brokers():
            if broker.broker_id != self._node_id:
                self.doubt(broker.broker_id)

    # -- commands ---------------------------------------------------------------------------------------------------

    async def handle_call(self, peer_id: int, body: Any) -> Any:
        """A command from another node, which speaks for no other broker than itself."""
        command = decode_command(body)
        speaks_for = getattr(command, "broker_id", None) if command.IS_BROKERS_OWN else peer_id
        if isinstance(command, FenceBroker) or speaks_for != peer_id:
            name = type(command).__name__
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"node {peer_id} sent a {name} it may not send")
        return (await self.handle(command)).to_wire()

    async def handle(self, command: Command[Any]) -> Any:
        """Carry a command out; its response once it is committed.

        KafkaError: its own, NOT_CONTROLLER, or THROTTLING_QUOTA_EXCEEDED while too much waits to be committed.
        """
        if not self.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller")
        if not command.IS_BROKERS_OWN and self._raft.uncommitted > UNCOMMITTED_MAX:
            # The log refuses what is far beyond, and a controller whose records it refused must go.
            message = f"{self._raft.uncommitted} metadata records wait for a majority of the voters; try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        outcome = self._controller.handle(command, self._clock.monotonic_ms())
        self._nudge.set()
        if outcome.records:
            self._append(outcome.records)
        # Also without records of its own: the answer may rest on what was appended before it.
        await self._raft.committed(self._end_offset)
        return outcome.response

    def _append(self, records: Sequence[Record]) -> None:
        try:
            self._end_offset = self._raft.append([encode_record(record) for record in records])
        except KafkaError:
            # The machine replayed what the log did not take: nothing it says from here on could be trusted.
            self.on_lost_leadership()
            self._raft.step_down()
            raise
        assert self._end_offset == self._controller.image.offset + 1, "the controller's image left the log"

    # -- time -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Let sessions end and periodic work be done, for ever."""
        while True:
            self._nudge.clear()
            if self.is_active:
                self._tick()
            await self._pause()

    def _tick(self) -> None:
        records = self._controller.tick(self._clock.monotonic_ms())
        if not records:
            return
        try:
            self._append(records)
        except KafkaError as error:
            log.info("a periodic change was not appended", why=str(error))

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
            command = FenceBroker(broker_id, broker.broker_epoch, "nobody listens at its port")
            self._tasks.start(self._fence(command), f"fence-{broker_id}")

    async def _fence(self, command: FenceBroker) -> None:
        try:
            await self.handle(command)
        except KafkaError as error:
            log.info("broker not fenced", broker=command.broker_id, why=str(error))
        else:
            log.info("broker fenced: its process is gone", broker=command.broker_id)
