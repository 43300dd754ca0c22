"""Registration, heartbeats, fencing and controlled shutdown of brokers (row C3).

Theory. States of a broker in the image::

    (unknown) --register--> fenced --heartbeat, caught up--> live --wants shutdown--> stopping --others know--> fenced
                              ^                                |                                                   |
                              |------- session ends, process gone, asks for it, or registers anew ---------------- -|

*Fenced*: hidden from clients, leader of nothing, out of all ISRs. *Live*: the opposite. *Stopping*: it still serves,
but its leaderships have moved and it is out of all ISRs. It may stop when the live brokers have seen that.

The broker epoch of a registration is the offset of its record in the metadata log, so it grows over all incarnations
and controllers. "Caught up": the broker has replayed the log up to its own registration. A request with an older epoch
comes from a replaced process and is refused (KIP-903).

Each registration names the former registration that it continues (KIP-966). If that is the last one, the broker lost
nothing, and its places in ISRs and ELRs stay. The same holds when the last one was never unfenced, and both continue
the same registration: the broker died before it wrote down the last epoch, so before it did anything in it. Otherwise
the machine may have lost power, or its disks were replaced by others or by an older copy: the broker leaves all ISRs
and ELRs until it has caught up with the leaders. The same holds for a single replica that the registration does not
name as whole: a missing or damaged log is fetched again first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.directories import check_directories, fail_directories, have_all_failed
from minikafka.metadata.controller.partition_change import NOBODY
from minikafka.metadata.controller.partitions import LostOf, settle
from minikafka.metadata.controller.sessions import Session
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.image import BrokerImage
from minikafka.metadata.records import BrokerChangeRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from minikafka.model import NO_EPOCH, Endpoint
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

TEXT_MAX: Final = 255
"""Characters of a host (RFC 1035), of a listener's name, of a rack."""


def register(state: ControllerState, request: BrokerRegistrationRequest, now_ms: int) -> BrokerRegistrationResponse:
    """A new registration, fenced at first; or the present one when the same process asks again.

    Errors: INCONSISTENT_CLUSTER_ID; DUPLICATE_BROKER_REGISTRATION while another incarnation's session lives.
    """
    _check_registration(state, request)
    existing = state.image.broker(request.broker_id)
    if existing is not None:
        if _is_repeated(existing, request):
            return BrokerRegistrationResponse(broker_epoch=existing.broker_epoch)
        _check_not_alive(state, existing, request)
    recorded = max(request.recorded_broker_epoch, request.previous_broker_epoch)
    is_current = _continues(existing, recorded)
    continues = is_current and request.previous_broker_epoch >= 0
    broker_epoch = state.next_offset
    state.write(
        RegisterBrokerRecord(
            request.broker_id,
            request.incarnation_id,
            broker_epoch,
            _listeners(request),
            request.rack,
            tuple(request.log_dirs),
            fenced=True,
            previous_broker_epoch=recorded if is_current else NO_EPOCH,
        )
    )
    state.sessions.start(request.broker_id, now_ms)
    settle(state, [request.broker_id], lost=_lost(request, is_current=is_current, continues=continues))
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)


def _listeners(request: BrokerRegistrationRequest) -> dict[str, Endpoint]:
    return {listener.name: Endpoint(listener.host, listener.port) for listener in request.listeners}


def _lost(request: BrokerRegistrationRequest, *, is_current: bool, continues: bool) -> LostOf:
    """The partitions of which the broker may lack records, by its own report."""
    whole = None
    if request.whole is not None:
        whole = {(topic.topic_id, index) for topic in request.whole for index in topic.partitions}
    synced = frozenset(request.synced_topics if is_current and request.previous_broker_epoch >= NO_EPOCH else ())
    broker = frozenset([request.broker_id])

    def lost(topic_id: UUID, partition: int) -> Collection[int]:
        is_there = whole is None or (topic_id, partition) in whole
        return NOBODY if is_there and (continues or topic_id in synced) else broker

    return lost


def _check_registration(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    if request.cluster_id != state.image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id!r}, this is cluster "
            f"{state.image.cluster_id!r}; its cluster.id or its log.dirs are another cluster's",
        )
    if not 0 <= request.broker_id < 1 << 31 or not request.listeners:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a registration needs a broker id from 0 on, and listeners")
    _check_told(request)
    check_directories(state, request)


def _check_told(request: BrokerRegistrationRequest) -> None:
    """Its endpoints and rack must fit into the protocol, and its addresses must be ones to connect to."""
    for listener in request.listeners:
        name, host, port = listener.name, listener.host, listener.port
        if not (_is_text(name) and _is_text(host) and 0 < port < 65536):
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"broker {request.broker_id} registers listener {name!r:.80} at {host!r:.80}:{port}; a name, a host "
                "and a port from 1 to 65535 are expected",
            )
    if request.rack and not _is_text(request.rack):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} registers rack {request.rack!r:.80}"
        )


def _is_text(value: str) -> bool:
    return 0 < len(value) <= TEXT_MAX and value.isprintable()


def _continues(existing: BrokerImage | None, previous_broker_epoch: int) -> bool:
    if existing is None or previous_broker_epoch < 0:
        return False
    return previous_broker_epoch in (existing.broker_epoch, existing.previous_broker_epoch)


def _is_repeated(existing: BrokerImage, request: BrokerRegistrationRequest) -> bool:
    return (
        existing.incarnation_id == request.incarnation_id
        and existing.listeners == _listeners(request)
        and existing.rack == request.rack
        and existing.log_dirs == tuple(request.log_dirs)
    )


def _check_not_alive(state: ControllerState, existing: BrokerImage, request: BrokerRegistrationRequest) -> None:
    if existing.incarnation_id != request.incarnation_id and state.sessions.is_heard(request.broker_id):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another process is registered as broker {request.broker_id} and its session lives; "
            "give this one another node.id, or wait for the session to end if the other is gone",
        )


def heartbeat(state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int) -> BrokerHeartbeatResponse:
    """The broker is alive; update its state.

    Its replicas in ``offline_log_dirs`` lose leaderships and places in ISRs until it registers anew. Errors:
    STALE_BROKER_EPOCH when that registration is not the current one; the broker registers again.
    """
    broker = state.registered(request.broker_id, request.broker_epoch)
    is_caught_up = request.current_metadata_offset >= broker.broker_epoch
    if broker.fenced and broker.in_controlled_shutdown:  # said before
        return BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=True, should_shut_down=True)
    session, is_first = state.sessions.hear(request.broker_id, now_ms, request.current_metadata_offset)
    if is_first:
        settle(state, [broker.broker_id])
    broker = fail_directories(state, broker, request.offline_log_dirs)
    may_stop = False
    if request.want_shut_down:
        may_stop = _stop(state, broker, session)
    elif have_all_failed(broker, request.offline_log_dirs):
        fence(state, [broker])
        settle(state, [broker.broker_id], lost=lambda *_: [broker.broker_id])
    elif request.want_fence:
        fence(state, [broker])
    elif broker.fenced and is_caught_up:
        _unfence(state, broker)
    is_fenced = not state.image.is_live(broker.broker_id)
    return BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=may_stop)


def expect_heartbeat(state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int) -> None:
    """The heartbeat came and is handled later: until then the session does not end."""
    broker = state.image.broker(request.broker_id)
    if broker is not None and broker.broker_epoch == request.broker_epoch:
        state.sessions.touch(request.broker_id, now_ms)


def fence_gone(state: ControllerState, broker_id: int, broker_epoch: int) -> None:
    """The process of that registration is gone: its connection broke, and its port refuses. Its session ends now, and
    the next incarnation may register at once. No effect when another incarnation has registered since."""
    broker = state.image.broker(broker_id)
    if broker is not None and broker.broker_epoch == broker_epoch:
        state.sessions.end(broker_id)
        fence(state, [broker])


def unregister(state: ControllerState, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """The broker does not come back: its replicas do not count any more. If it does, they count as those of a machine
    that may have lost records.

    Errors: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST while it is alive.
    """
    broker = state.image.broker(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    if not broker.fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"broker {request.broker_id} is alive; stop it first, or it would register again at once",
        )
    state.sessions.end(broker.broker_id)
    state.write(UnregisterBrokerRecord(broker.broker_id, broker.broker_epoch))
    settle(state, [broker.broker_id], lost=lambda _topic_id, _partition: [broker.broker_id])
    return UnregisterBrokerResponse(error_message=None)


def expire_sessions(state: ControllerState, now_ms: int) -> None:
    """Fence the brokers whose sessions ended, all at once: so no leadership moves from one of them to another."""
    expired = state.sessions.expired(now_ms)
    for broker_id in expired:
        state.sessions.end(broker_id)
    fence(state, [broker for broker_id in expired if (broker := state.image.broker(broker_id)) is not None])


def fence(state: ControllerState, brokers: Collection[BrokerImage]) -> None:
    """Fence the unfenced ones, and move their leaderships and places in ISRs."""
    live = [broker for broker in brokers if not broker.fenced]
    if live:
        state.write(*(BrokerChangeRecord(broker.broker_id, broker.broker_epoch, fenced=True) for broker in live))
        settle(state, [broker.broker_id for broker in live])


def _unfence(state: ControllerState, broker: BrokerImage) -> None:
    state.write(BrokerChangeRecord(broker.broker_id, broker.broker_epoch, fenced=False))
    settle(state, [broker.broker_id])


def _stop(state: ControllerState, broker: BrokerImage, session: Session) -> bool:
    """Controlled shutdown: leaderships move first. True, and fenced, once every live broker has replayed that."""
    if broker.fenced:
        state.sessions.end(broker.broker_id)
        return True
    if not broker.in_controlled_shutdown:
        state.write(BrokerChangeRecord(broker.broker_id, broker.broker_epoch, in_controlled_shutdown=True))
        settle(state, [broker.broker_id])
        return False  # only then the offset that the others must replay is known
    if session.shutdown_offset is None:
        session.shutdown_offset = state.image.offset
    others = [other for other in state.image.live_brokers() if not other.in_controlled_shutdown]
    if any(state.sessions.metadata_offset(other.broker_id) < session.shutdown_offset for other in others):
        return False
    state.sessions.end(broker.broker_id)
    fence(state, [broker])
    return True
