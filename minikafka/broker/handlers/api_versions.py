"""ApiVersions (key 18), versions 0-5: what this listener serves, as bytes encoded once per version.

An unknown version is answered in version 0 with UNSUPPORTED_VERSION and a row for ApiVersions itself, so that the
client can step down (KIP-511). The response header is always version 0. No finalized features are announced: clients
take a feature they see as a promise (KIP-584).

A client of version 5 may say which node of which cluster it means (KIP-1242). Another one has the address now, say a
fresh cluster on an old port: REBOOTSTRAP_REQUIRED sends the client back to its bootstrap servers. Both are known from
the start of the process, before the node has heard of its cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from minikafka.errors import ErrorCode
from minikafka.model import NO_NODE
from minikafka.net.identity import Identity
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.headers import encode_response
from minikafka.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Responses:
    """The answers of one listener."""

    def __init__(self, keys: Iterable[ApiKey], identity: Identity) -> None:
        self._identity = identity
        self._rows = [
            ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
            for key in sorted(keys)
            if (versions := key.announced_versions)
        ]
        self._bodies: dict[int, bytes] = {}

    def answer(self, frame: memoryview, position: int, version: int, correlation_id: int) -> bytes:
        """A whole response frame. WireError when the request's body is not one."""
        if not ApiKey.API_VERSIONS.versions.has(version):
            version = 0
            row = [row for row in self._rows if row.api_key == ApiKey.API_VERSIONS]
            body = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=row), version)
        else:
            request, _ = decode(ApiVersionsRequest, version, frame, position)
            error = self._error(request, version)
            if error is ErrorCode.NONE:
                body = self._bodies.get(version) or self._encode(version)
            else:
                body = encode(ApiVersionsResponse(error_code=error), version)
        return encode_response(ApiKey.API_VERSIONS, version, correlation_id, body)

    def _error(self, request: ApiVersionsRequest, version: int) -> ErrorCode:
        software = (request.client_software_name, request.client_software_version)
        is_named = all(map(_SOFTWARE.fullmatch, software)) or version < 3
        if not is_named or (request.cluster_id is None) != (request.node_id == NO_NODE):
            return ErrorCode.INVALID_REQUEST
        meant = (request.cluster_id, request.node_id)
        if request.cluster_id is not None and meant != (self._identity.cluster_id, self._identity.node_id):
            return ErrorCode.REBOOTSTRAP_REQUIRED
        return ErrorCode.NONE

    def _encode(self, version: int) -> bytes:
        body = self._bodies[version] = encode(ApiVersionsResponse(api_keys=self._rows), version)
        return body
