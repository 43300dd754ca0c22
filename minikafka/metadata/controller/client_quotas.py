"""AlterClientQuotas: bounds on what clients may ask, by user and client id (KIP-13, KIP-124, KIP-546, KIP-599)."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.client_quotas import CLIENT_ID, KEYS, RATES_IN_BYTES, USER
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.records import ClientQuotaRecord, QuotaEntity, QuotaPart
from minikafka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntityData,
    AlteredEntryData,
    EntryData,
    OpData,
)

ENTITIES_MAX: Final = 10_000
"""Users and client ids with quotas of their own: each change copies the list of all, on each node."""
NAME_MAX: Final = 1000
"""Characters of a user or a client id: each node keeps them all."""


def alter_client_quotas(state: ControllerState, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Per entity all changes are made, or none.

    Errors of an entity: INVALID_REQUEST, UNSUPPORTED_VERSION, POLICY_VIOLATION when there are too many.
    """
    asked = Counter(_named(entry) for entry in request.entries)
    records: list[ClientQuotaRecord] = []
    room = ENTITIES_MAX - len(state.image.client_quotas)
    answers = []
    for entry in request.entries:
        answer = AlteredEntryData(
            error_message=None,
            entity=[
                AlteredEntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
            ],
        )
        try:
            if asked[_named(entry)] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the entity is in the request more than once")
            changes = _changes(state, entry)
            if changes and changes[0].entity not in state.image.client_quotas:
                if room <= 0:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{ENTITIES_MAX} users and client ids have quotas")
                room -= 1
            records += changes
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        answers.append(answer)
    if not request.validate_only:
        state.write(*records)
    return AlterClientQuotasResponse(entries=answers)


def _named(entry: EntryData) -> QuotaEntity:
    return tuple(sorted((QuotaPart(part.entity_type, part.entity_name) for part in entry.entity), key=str))


def _changes(state: ControllerState, entry: EntryData) -> list[ClientQuotaRecord]:
    entity = _named(entry)
    _check_entity(entity)
    keys = [op.key for op in entry.ops]
    if len(set(keys)) < len(keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota is in the request more than once")
    for op in entry.ops:
        _check(op)
    before = state.image.client_quotas.get(entity, {})
    values = {op.key: None if op.remove else op.value for op in entry.ops}
    return [ClientQuotaRecord(entity, key, value) for key, value in values.items() if before.get(key) != value]


def _check_entity(entity: QuotaEntity) -> None:
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota is for a user, a client-id, or both; none is named")
    if len({part.type for part in entity}) < len(entity):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota is for one user and one client-id at most")
    for kind, name in entity:
        if kind == "ip":
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "quotas of ip addresses are not there")
        if kind not in (USER, CLIENT_ID):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"entity type {kind!r} is unknown; there are user, client-id"
            )
        if name is not None and not 0 < len(name) <= NAME_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the name of a {kind} has 1 to {NAME_MAX} characters")


def _check(op: OpData) -> None:
    if op.key not in KEYS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"quota {op.key!r} is unknown; there are {', '.join(KEYS)}")
    if op.remove:
        return
    if not (op.value > 0 and math.isfinite(op.value)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{op.key} = {op.value:g}: must be more than 0")
    if op.key in RATES_IN_BYTES and not op.value.is_integer():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{op.key} = {op.value:g}: must be a whole number of bytes a second"
        )
