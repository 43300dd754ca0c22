"""DeleteGroups (key 42), versions 0-2: remove empty groups with their offsets (KIP-229)."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators, why_not_here
from minikafka.broker.pacing import paced
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.wire.schema import Message

AUTHORIZATION: Final = (Each("groups_names", AclOperation.DELETE, ResourceType.GROUP),)

GROUPS_AT_ONCE = 500


async def handle(
    request: DeleteGroupsRequest, context: RequestContext, coordinators: Coordinators
) -> DeleteGroupsResponse:
    """One after the other; each is answered when its tombstones are committed."""
    wanted = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(
        results=[await _delete(group_id, coordinators) async for group_id in paced(wanted, GROUPS_AT_ONCE, context)]
    )


async def _delete(group_id: str, coordinators: Coordinators) -> DeletableGroupResult:
    shard = coordinators.groups.shard_of(group_id)
    if shard is None:
        return DeletableGroupResult(group_id=group_id, error_code=why_not_here(group_id))
    answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def settle(result: Message) -> None:
        if not answer.done():
            answer.set_result(result)

    shard.step(shard.coordinator.delete_group(group_id, settle, coordinators.clock.monotonic_ms()))
    result = await answer
    assert isinstance(result, DeletableGroupResult)
    return result
