"""SaslHandshake (key 17), versions 0-1: a node begins to prove the cluster's secret, on the REPLICATION listener.

The mechanism is our own (``wire.auth``). Clients do not authenticate yet, so the CLIENT listener does not offer it.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode
from minikafka.net.identity import Identity, PeerCheck
from minikafka.net.peer import LISTENER
from minikafka.wire import auth
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, context: RequestContext, identity: Identity) -> SaslHandshakeResponse:
    """Begin, if the peer speaks our mechanism."""
    if request.mechanism != auth.MECHANISM:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[auth.MECHANISM])
    context.connection.session = PeerCheck(identity, LISTENER)
    return SaslHandshakeResponse(mechanisms=[auth.MECHANISM])
