"""ApiVersions (key 18), versions 0-5: what this listener serves, as bytes encoded once per version.

An unknown version is answered in version 0 with UNSUPPORTED_VERSION and a row for ApiVersions itself, so that the
client can step down (KIP-511). The response header is always version 0. Levels of features that are in force are
announced (KIP-584): clients speak transaction version 2 where ``transaction.version`` is at 2.

Before version 4 no feature is listed as supported, because all ranges begin at 0: Java's clients of 3.3 to 3.7 refuse
such a range, and with it the whole answer, again and again (KAFKA-17011).

A client of version 5 may say which node of which cluster it means (KIP-1242). Another one has the address now, say a
fresh cluster on an old port: REBOOTSTRAP_REQUIRED sends the client back to its bootstrap servers. Both are known from
the start of the process, before the node has heard of its cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minikafka.broker.authorization import Anyone
from minikafka.errors import ErrorCode
from minikafka.metadata.features import LOWEST, SUPPORTED
from minikafka.metadata.image import MetadataImage
from minikafka.model import NO_NODE
from minikafka.net.identity import Identity
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.headers import encode_response
from minikafka.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

AUTHORIZATION: Final = (Anyone(),)

_RANGES_FROM_ZERO: Final = 4
"""The version from which clients take a feature whose range begins at 0."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Responses:
    """The answers of one listener."""

    def __init__(self, keys: Iterable[ApiKey], identity: Identity, image: Callable[[], MetadataImage]) -> None:
        self._identity = identity
        self._image = image
        self._features: Mapping[str, int] = {}  # in force when the bodies were encoded
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
                body = self._body(version)
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

    def _body(self, version: int) -> bytes:
        image = self._image()
        if image.features is not self._features:
            self._features = image.features
            self._bodies.clear()
        return self._bodies.get(version) or self._encode(version, image)

    def _encode(self, version: int, image: MetadataImage) -> bytes:
        response = ApiVersionsResponse(
            api_keys=self._rows,
            supported_features=[
                SupportedFeatureKey(name=name, min_version=LOWEST, max_version=level)
                for name, level in sorted(SUPPORTED.items())
                if version >= _RANGES_FROM_ZERO
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in sorted(image.features.items())
            ],
        )
        body = self._bodies[version] = encode(response, version)
        return body
