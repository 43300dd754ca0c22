"""The broker's session with the controller: registration, heartbeats, unfencing, controlled shutdown (row C3).

The registration names the former registration that it continues (KIP-966), the topics that lose nothing in a power cut,
the whole replicas, and the log directories. Heartbeats name the log directories that failed (KIP-858).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from uuid import UUID

from minikafka.broker.backoff import Backoff
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.logs import one_line
from minikafka.broker.threads import RunInThread, run_job
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import Endpoint
from minikafka.net.channel import ChannelClosedError
from minikafka.storage.registration import Registrations
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
    TopicReplicas,
)

log = get_logger()

CALL_TIMEOUT_S = 2.0
FIRST_WARNING_S, LAST_WARNING_S = 3.0, 300.0  # after so much silence, and at least so often


class Lifecycle:
    """Registers one incarnation of this broker and keeps its session alive until shutdown."""

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        incarnation_id: UUID,
        listeners: Callable[[], dict[str, Endpoint]],
        controller: ControllerClient,
        metadata_offset: Callable[[], int],
        rng: random.Random,
        registrations: Registrations,
        run_in_thread: RunInThread,
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._listeners = listeners
        self._controller = controller
        self._metadata_offset = metadata_offset
        self._rng = rng
        self._registrations = registrations
        self._run_in_thread = run_in_thread
        self._on_fatal = on_fatal
        self._nudge = asyncio.Event()
        self.broker_epoch = -1
        self.is_fenced = True
        self.is_leaving = False
        self.answered_at_s: float | None = None  # the last heartbeat, by the loop's clock
        self.may_shut_down = asyncio.Event()
        self.on_registered: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Register, then send heartbeats for ever."""
        await self._register()
        backoff = Backoff(self._rng, first_ms=20, last_ms=self._config.broker_heartbeat_interval_ms)
        silence = _Silence(self._controller)
        while not self.may_shut_down.is_set():
            try:
                answer = await self._heartbeat()
            except KafkaError as error:
                if error.code is ErrorCode.STALE_BROKER_EPOCH:
                    log.warning("registration is gone, registering again", why=error.message)
                    await self._register()
                    continue
                silence.note(error)
                wait_s = backoff.next_s()
            except (OSError, TimeoutError, ChannelClosedError) as error:
                silence.note(error)
                wait_s = backoff.next_s()
            else:
                silence.end()
                backoff.reset()
                self._note(answer)
                # While fenced, the next heartbeat may unfence this broker: do not wait a whole interval for it.
                interval_ms = self._config.broker_heartbeat_interval_ms
                wait_s = (min(20, interval_ms) if self.is_fenced or self.is_leaving else interval_ms) / 1000
            await self._pause(wait_s)

    def begin_shutdown(self) -> None:
        """Ask the controller to move leaderships away; ``may_shut_down`` is set when it has."""
        self.is_leaving = True
        self.nudge()

    def nudge(self) -> None:
        """Send the next heartbeat now: metadata arrived, or the controller changed."""
        self._nudge.set()

    async def _register(self) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[Listener(name=name, host=at.host, port=at.port) for name, at in self._listeners().items()],
            rack=self._config.broker_rack,
            log_dirs=list(self._registrations.online_directories()),
            previous_broker_epoch=self._registrations.previous_broker_epoch,
            synced_topics=sorted(self._registrations.synced_topics),
            recorded_broker_epoch=self._registrations.recorded_broker_epoch,
            whole=[
                TopicReplicas(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in self._registrations.whole_replicas().items()
            ],
        )
        backoff = Backoff(self._rng, first_ms=20, last_ms=500)
        silence = _Silence(self._controller)
        while True:
            try:
                answer = await self._controller.call_once(request, BrokerRegistrationResponse)
            except KafkaError as error:
                if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
                    self._on_fatal(error)
                elif error.code is not ErrorCode.NOT_CONTROLLER:
                    log.warning("registration refused", why=str(error))
                else:
                    silence.note(error)
            except (OSError, TimeoutError, ChannelClosedError) as error:
                silence.note(error)
            else:
                silence.end()
                # Before any record is written in this registration: a start after a crash would claim too much.
                job = self._registrations.prepare_write(answer.broker_epoch)
                await run_job(self._run_in_thread, job)
                self._registrations.complete_write(job, answer.broker_epoch)
                self.broker_epoch = answer.broker_epoch
                self.is_fenced = True
                log.info("registered", broker_epoch=self.broker_epoch)
                self.on_registered()
                return
            await self._pause(backoff.next_s())

    async def _heartbeat(self) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_shut_down=self.is_leaving,
            offline_log_dirs=list(self._registrations.failed_directories()),
        )
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await self._controller.call_once(request, BrokerHeartbeatResponse)

    def _note(self, answer: BrokerHeartbeatResponse) -> None:
        self.answered_at_s = asyncio.get_running_loop().time()
        if answer.is_fenced != self.is_fenced:
            self.is_fenced = answer.is_fenced
            log.info("fenced" if self.is_fenced else "unfenced", broker_epoch=self.broker_epoch)
        if answer.should_shut_down:
            self.may_shut_down.set()

    async def _pause(self, seconds: float) -> None:
        self._nudge.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._nudge.wait()
        except TimeoutError:
            pass


class _Silence:
    """Warns when the controller has not answered for a while, and then ever more rarely."""

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller
        self._now_s = asyncio.get_running_loop().time
        self._began_s: float | None = None
        self._told_s = 0.0

    def note(self, error: Exception) -> None:
        """An attempt failed."""
        now_s = self._now_s()
        if self._began_s is None:
            self._began_s = self._told_s = now_s
        silent_s = now_s - self._began_s
        if silent_s >= FIRST_WARNING_S and now_s - self._told_s >= min(silent_s / 2, LAST_WARNING_S):
            self._told_s = now_s
            log.warning("no controller", for_s=round(silent_s), why=self._controller.contact or one_line(error))

    def end(self) -> None:
        """The controller answered."""
        if self._began_s is not None and self._told_s > self._began_s:
            log.info("controller answers again", after_s=round(self._now_s() - self._began_s))
        self._began_s = None
