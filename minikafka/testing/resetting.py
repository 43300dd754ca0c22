"""A cluster as it was when it was new: all that clients made is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from minikafka.client import Admin, Security
from minikafka.client.admin.configs import ALL_BROKERS, BROKER_RESOURCE, GROUP_RESOURCE

SETTINGS: Final = {"delete.internal.topics.enable": "true"}
"""What the brokers must allow."""


async def delete_everything(bootstrap_servers: str, security: Security, brokers: Iterable[int]) -> frozenset[UUID]:
    """Topics with groups, offsets and transactional ids; quotas; settings of groups and brokers; levels of features.

    Returns the ids of the topics. There may be others of the same names at once: clients create what they miss.
    """
    async with Admin(bootstrap_servers, security=security) as admin:
        topics, quotas, groups, features = await asyncio.gather(
            admin.list_topics(internal=True),
            admin.describe_quotas(),
            admin.list_config_resources(GROUP_RESOURCE),
            admin.describe_features(),
        )
        configured = [(GROUP_RESOURCE, group) for group in groups]
        configured += [(BROKER_RESOURCE, broker) for broker in (ALL_BROKERS, *map(str, brokers))]
        lowered = {name: each.highest for name, each in features.items() if each.level < each.highest}
        changes = [admin.clear_resources(configured)]
        changes += (admin.alter_quotas(entity, dict.fromkeys(values)) for entity, values in quotas.items())
        if topics:
            changes.append(admin.delete_topics(topic.name for topic in topics))
        if lowered:
            changes.append(admin.update_features(lowered))
        await asyncio.gather(*changes)
    return frozenset(topic.topic_id for topic in topics)
