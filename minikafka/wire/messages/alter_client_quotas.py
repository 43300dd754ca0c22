"""AlterClientQuotas (API key 49)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, boolean, float64, int16, int32, string


class EntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Message):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class EntryData(Message):
    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class AlteredEntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class AlteredEntryData(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[AlteredEntityData] = array(AlteredEntityData, "0+")


class AlterClientQuotasResponse(Message, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    entries: list[AlteredEntryData] = array(AlteredEntryData, "0+")
