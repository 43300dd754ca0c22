"""DeleteGroups (API key 42)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, int16, int32, string


class DeleteGroupsRequest(Message, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string, "0+")


class DeletableGroupResult(Message):
    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Message, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
