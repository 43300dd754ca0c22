"""SaslHandshake (key 17), versions 0-1: who connects names the mechanism by which it will prove itself.

Clients have those of ``sasl.enabled.mechanisms``, at listeners that speak SASL; elsewhere ILLEGAL_SASL_STATE, as in
Apache Kafka. After version 0 their tokens come without a request around them. Nodes have a mechanism of our own
(``wire.auth``), at the REPLICATION listener.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authentication import SaslSession
from minikafka.broker.authorization import Anyone
from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode
from minikafka.net.identity import Identity, PeerCheck
from minikafka.net.peer import LISTENER
from minikafka.wire import auth
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

AUTHORIZATION: Final = (Anyone(),)


def handle(request: SaslHandshakeRequest, context: RequestContext, identity: Identity) -> SaslHandshakeResponse | None:
    """Begin, if the mechanism is spoken here."""
    session = context.connection.session
    if context.listener == LISTENER:
        if request.mechanism != auth.MECHANISM:
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[auth.MECHANISM])
        context.connection.session = PeerCheck(identity, LISTENER)
        return SaslHandshakeResponse(mechanisms=[auth.MECHANISM])
    if isinstance(session, SaslSession):
        return session.begin(request, context)
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
