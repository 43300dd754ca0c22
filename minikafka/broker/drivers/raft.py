"""Drives the quorum machine: its effects in order, its messages over the control plane, its clock.

One task carries out operations on the log, in order; one writes votes, only the latest; one syncs the log; one applies
committed records. Messages that need not wait for any of them are sent at once. Events reach the machine immediately,
even while the disk is busy (``minikafka.raft``'s docstring is the contract).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.commits import Commits, StateMachine
from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.broker.threads import patiently
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import OffsetAndEpoch
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink
from minikafka.net.tasks import TaskOwner
from minikafka.raft import ElectionState, RaftNode, Snapshot, message_from_wire
from minikafka.raft import effects as do
from minikafka.raft.messages import (
    REQUESTS,
    RESPONSES,
    FetchRequest,
    MalformedMessageError,
    VoteRequest,
    sender_of,
)
from minikafka.raft.role import UNKNOWN_MS
from minikafka.storage.errors import StorageFailure, is_passing

log = get_logger()

METHOD: Final = "raft"
ANSWER_MARGIN_S: Final = 1.0
VOTE_MARGIN_S: Final = 10.0  # a voter writes its vote first, and its disk may be slow
SLOW_SYNC_MS: Final = 500

Message = Any  # one of the machine's request or response classes


class RaftDriver:
    """One node's quorum member. The callbacks are set by the composition root before :meth:`start`."""

    def __init__(
        self,
        machine: RaftNode,
        metadata_log: MetadataLog,
        state: StateMachine,
        links: dict[int, ControlLink],
        clock: Clock,
        tasks: TaskOwner,
        on_fatal: Callable[[BaseException], None],
        doubt: Callable[[int], None],
    ) -> None:
        """``doubt(peer_id)`` has a peer probed."""
        self.machine = machine
        self._log = metadata_log
        self._links = links
        self._clock = clock
        self._tasks = tasks
        self._on_fatal = on_fatal
        self._doubt = doubt
        self._queue: asyncio.Queue[do.Effect] = asyncio.Queue()
        self._election: ElectionState | None = None  # the next to write: only the latest
        self._election_wanted = asyncio.Event()
        self._sends: dict[asyncio.Task[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._parked: dict[int, asyncio.Future[Message]] = {}
        self._next_token = 0
        self._commits = Commits(state)
        self._flush_wanted = asyncio.Event()
        self._appended: OffsetAndEpoch | None = None  # end of the last append that is not synced yet
        self._log_idle = asyncio.Lock()
        self._is_leading = False
        self._followed: do.BecameFollower | None = None  # as the log was told last
        self.on_leader_changed: Callable[[], None] = lambda: None
        self.on_became_leader: Callable[[int, int], None] = lambda _epoch, _offset: None
        self.on_lost_leadership: Callable[[], None] = lambda: None

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the quorum."""
        for peer_id, link in self._links.items():
            link.on_lost = partial(self._on_connection_lost, peer_id)
        self._tasks.start(self._fatally(self._work()), "effects")
        self._tasks.start(self._fatally(self._persist_elections()), "votes")
        self._tasks.start(self._fatally(self._flush_forever()), "flush")
        self._tasks.start(self._fatally(self._commits.run()), "commits")
        self._do(self.machine.start(self._now()))

    def step_down(self) -> None:
        """Hand leadership over; nothing happens on a node that does not lead."""
        self._do(self.machine.resign(self._now()))

    async def resign(self) -> None:
        """Hand leadership over, and wait until all reachable peers know it."""
        before = list(self._sends)
        self.step_down()
        await asyncio.gather(*(send for send in self._sends if send not in before))
        await self._queue.join()

    def close(self) -> None:
        """Stop the clock, and ignore broken connections from now on; the owner stops the tasks."""
        for link in self._links.values():
            link.on_lost = lambda: None
        if self._timer is not None:
            self._timer.cancel()

    # -- calls of the node ------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int | None:
        """The active controller's node, as far as known."""
        return self.machine.leader

    @property
    def uncommitted(self) -> int:
        """Number of records that are not known to be committed."""
        return self.machine.log.log_end_offset - self.machine.high_watermark

    def known_until_ms(self) -> int:
        """All metadata committed by that time (monotonic) is applied here; far in the past when unknown."""
        is_applied = self._commits.applied_offset == self.machine.high_watermark
        return self.machine.known_until_ms(self._now()) if is_applied else UNKNOWN_MS

    def append(self, values: Sequence[bytes]) -> int:
        """Append one atomic batch as leader; returns the offset after it. KafkaError(NOT_CONTROLLER) if not leader."""
        end_offset, effects = self.machine.propose(values, self._now())
        self._do(effects)
        return end_offset

    async def committed(self, offset: int) -> None:
        """Wait until everything below ``offset`` is committed by this leader, and applied here.

        Raises KafkaError(NOT_CONTROLLER) when leadership is lost before that is known.
        """
        if not self._is_leading:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum")
        await self._commits.wait_for(offset)

    def on_snapshot_created(self, snapshot: Snapshot) -> None:
        """A snapshot of the applied state has its final name."""
        self._do(self.machine.on_snapshot_created(snapshot))

    async def handle_call(self, peer_id: int, body: Any) -> Any:
        """A request from a peer, answered when the machine answers it (a held fetch later)."""
        try:
            message = message_from_wire(body)
        except MalformedMessageError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        if not isinstance(message, REQUESTS):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a {type(message).__name__} is not a request")
        if sender_of(message) != peer_id:  # it could vote, or count, for others
            what = f"node {peer_id} sent a {message.TAG} of node {sender_of(message)}"
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, what)
        self._next_token += 1
        token = self._next_token
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._parked[token] = answer
        try:
            self._do(self.machine.on_request(token, message, self._now()))
            return (await answer).to_wire()
        finally:
            self._parked.pop(token, None)
            del answer  # with its error, which has this frame, it would be left to the garbage collector

    # -- effects ----------------------------------------------------------------------------------------------------

    def _do(self, effects: Sequence[do.Effect]) -> None:
        for effect in effects:
            match effect:
                case do.PersistElection(state):
                    self._election = state
                    self._election_wanted.set()
                case do.Send(at_once=True):
                    self._send_soon(effect)
                case do.Respond(token, message, at_once=True):
                    self._respond(token, message)
                case _:
                    self._queue.put_nowait(effect)
        self._arm()

    async def _fatally(self, work: Coroutine[Any, Any, None]) -> None:
        """A failed write cannot be repeated: the node stops."""
        try:
            await work
        except Exception as error:
            self._on_fatal(error)
            raise

    async def _work(self) -> None:
        while True:
            effect = await self._queue.get()
            try:
                await self._carry_out(effect)
            finally:
                self._queue.task_done()

    async def _persist_elections(self) -> None:
        """Write one election state at a time; those that were superseded before their turn are skipped."""
        while True:
            await self._election_wanted.wait()
            self._election_wanted.clear()
            state = self._election
            assert state is not None
            began_ms = self._now()
            await self._log.persist_election(state)
            self._warn_if_slow("writing a vote", began_ms)
            self._do(self.machine.on_election_durable(state, self._now()))

    def _warn_if_slow(self, what: str, began_ms: int) -> None:
        took_ms = self._now() - began_ms
        if took_ms > SLOW_SYNC_MS:
            log.warning("the disk of the metadata log is slow", during=what, took_ms=took_ms)

    async def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.Send():
                self._send_soon(effect)
            case do.Respond():
                await self._read_and_respond(effect)
            case do.HighWatermark(offset):
                self._commits.commit(offset)
            case do.Append() | do.AppendLeaderChange() | do.AppendFetched():
                self._log.append(effect)
                self._appended = effect.end
                self._flush_wanted.set()
            case do.TruncateTo(offset):
                async with self._log_idle, self._commits.uncut:
                    self._forget_unflushed()
                    await self._log.truncate_to(offset)
            case do.AdvanceLogStart(offset):
                await patiently(lambda: self._log.advance_log_start(offset))
            case do.WriteSnapshot():
                self._log.write_snapshot_part(effect)
            case do.InstallSnapshot(snapshot_id):
                async with self._log_idle, self._commits.uncut:
                    self._forget_unflushed()
                    self._commits.install(await self._log.install_snapshot(snapshot_id), snapshot_id)
            case do.WaitsForVoters(voters, at_most_ms):
                at_most_s, why = round(at_most_ms / 1000), "they may have records of this cluster"
                log.info("the first election waits", voters=list(voters), at_most_s=at_most_s, why=why)
            case do.RepairCompleted():
                await patiently(self._log.remove_repair_mark)
            case _:
                self._note_leadership(effect)

    def _note_leadership(self, effect: do.Effect) -> None:
        match effect:
            case do.BecameLeader(epoch, epoch_start_offset):
                log.info("leads the metadata quorum", epoch=epoch)
                self._is_leading = True
                self.on_became_leader(epoch, epoch_start_offset)
            case do.LostLeadership(epoch):
                log.info("lost leadership of the metadata quorum", epoch=epoch)
                self._is_leading = False
                self._commits.fail()
                self.on_lost_leadership()
            case do.BecameFollower(leader, epoch) if effect != self._followed:  # said once, however often it is tried
                self._followed = effect
                log.info("follows the metadata quorum's leader", leader=leader, epoch=epoch)
        self.on_leader_changed()

    def _respond(self, token: object, message: Message | KafkaError) -> None:
        assert isinstance(token, int)
        answer = self._parked.pop(token, None)
        if answer is None or answer.done():
            return
        if isinstance(message, KafkaError):
            answer.set_exception(message)
        else:
            answer.set_result(message)

    async def _read_and_respond(self, effect: do.Respond) -> None:
        """Read records for a peer. A failed read is answered with an error, unless the log is damaged or offline."""
        if effect.token not in self._parked:
            return
        try:
            match effect.read:
                case None:
                    message = effect.message
                case do.ReadLog(offset, max_bytes):
                    message = effect.filled(self._log.read(offset, max_bytes))
                case do.ReadSnapshot(snapshot_id, position, max_bytes):
                    message = effect.filled(await self._log.read_snapshot(snapshot_id, position, max_bytes))
        except (KafkaError, OSError) as error:
            self._respond(effect.token, _refusal(error))
        else:
            self._respond(effect.token, message)

    def _forget_unflushed(self) -> None:
        """Unsynced records are about to be cut; do not report their end as synced."""
        self._appended = None
        self._flush_wanted.clear()

    async def _flush_forever(self) -> None:
        """One fsync covers everything appended before it began."""
        while True:
            await self._flush_wanted.wait()
            async with self._log_idle:
                self._flush_wanted.clear()
                end, began_ms = self._appended, self._now()
                if end is None:
                    continue
                await self._log.flush()
            self._warn_if_slow("syncing what was appended", began_ms)
            self._do(self.machine.on_flushed(end, self._now()))

    # -- messages ---------------------------------------------------------------------------------------------------

    def _send_soon(self, effect: do.Send) -> None:
        if self._tasks.is_closed:
            return  # the node is about to end
        send = self._tasks.start(self._send(effect), f"send-{effect.to}")
        self._sends[send] = None
        send.add_done_callback(self._sends.pop)

    async def _send(self, effect: do.Send) -> None:
        link = self._links[effect.to]
        timeout_s = _patience_s(effect.message)
        try:
            answer = message_from_wire(await link.call(METHOD, effect.message.to_wire(), timeout_s=timeout_s))
        except (OSError, ChannelClosedError, TimeoutError, KafkaError, MalformedMessageError) as error:
            if isinstance(error, (TimeoutError, KafkaError, MalformedMessageError)):
                link.close()
            self._on_connection_lost(effect.to, refused=isinstance(error, ConnectionRefusedError))
            return
        if not isinstance(answer, RESPONSES):
            log.warning("a peer answered with a request", peer=effect.to)
            link.close()
            return
        self._do(self.machine.on_response(effect.to, effect.request_id, answer, self._now()))

    def _on_connection_lost(self, peer_id: int, *, refused: bool = False) -> None:
        """Requests to the peer get no answer. If its port refuses, the quorum moves on at once."""
        self._do(self.machine.on_connection_lost(peer_id, refused, self._now()))
        if not refused:
            self._doubt(peer_id)

    def on_gone(self, peer_id: int) -> None:
        """A peer's process is gone."""
        if peer_id in self._links:
            self._do(self.machine.on_connection_lost(peer_id, True, self._now()))

    # -- the clock --------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0.0, (deadline_ms - self._now()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._do(self.machine.tick(self._now()))

    def _now(self) -> int:
        return self._clock.monotonic_ms()


def _patience_s(request: Message) -> float:
    """Seconds to wait for an answer before the connection counts as dead."""
    if isinstance(request, VoteRequest) and not request.pre_vote:
        return VOTE_MARGIN_S
    waits_ms = request.max_wait_ms if isinstance(request, FetchRequest) else 0
    return ANSWER_MARGIN_S + waits_ms / 1000


def _refusal(error: KafkaError | OSError) -> KafkaError:
    """A retriable error for a failed read that is no sign of damage. Other errors are raised."""
    if isinstance(error, OSError) and is_passing(error):
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log cannot be read now: {error}")
    if isinstance(error, StorageFailure) or not isinstance(error, KafkaError):
        raise error
    return error
