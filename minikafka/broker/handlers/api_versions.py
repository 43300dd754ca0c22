"""ApiVersions (key 18), versions 0-4: what this listener serves, as bytes encoded once per version.

An unknown version is answered in version 0 with UNSUPPORTED_VERSION and a row for ApiVersions itself, so that the
client can step down (KIP-511). The response header is always version 0. No finalized features are announced: clients
take a feature they see as a promise (KIP-584).
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.headers import encode_response
from minikafka.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse


class Responses:
    """The answers of one listener."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
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
            body = encode(self._refusal(), version)
        else:
            decode(ApiVersionsRequest, version, frame, position)
            body = self._bodies.get(version) or self._encode(version)
        return encode_response(ApiKey.API_VERSIONS, version, correlation_id, body)

    def _encode(self, version: int) -> bytes:
        body = self._bodies[version] = encode(ApiVersionsResponse(api_keys=self._rows), version)
        return body

    def _refusal(self) -> ApiVersionsResponse:
        row = [row for row in self._rows if row.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=row)
