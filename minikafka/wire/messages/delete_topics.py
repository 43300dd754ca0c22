"""DeleteTopics (API key 20)."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, boolean, int16, int32, string, uuid


class DeleteTopicState(Message):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: UUID = uuid("6+")


class DeleteTopicsRequest(Message, versions="1-6", flexible="4+"):
    """The tagged fields are our own, from a node to the controller: the client that asked for it, its user, and whether its
    version knows THROTTLING_QUOTA_EXCEEDED. None: the node itself."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5")
    timeout_ms: int = int32("0+")
    client_id: str | None = string("4+", nullable="4+", default=None, tag=10_000)
    knows_quotas: bool = boolean("4+", tag=10_001)
    user: str = string("4+", tag=10_002)


class DeletableTopicResult(Message):
    name: str | None = string("0+", nullable="6+", default=None)
    topic_id: UUID = uuid("6+")
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
