"""DescribeClientQuotas (API key 48)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, boolean, float64, int8, int16, int32, string


class ComponentData(Message):
    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = string("0+", nullable="0+")


class DescribeClientQuotasRequest(Message, versions="0-1", flexible="1+"):
    components: list[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


class EntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ValueData(Message):
    key: str = string("0+")
    value: float = float64("0+")


class EntryData(Message):
    entity: list[EntityData] = array(EntityData, "0+")
    values: list[ValueData] = array(ValueData, "0+")


class DescribeClientQuotasResponse(Message, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[EntryData] | None = array(EntryData, "0+", nullable="0+")
