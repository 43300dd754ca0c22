"""Quotas: bounds on what clients may ask of each broker (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.client.admin.base import AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from minikafka.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

DEFAULT: Final = None
"""As a name: all that have no quota of their own."""


class QuotaEntity(NamedTuple):
    """Whom a quota is for. ``has_user``: for a user, or DEFAULT; likewise ``has_client_id``."""

    user: str | None = None
    client_id: str | None = None
    has_user: bool = False
    has_client_id: bool = False

    def __str__(self) -> str:
        named = ((part.entity_type, part.entity_name) for part in _parts(self))
        return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in named)


class QuotaCalls(AdminCalls):
    """Calls about quotas."""

    async def describe_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas, by whom they are for and by name."""

        async def attempt() -> dict[QuotaEntity, dict[str, float]]:
            request = DescribeClientQuotasRequest()
            answer = await self._connections.call_once(request, DescribeClientQuotasResponse, self._answer_s)
            check(answer.error_code, answer.error_message, "describing quotas")
            return {
                _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                    value.key: value.value for value in entry.values
                }
                for entry in answer.entries or ()
            }

        return await self._retrying(attempt, "describing quotas")

    async def alter_quotas(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of an entity by name, or remove them (None); all or none.

        ``validate_only``: only find out whether that would be refused.
        """
        request = AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=_parts(entity),
                    ops=[
                        OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        )

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, AlterClientQuotasResponse, timeout_s=self._answer_s)
            for result in answer.entries:
                check(result.error_code, result.error_message, f"changing quotas of {entity}")

        await self._change(attempt, "changing quotas")


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return QuotaEntity(names.get("user"), names.get("client-id"), "user" in names, "client-id" in names)


def _parts(entity: QuotaEntity) -> list[EntityData]:
    named = (("user", entity.user, entity.has_user), ("client-id", entity.client_id, entity.has_client_id))
    return [EntityData(entity_type=kind, entity_name=name) for kind, name, is_named in named if is_named]
