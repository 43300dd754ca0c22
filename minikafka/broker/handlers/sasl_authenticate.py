"""SaslAuthenticate (key 36), versions 0-2: the messages by which a client or a node proves who it is.

Those of clients are of the mechanism that SaslHandshake named (``minikafka.sasl``); version 1 tells how long their
session lasts (KIP-368). Those of nodes are of ``wire.auth``.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authentication import SaslSession
from minikafka.broker.authorization import Anyone
from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.identity import PeerCheck
from minikafka.net.peer import LISTENER
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

AUTHORIZATION: Final = (Anyone(),)


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse | None:
    """The next message of the handshake. Whoever fails gets an error, and the connection ends."""
    session = context.connection.session
    if context.listener == LISTENER:
        return _of_node(request, context)
    if isinstance(session, SaslSession):
        return session.receive(request, context)
    message = "SaslAuthenticate at a listener that does not speak SASL"
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)


def _of_node(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse | None:
    check = context.connection.session
    try:
        if not isinstance(check, PeerCheck):
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without SaslHandshake; send SaslHandshake first"
            )
        answer = check.receive(request.auth_bytes)
    except KafkaError as error:
        context.send(SaslAuthenticateResponse(error_code=error.code, error_message=error.message))
        context.connection.close_after_replies()
        return None
    context.connection.principal = check.peer_id
    context.connection.keeps_order = False
    context.connection.limit_frames(None)
    return SaslAuthenticateResponse(auth_bytes=answer)
