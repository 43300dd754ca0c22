"""A connection to another node's REPLICATION listener: the Kafka protocol, after both nodes proved the cluster secret.

The handshake travels as SASL: SaslHandshake names the mechanism, SaslAuthenticate carries ``wire.auth``'s messages.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Self, TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net.channel import Channel
from minikafka.net.identity import Identity
from minikafka.wire import auth
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decoder, encoder
from minikafka.wire.decoder import Decoder
from minikafka.wire.encoder import Encoder
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.messages.list_offsets import ListOffsetsRequest
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from minikafka.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

LISTENER: Final = "REPLICATION"
CONNECT_TIMEOUT_S: Final = 1.0

_KEYS: Final[dict[type[Message], ApiKey]] = {
    FetchRequest: ApiKey.FETCH,
    ListOffsetsRequest: ApiKey.LIST_OFFSETS,
    OffsetForLeaderEpochRequest: ApiKey.OFFSET_FOR_LEADER_EPOCH,
    AddPartitionsToTxnRequest: ApiKey.ADD_PARTITIONS_TO_TXN,
    WriteTxnMarkersRequest: ApiKey.WRITE_TXN_MARKERS,
    SaslHandshakeRequest: ApiKey.SASL_HANDSHAKE,
    SaslAuthenticateRequest: ApiKey.SASL_AUTHENTICATE,
}


class _Api(NamedTuple):
    """How an API is spoken between nodes."""

    key: ApiKey
    version: int
    encode: Encoder
    decode: Decoder


_apis: Final[dict[type[Message], _Api]] = {}  # those that were asked for, by their requests


def _api(request_type: type[Message], response_type: type[Message]) -> _Api:
    key = _KEYS[request_type]
    version = key.versions.last
    return _Api(key, version, encoder(request_type, version), decoder(response_type, version))


class PeerConnection:
    """An authenticated channel to one node. Both ends are minikafka: each API is spoken at its newest version."""

    def __init__(self, channel: Channel, client_id: str) -> None:
        self._channel = channel
        self._client_id = client_id

    @classmethod
    async def open(cls, endpoint: Endpoint, identity: Identity, peer_id: int) -> Self:
        """Connect to node ``peer_id`` and prove both sides. Raises OSError, TimeoutError or KafkaError."""
        with identity.connecting(LISTENER, peer_id):
            return await cls._open(endpoint, identity, peer_id)

    @classmethod
    async def _open(cls, endpoint: Endpoint, identity: Identity, peer_id: int) -> Self:
        channel = await Channel.open(endpoint, timeout_s=CONNECT_TIMEOUT_S, tls=identity.tls(LISTENER))
        peer = cls(channel, f"node-{identity.node_id}")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await peer._authenticate(identity, peer_id)
        except BaseException:
            channel.close()
            raise
        return peer

    @property
    def is_open(self) -> bool:
        """False once it is broken."""
        return self._channel.is_open

    @property
    def is_receiving(self) -> bool:
        """True when a part of an answer has arrived."""
        return self._channel.is_receiving

    def close(self) -> None:
        """Close at once; waiting calls fail."""
        self._channel.close()

    async def call(self, request: Message, response_type: type[R], *, timeout_s: float) -> R:
        """One request and its answer. Raises ChannelClosedError, TimeoutError or WireError."""
        api = _apis.get(type(request))
        if api is None:
            api = _apis[type(request)] = _api(type(request), response_type)
        correlation_id = self._channel.next_correlation_id()
        frame = encode_request(api.key, api.version, correlation_id, self._client_id, api.encode(request))
        answer = await self._channel.request(correlation_id, frame, timeout_s)
        _, position = decode_response_header(answer, api.key, api.version)
        response: R = api.decode(memoryview(answer), position)[0]
        return response

    async def _authenticate(self, identity: Identity, peer_id: int) -> None:
        handshake = SaslHandshakeRequest(mechanism=auth.MECHANISM)
        answer = await self.call(handshake, SaslHandshakeResponse, timeout_s=CONNECT_TIMEOUT_S)
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code), f"node {peer_id} does not speak {auth.MECHANISM}")
        await identity.prove(LISTENER, peer_id, self._exchange)

    async def _exchange(self, message: bytes) -> bytes:
        request = SaslAuthenticateRequest(auth_bytes=message)
        answer = await self.call(request, SaslAuthenticateResponse, timeout_s=CONNECT_TIMEOUT_S)
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code), answer.error_message or "the peer refused this node")
        return bytes(answer.auth_bytes)
