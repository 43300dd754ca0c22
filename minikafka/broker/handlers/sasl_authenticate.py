"""SaslAuthenticate (key 36), versions 0-2: the messages by which a node proves the cluster's secret (``wire.auth``)."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.identity import PeerCheck
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse | None:
    """The next message of the handshake. A peer that fails gets its error, and the connection ends."""
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
    return SaslAuthenticateResponse(auth_bytes=answer)
