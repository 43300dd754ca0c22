"""BrokerHeartbeat (API key 63): a broker tells the controller that it is alive."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, boolean, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Message, versions="1", flexible="0+"):
    """``current_metadata_offset``: of the last metadata record that the broker has replayed (its image's ``offset``).
    ``offline_log_dirs``: ids of directories that failed since it registered."""

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+")
    want_fence: bool = boolean("0+")
    want_shut_down: bool = boolean("0+")
    offline_log_dirs: list[UUID] = array(uuid, "1+", tag=0)


class BrokerHeartbeatResponse(Message, versions="1", flexible="0+"):
    """``is_caught_up``: the broker has seen its own registration in the metadata log. ``should_shut_down``: its
    leaderships have moved and the others know."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+")
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+")
