"""AlterUserScramCredentials (key 51), version 0: passwords of users (KIP-554).

Forwarded to the active controller. As in Apache Kafka each user may be named once in a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, asked_in_portions, wait_until_seen
from minikafka.broker.pacing import portions
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

AUTHORIZATION: Final = (ByHandler("ALTER on the cluster", ((AclOperation.ALTER, ResourceType.CLUSTER),)),)

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(
    request: AlterUserScramCredentialsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
    authorizer: Authorizer,
) -> AlterUserScramCredentialsResponse:
    """One result per user; answered when they are committed, and seen here."""
    changes: list[Alteration] = [*request.deletions, *request.upsertions]
    if not authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER):
        denied = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        users = {change.name: change for change in changes}
        return AlterUserScramCredentialsResponse(results=[_refused(change, denied) for change in users.values()])
    made: list[Alteration] = []

    async def ask(some: Sequence[Alteration]) -> list[AlterUserScramCredentialsResult]:
        forwarded = AlterUserScramCredentialsRequest(
            deletions=[each for each in some if isinstance(each, ScramCredentialDeletion)],
            upsertions=[each for each in some if isinstance(each, ScramCredentialUpsertion)],
        )
        answer = await controller.call(forwarded, AlterUserScramCredentialsResponse, timeout_s=LONGEST_TIMEOUT_S / 2)
        done = {result.user for result in answer.results if result.error_code == ErrorCode.NONE}
        made[:] = [each for each in some if each.name in done] or made
        return answer.results

    results = await asked_in_portions(portions(changes, lambda each: each.name), ask, _refused)
    await wait_until_seen(metadata, lambda image: all(_shows(image, each) for each in made))
    return AlterUserScramCredentialsResponse(results=results)


def _shows(image: MetadataImage, change: Alteration) -> bool:
    credentials = image.scram_credentials.get(change.name, {})
    if isinstance(change, ScramCredentialDeletion):
        return change.mechanism not in credentials
    seen = {int(mechanism): credential for mechanism, credential in credentials.items()}.get(change.mechanism)
    return seen is not None and (seen.salt, seen.iterations) == (change.salt, change.iterations)


def _refused(change: Alteration, error: KafkaError) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=change.name, error_code=error.code, error_message=error.told)
