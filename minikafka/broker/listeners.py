"""The listeners of a node: CONTROLLER, REPLICATION, and one or more for clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from minikafka.broker.authentication import CertifiedClients, Logins, SaslAuthenticator
from minikafka.broker.control_plane import ControlPlane
from minikafka.broker.dispatch import Dispatcher
from minikafka.broker.drivers.controller_client import BROKER_METHOD, CLIENT_METHOD
from minikafka.broker.drivers.raft import METHOD as RAFT_METHOD
from minikafka.broker.faults.requests import RuledRequests
from minikafka.broker.faults.switchboard import METHOD as FAULTS_METHOD
from minikafka.broker.faults.switchboard import Faults
from minikafka.broker.mechanisms import Mechanisms, ScramUsers
from minikafka.broker.parts import Parts
from minikafka.broker.ports import Ports
from minikafka.broker.quorum import METHOD as QUORUM_METHOD
from minikafka.broker.quorum import Quorum
from minikafka.broker.token_keys import TokenKeys
from minikafka.config import BrokerConfig
from minikafka.config.node import CLIENT, CONTROLLER, REPLICATION
from minikafka.config.security import NO_CLIENT_AUTH, SSL, WITH_SASL, WITH_TLS
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import broker_config, concern_brokers
from minikafka.net.addresses import Addresses
from minikafka.net.breakable import BreakableConnection
from minikafka.net.connection import FrameHandler
from minikafka.net.control import ControlServer
from minikafka.net.duplicates import Duplicates
from minikafka.net.encrypted import BreakableEncryptedConnection
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.wire.control import CONTROL_FRAME_SIZE_MAX


@dataclass(frozen=True, slots=True)
class Listeners:
    """All listeners."""

    controller: Listener
    replication: Listener
    clients: tuple[Listener, ...]
    logins: Mapping[str, Logins]
    """Counted, at those that ask clients who they are."""
    token_keys: tuple[TokenKeys, ...]
    """Of those who sign tokens; somebody is to run them."""
    on_metadata: Callable[[MetadataDelta], None]
    """Settings of brokers may have changed: how many clients may connect."""

    def __iter__(self) -> Iterator[Listener]:
        """In the order in which they open and close."""
        return iter((self.controller, self.replication, *self.clients))


def build_listeners(ports: Ports, control: ControlPlane, parts: Parts) -> Listeners:
    """Build the listeners with their limits, APIs and handlers; they are bound later."""
    config = ports.config
    for_clients = [name for name in config.listeners if name not in (CONTROLLER, REPLICATION)]

    def most_connections(config: BrokerConfig) -> int:
        return max(1, min(config.max_connections, ports.descriptors.clients) // len(for_clients))

    limits = ListenerLimits(
        max_connections=most_connections(config),
        max_frame_bytes=config.socket_request_max_bytes,
        idle_timeout_s=config.connections_max_idle_ms / 1000,
        held_bytes=config.queued_max_request_bytes // len(for_clients),
    )
    peer_limits = replace(limits, max_connections=ports.descriptors.peers, asks_who=True)
    control_limits = replace(peer_limits, max_frame_bytes=CONTROL_FRAME_SIZE_MAX)
    calls = ControlServer(
        ports.identity,
        {
            RAFT_METHOD: control.raft.handle_call,
            CLIENT_METHOD: control.controller.handle_call,
            BROKER_METHOD: control.controller.handle_call,
            QUORUM_METHOD: parts.part(Quorum).handle_call,
            FAULTS_METHOD: _refuse_faults if ports.faults is None else ports.faults.handle_call,
        },
        ports.tasks,
        control.liveness.doubt,
    )
    followers = Dispatcher(REPLICATION, parts)
    clients = _ruled(Dispatcher(CLIENT, parts), ports.faults)
    duplicates = Duplicates(ports.descriptors.duplicates)
    addresses = Addresses(config.max_connections_per_ip, config.max_connections_per_ip_overrides)

    def listener(
        name: str, handler: FrameHandler, its_limits: ListenerLimits, its_addresses: Addresses | None = None
    ) -> Listener:
        tls = None
        if config.security_protocol(name) in WITH_TLS:
            assert ports.tls is not None, "whoever makes a node gives it its credentials"
            tls = (partial(ports.tls.accepting, name), ports.tasks)
        accepted = None
        if ports.faults is not None:
            breakable = BreakableConnection if tls is None else BreakableEncryptedConnection
            accepted = partial(breakable, links=ports.faults.links)
        return Listener(name, config.listeners[name], handler, its_limits, duplicates, accepted, tls, its_addresses)

    users = ScramUsers(control.metadata, ports.identity)
    logins: dict[str, Logins] = {}
    mechanisms = Mechanisms(users, ports.identity, ports.clock, ports.threads.upkeep)

    def of_clients(name: str) -> Listener:
        handler: FrameHandler = clients
        asks_who = config.security_protocol(name) in WITH_SASL
        if asks_who:
            settings = config.sasl_of(name)
            logins[name] = Logins()
            offered = mechanisms.of(settings)
            handler = SaslAuthenticator(clients, offered, settings, ports.clock, ports.timers, logins[name])
        elif config.security_protocol(name) == SSL and config.client_auth(name) != NO_CLIENT_AUTH:
            logins[name] = Logins()
            handler = CertifiedClients(clients, config.ssl_principal_mapping_rules, logins[name])
        return listener(name, handler, replace(limits, asks_who=asks_who), addresses)

    of_all_clients = tuple(map(of_clients, for_clients))

    def on_metadata(delta: MetadataDelta) -> None:
        if concern_brokers(delta.configs):
            now = broker_config(delta.after, config)
            addresses.limit(now.max_connections_per_ip, now.max_connections_per_ip_overrides)
            for each in of_all_clients:
                each.limit_connections(most_connections(now))

    return Listeners(
        listener(CONTROLLER, calls, control_limits),
        listener(REPLICATION, followers, peer_limits),
        of_all_clients,
        logins,
        tuple(mechanisms.token_keys.values()),
        on_metadata,
    )


def _ruled(clients: Dispatcher, faults: Faults | None) -> FrameHandler:
    return clients if faults is None else RuledRequests(clients, faults.rules)


async def _refuse_faults(peer_id: int, body: Any) -> Any:
    message = "this node was not started for tests; set fault.injection.enable=true, and restart it"
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)
