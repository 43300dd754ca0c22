"""DescribeUserScramCredentials (key 50), version 0: users, their mechanisms and iterations; never a key (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.long_answers import LongAnswers
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.sasl.scram import ScramCredential, ScramMechanism
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

AUTHORIZATION: Final = (Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(
    request: DescribeUserScramCredentialsRequest,
    context: RequestContext,
    metadata: Metadata,
    long_answers: LongAnswers,
) -> None:
    """All users, or those that are named: RESOURCE_NOT_FOUND without a credential, DUPLICATE_RESOURCE if twice."""
    image = metadata.image
    named = Counter(user.name for user in request.users) if request.users else Counter(image.scram_credentials.keys())
    results: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for name, count in named.items():
            results.append(await answer.encoded(_result(image, name, count), 1))
        response = DescribeUserScramCredentialsResponse(error_message=None)
        context.send_around(response, "results", results)


def _result(image: MetadataImage, user: str, count: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, error_message=None)
    try:
        result.credential_infos = [
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in sorted(_credentials(image, user, count).items())
        ]
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _credentials(image: MetadataImage, user: str, count: int) -> Mapping[ScramMechanism, ScramCredential]:
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
    credentials = image.scram_credentials.get(user)
    if credentials is None:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return credentials
