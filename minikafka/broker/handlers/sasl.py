"""SaslHandshake (key 17) and SaslAuthenticate (key 36) on the REPLICATION listener: nodes prove the cluster secret.

The mechanism is our own (``wire.auth``); clients do not authenticate yet, so the CLIENT listener offers neither.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.identity import PeerCheck
from minikafka.net.peer import LISTENER
from minikafka.wire import auth
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """Begin, if the peer speaks our mechanism."""
    if request.mechanism != auth.MECHANISM:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[auth.MECHANISM])
    context.connection.session = PeerCheck(context.node.identity, LISTENER)
    return SaslHandshakeResponse(mechanisms=[auth.MECHANISM])


def authenticate(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse | None:
    """The next message of the handshake. A peer that fails gets its error, and the connection ends."""
    check = context.connection.session
    try:
        if not isinstance(check, PeerCheck):
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes before SaslAuthenticate")
        answer = check.receive(request.auth_bytes)
    except KafkaError as error:
        context.send(SaslAuthenticateResponse(error_code=error.code, error_message=error.message))
        context.connection.close_after_replies()
        return None
    context.connection.principal = check.peer_id
    return SaslAuthenticateResponse(auth_bytes=answer)
