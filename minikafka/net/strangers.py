"""What a client of Kafka's protocol is told at the CONTROLLER listener: that nothing else is served there.

Kafka's tools ask an address of ``--bootstrap-controller`` for its ApiVersions. Where the connection is closed they try
again for a minute; where the answer lacks DescribeCluster they end at once, and say so.
"""

from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.errors import WireError
from minikafka.wire.headers import decode_request_header, encode_response
from minikafka.wire.messages.api_versions import ApiVersion, ApiVersionsResponse


def answer_to_client(frame: memoryview) -> bytes | None:
    """The whole answer to an ApiVersions request; None for a frame that is none."""
    try:
        header, _ = decode_request_header(frame)
    except WireError:
        return None
    if header.api_key != ApiKey.API_VERSIONS:
        return None
    versions = ApiKey.API_VERSIONS.versions
    is_known = versions.has(header.api_version)
    version = header.api_version if is_known else 0
    row = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=versions.first, max_version=versions.last)
    error = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION
    body = encode(ApiVersionsResponse(error_code=error, api_keys=[row]), version)
    return encode_response(ApiKey.API_VERSIONS, version, header.correlation_id, body)
