"""Each right of each API is asked for: who has all rights but that one is refused, with Apache Kafka's error; and no
other right is.

What is needed is what the handlers' rows say. A new API is asked for all of its row, by requests that are made of its
schema.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

import pytest
from broker_client import NEWEST_BY_NAME, Client
from broker_node import create_topic
from filled_requests import filled

from minikafka.broker.authorization import ERRORS, ByHandler, Each, EachConfigResource, Right, Whole
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.dispatch import AUTHENTICATION, handler_module
from minikafka.broker.node import Node
from minikafka.config.node import CLIENT
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from minikafka.wire.api import ApiKey
from minikafka.wire.error_codes import errors_of
from minikafka.wire.schema import Message, VersionRange

Rights = frozenset[Right]
"""Any of them will do."""

GROUP, TOPIC, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
KINDS: Final = (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID)
OPERATIONS: Final = [each for each in AclOperation if each is not AclOperation.ALL]
NAME: Final = "mine"
"""Of all that requests are about."""
OF_OTHER_REQUESTS: Final[set[tuple[ApiKey, Right]]] = {
    (ApiKey.FIND_COORDINATOR, (AclOperation.DESCRIBE, TRANSACTIONAL_ID)),
    (ApiKey.OFFSET_FETCH, (AclOperation.DESCRIBE, TOPIC)),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, (AclOperation.DESCRIBE, TOPIC)),
}
"""Than those that are sent here; in test_authorization."""
NEVER_REFUSED: Final = {
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""They answer with less, or the same to everyone."""
VERSIONS: Final = NEWEST_BY_NAME | {ApiKey.FETCH: 12, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.DELETE_TOPICS: 5}
"""The last that clients may use, or that names topics, where there are later ones."""
ASKED: Final = [key for key in ApiKey if CLIENT in key.listeners and key not in AUTHENTICATION]

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]


def needs_of(key: ApiKey) -> list[Rights]:
    """What the API needs, all of these."""
    needs: list[Rights] = []
    for need in handler_module(key).AUTHORIZATION:
        if isinstance(need, ByHandler):
            needs += [frozenset((right,)) for right in need.rights if (key, right) not in OF_OTHER_REQUESTS]
        elif isinstance(need, Whole):
            needs.append(frozenset((each, need.resource_type) for each in (need.operation, need.instead) if each))
        elif isinstance(need, EachConfigResource):
            needs.append(frozenset(((need.operation, TOPIC),)))  # requests here are about a topic
        elif isinstance(need, Each):
            on_cluster = () if need.on_cluster is None else ((need.on_cluster, CLUSTER),)
            needs.append(frozenset(((need.operation, need.resource_type), *on_cluster)))
    return needs


def deny(node: Node, rights: Iterable[Right]) -> None:
    """Everyone has all rights but these from now on. (A denial implies nothing, and none is implied by others.)"""
    acls = [_acl(AclOperation.ALL, kind, AclPermission.ALLOW) for kind in KINDS]
    acls += [_acl(*right, AclPermission.DENY) for right in rights]
    node.parts.part(Authorizer)._standard.update({acl.acl_id: acl for acl in acls})


def _acl(operation: AclOperation, kind: ResourceType, permission: AclPermission) -> AclBinding:
    name = CLUSTER_NAME if kind is CLUSTER else WILDCARD
    return AclBinding(kind, name, PatternType.LITERAL, "User:*", "*", operation, permission)


async def refusals(node: Node, client: Client, key: ApiKey) -> set[int]:
    """The errors of the answer that tell of a right."""
    version = VERSIONS.get(key, key.versions.last)
    topic = node.image.topic(NAME)
    request: Any = filled(key.request_class, version, NAME, UUID(int=0) if topic is None else topic.topic_id)
    if key is ApiKey.DESCRIBE_CLUSTER:
        request.endpoint_type = 1
    return set(errors_of(await client.ask(request, version))) & set(ERRORS.values())


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    alone = {"offsets_topic_replication_factor": 1, "offsets_topic_num_partitions": 1}
    started = await start_node(authorizer_class_name=STANDARD_AUTHORIZER, auto_create_topics_enable="false", **alone)
    await create_topic(started, NAME)
    return started


@pytest.fixture
async def client(node: Node, dial: Dial) -> Client:
    return await dial(node)


def test_each_api_has_rights_that_can_be_missed() -> None:
    assert {key for key in ASKED if not needs_of(key)} == NEVER_REFUSED


async def test_each_right_is_asked_for(node: Node, client: Client) -> None:
    wrong = []
    for key in ASKED:
        for need in needs_of(key):
            deny(node, need)
            errors = {ERRORS[kind] for _, kind in need} if len(need) == 1 else {_error_of(key, need)}
            if await refusals(node, client, key) != errors:
                wrong.append((key.camel_name, need, await refusals(node, client, key)))
    assert not wrong


async def test_any_of_several_rights_will_do(node: Node, client: Client) -> None:
    several = [(key, need) for key in ASKED for need in needs_of(key) if len(need) > 1]
    assert {key.camel_name for key, _ in several} == {
        "CreateTopics",
        "DeleteTopics",
        "OffsetForLeaderEpoch",
        "WriteTxnMarkers",
    }
    for key, need in several:
        for enough in need:
            deny(node, need - {enough})
            assert not await refusals(node, client, key), (key.camel_name, enough)


async def test_no_other_right_is_asked_for(node: Node, client: Client) -> None:
    for key in ASKED:
        needed = {right for need in needs_of(key) for right in need}
        deny(node, [(each, kind) for kind in KINDS for each in OPERATIONS if (each, kind) not in needed])
        assert not await refusals(node, client, key), key.camel_name


def _with_nothing(request: Any, version: int) -> Iterator[Any]:
    """The request with each field that may be null set to that, one after the other."""
    for name, field in type(request).SCHEMA.items():
        if not VersionRange.parse(field.versions).has(version):
            continue
        value = getattr(request, name)
        if field.nullable and VersionRange.parse(field.nullable).has(version):
            setattr(request, name, None)
            yield request
            setattr(request, name, value)
        for element in value if isinstance(value, list) else ():
            if isinstance(element, Message):
                for _ in _with_nothing(element, version):
                    yield request


async def test_who_names_nothing_is_answered(node: Node, client: Client) -> None:
    """Rows take names out of requests, and some versions let these be null."""
    for key in ASKED:
        version = key.versions.last
        named: Any = filled(key.request_class, version, NAME, UUID(int=0))
        for denied in ([(each, kind) for kind in KINDS for each in OPERATIONS], []):
            deny(node, denied)
            for request in _with_nothing(named, version):
                await client.ask(request, version)


def _error_of(key: ApiKey, need: Rights) -> int:
    """Of the resource that it is about; the cluster is only another way."""
    kinds = {kind for _, kind in need}
    return ERRORS[CLUSTER if kinds == {CLUSTER} else TOPIC]
