"""AlterConfigs (API key 33)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, boolean, int8, int16, int32, string


class AlterableConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class AlterConfigsResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


class AlterConfigsRequest(Message, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResourceResponse(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


class AlterConfigsResponse(Message, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
