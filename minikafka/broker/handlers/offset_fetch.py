"""OffsetFetch (key 9), versions 1-9: what groups committed. A group that is not known has no offsets, and no error."""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.handlers.groups import why_not_here
from minikafka.broker.pacing import paced
from minikafka.groups import offset_fetch
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

GROUPS_AT_ONCE: Final = 10


async def handle(request: OffsetFetchRequest, context: RequestContext, groups: Groups) -> OffsetFetchResponse:
    """Ask each group's coordinator, once; others have their turn in between."""
    wanted = {group.group_id: group for group in offset_fetch.requested_groups(request, context.version)}
    found = [_fetch(group, groups) async for group in paced(wanted.values(), GROUPS_AT_ONCE)]
    return offset_fetch.response(request, found, context.version)


def _fetch(group: OffsetFetchRequestGroup, groups: Groups) -> OffsetFetchResponseGroup:
    shard = groups.shard_of(group.group_id)
    if shard is None:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=why_not_here(group.group_id))
    return shard.coordinator.fetch_offsets(group)
