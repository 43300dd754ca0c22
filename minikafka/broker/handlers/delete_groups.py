"""DeleteGroups (key 42), versions 0-2: remove empty groups with their offsets (KIP-229)."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import why_not_here
from minikafka.broker.pacing import paced
from minikafka.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.wire.schema import Message

GROUPS_AT_ONCE = 500


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """One after the other; each is answered when its tombstones are committed."""
    groups = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(
        results=[await _delete(group_id, context) async for group_id in paced(groups, GROUPS_AT_ONCE)]
    )


async def _delete(group_id: str, context: RequestContext) -> DeletableGroupResult:
    shard = context.node.groups.shard_of(group_id)
    if shard is None:
        return DeletableGroupResult(group_id=group_id, error_code=why_not_here(group_id))
    answer = context.node.new_future()

    def settle(result: Message) -> None:
        if not answer.done():
            answer.set_result(result)

    shard.step(shard.coordinator.delete_group(group_id, settle, context.node.clock.monotonic_ms()))
    result = await answer
    assert isinstance(result, DeletableGroupResult)
    return result
