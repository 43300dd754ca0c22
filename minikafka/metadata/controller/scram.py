"""AlterUserScramCredentials: passwords of users, as far as nodes need to know them (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from minikafka.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential_of
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

USERS_MAX: Final = 10_000
"""Each change copies the list of all, on each node."""
NAME_MAX: Final = 1000
SALT_MAX: Final = 1000
"""Characters and bytes that each node keeps."""

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion
Change = UserScramCredentialRecord | RemoveUserScramCredentialRecord


def alter_user_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """One result per user; a user is named once, as in Apache Kafka also if it is for two mechanisms.

    Errors of a user: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE,
    POLICY_VIOLATION when there are too many.
    """
    asked: list[Alteration] = [*request.deletions, *request.upsertions]
    named = Counter(each.name for each in asked)
    room = USERS_MAX - len(state.image.scram_credentials)
    records: list[Change] = []
    results = []
    for each in {each.name: each for each in asked}.values():
        result = AlterUserScramCredentialsResult(user=each.name, error_message=None)
        try:
            if named[each.name] > 1:
                message = "A user credential cannot be altered twice in the same request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
            record = _change(state, each)
            if each.name not in state.image.scram_credentials:
                if room <= 0:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{USERS_MAX} users have SCRAM credentials")
                room -= 1
            records.append(record)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    state.write(*records)
    return AlterUserScramCredentialsResponse(results=results)


def _change(state: ControllerState, asked: Alteration) -> Change:
    if not 0 < len(asked.name) <= NAME_MAX:
        message = "Username must not be empty" if not asked.name else f"a user's name has {NAME_MAX} characters at most"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    try:
        mechanism = ScramMechanism(asked.mechanism)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
    if isinstance(asked, ScramCredentialUpsertion):
        return _upsertion(asked, mechanism)
    if state.image.scram_credential(asked.name, mechanism) is None:
        message = "Attempt to delete a user credential that does not exist"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return RemoveUserScramCredentialRecord(asked.name, mechanism)


def _upsertion(asked: ScramCredentialUpsertion, mechanism: ScramMechanism) -> UserScramCredentialRecord:
    problem = None
    if asked.iterations < MIN_ITERATIONS:
        problem = f"Too few iterations: {asked.iterations}, and {MIN_ITERATIONS} are needed"
    elif asked.iterations > MAX_ITERATIONS:
        problem = f"Too many iterations: {asked.iterations}, and {MAX_ITERATIONS} are allowed"
    elif not 0 < len(asked.salt) <= SALT_MAX:
        problem = f"a salt has 1 to {SALT_MAX} bytes"
    elif len(asked.salted_password) != mechanism.digest_size:
        problem = f"a salted password of {mechanism.mechanism_name} has {mechanism.digest_size} bytes"
    if problem is not None:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    made = credential_of(mechanism, asked.salted_password, asked.salt, asked.iterations)
    return UserScramCredentialRecord(asked.name, mechanism, *made)
