"""Settings of topics and groups, and dynamic settings of brokers (KIP-339).

``min.insync.replicas`` is more than a setting: leaders commit by it, and the controller decides by it which replicas
may lead later (``partition_change``). Both must use the same value. So it is never one node's own: the first controller
with a configured value makes it a setting of the whole cluster. A raised value gives every affected partition a new
partition epoch, in the same batch: a leader that has not heard of it cannot change an ISR any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from minikafka.config import BrokerConfig, ConfigError, GroupConfig, TopicConfig
from minikafka.config.broker import NOBODY_CONNECTS, out_of_bounds, parse_dynamic_setting
from minikafka.config.kinds import ConfigType
from minikafka.config.setting import Setting
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.partitions import renew_partition_epochs, settle_topics
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.effective import EVERY_BROKER
from minikafka.metadata.image import ConfigResource
from minikafka.metadata.records import ConfigRecord, ConfigResourceType
from minikafka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from minikafka.wire.messages.alter_configs import (
    AlterConfigsResource as ReplacedResource,
)
from minikafka.wire.messages.alter_configs import (
    AlterConfigsResourceResponse as ReplacedResourceResponse,
)
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

MIN_INSYNC_REPLICAS: Final = TopicConfig.min_insync_replicas.name
DECISIVE: Final = {TopicConfig.unclean_leader_election_enable.name, MIN_INSYNC_REPLICAS}
"""What the controller goes by when it names leaders."""
GROUPS_MAX: Final = 10_000
"""Groups with settings of their own: each node keeps them all, and a group need not exist for it."""
GROUP_NAME_MAX: Final = 1000
"""Characters of the id of such a group."""


def canonical_topic_setting(name: str, value: str) -> str:
    """The value in the form of the record. Raises KafkaError(INVALID_CONFIG) for an invalid value of a topic."""
    return _canonical(TopicConfig.rows(), TopicConfig.parse, name, value)


def check_topic_settings(state: ControllerState, own: Mapping[str, str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) if a topic's own settings contradict one another, or those of the node."""
    config = TopicConfig(own, state.config)
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least > most:
        message = f"min.compaction.lag.ms = {least} is more than max.compaction.lag.ms = {most}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def canonical_group_setting(name: str, value: str) -> str:
    """The value in the form of the record. Raises KafkaError(INVALID_CONFIG) for an invalid value of a group."""
    return _canonical(GroupConfig.rows(), GroupConfig.parse, name, value)


def check_group_settings(state: ControllerState, own: Mapping[str, str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) if a group's own settings are out of the node's bounds."""
    if problems := GroupConfig(own, state.config).problems():
        raise KafkaError(ErrorCode.INVALID_CONFIG, "; ".join(problems))


def check_broker_settings(state: ControllerState, own: Mapping[str, str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) if what is set of a broker, or of all, would let no client in again, or is out
    of the bounds of this node."""
    if own.get(BrokerConfig.max_connections_per_ip.name) == "0" and not own.get(
        BrokerConfig.max_connections_per_ip_overrides.name
    ):
        raise KafkaError(ErrorCode.INVALID_CONFIG, NOBODY_CONNECTS)
    if problems := list(out_of_bounds(state.static_config.overridden(own, {}))):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "; ".join(problems))


def canonical_broker_setting(name: str, value: str) -> str:
    """The value in the form of the record.

    Raises KafkaError: INVALID_CONFIG for an invalid value, INVALID_REQUEST for a setting that is read at the start.
    """
    row = BrokerConfig.rows().get(name)
    if row is not None and not row.dynamic:
        message = f"{name} is read when a node starts; set it in the node's configuration and restart it"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return _canonical(BrokerConfig.rows(), parse_dynamic_setting, name, value)


def _canonical(rows: Mapping[str, Setting[Any]], parse: Callable[[str, str], Any], name: str, value: str) -> str:
    try:
        parsed = parse(name, value)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return rows[name].kind.format(parsed)


ROWS: Final = {
    ConfigResourceType.TOPIC: TopicConfig.rows(),
    ConfigResourceType.BROKER: BrokerConfig.rows(),
    ConfigResourceType.GROUP: GroupConfig.rows(),
}
CANONICAL: Final = {
    ConfigResourceType.TOPIC: canonical_topic_setting,
    ConfigResourceType.BROKER: canonical_broker_setting,
    ConfigResourceType.GROUP: canonical_group_setting,
}
CHECKS: Final = {
    ConfigResourceType.TOPIC: check_topic_settings,
    ConfigResourceType.BROKER: check_broker_settings,
    ConfigResourceType.GROUP: check_group_settings,
}


class AlterConfigOp(IntEnum):
    """Operation on a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def alter_configs(state: ControllerState, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change settings of topics or groups, or dynamic settings of brokers. Per resource all changes are made, or none.
    A resource that is named twice has one result.

    Errors of a resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION when too many
    groups have settings.
    """
    room = _RoomForGroups(state)
    altered = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results = []
    records: list[ConfigRecord] = []  # each write copies the list of all resources with settings, however many
    for (kind, name), resource in altered.items():
        result = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
        try:
            if counts[kind, name] > 1:
                message = f"{name!r} is in the request {counts[kind, name]} times"
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            records += _alter(state, resource, room, validate_only=request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    _write(state, records)
    return IncrementalAlterConfigsResponse(responses=results)


def replace_configs(state: ControllerState, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """All settings of the resources at once: what is not named goes (KIP-133).

    As :func:`alter_configs` otherwise.
    """
    resources = [_replacement(state, resource) for resource in request.resources]
    altered = alter_configs(
        state, IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)
    )
    return AlterConfigsResponse(
        responses=[
            ReplacedResourceResponse(
                error_code=each.error_code,
                error_message=each.error_message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in altered.responses
        ]
    )


def _replacement(state: ControllerState, asked: ReplacedResource) -> AlterConfigsResource:
    operations = [
        AlterableConfig(name=config.name, value=config.value, config_operation=AlterConfigOp.SET)
        for config in asked.configs
    ]
    named = {config.name for config in asked.configs}
    if asked.resource_type in set(ConfigResourceType):
        before = state.image.config_of(ConfigResource(ConfigResourceType(asked.resource_type), asked.resource_name))
        operations += (
            AlterableConfig(name=name, value=None, config_operation=AlterConfigOp.DELETE)
            for name in before
            if name not in named
        )
    return AlterConfigsResource(
        resource_type=asked.resource_type, resource_name=asked.resource_name, configs=operations
    )


class _RoomForGroups:
    """For groups that have no settings yet, in one request."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._left: int | None = None  # not counted yet

    def take(self, group_id: str) -> None:
        """One more; KafkaError if it may have none."""
        if len(group_id) > GROUP_NAME_MAX:
            message = f"a group with settings of its own has an id of {GROUP_NAME_MAX} characters at most"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if self._left is None:
            group = ConfigResourceType.GROUP
            self._left = GROUPS_MAX - sum(each.resource_type is group for each in self._state.image.configs)
        if self._left <= 0:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{GROUPS_MAX} groups have settings of their own")
        self._left -= 1


def _alter(
    state: ControllerState, asked: AlterConfigsResource, room: _RoomForGroups, *, validate_only: bool
) -> list[ConfigRecord]:
    """Records that are still to be written: nothing else in the request depends on them."""
    resource = _resource(state, asked)
    before = state.image.config_of(resource)
    after = dict(before)
    counts = Counter(config.name for config in asked.configs)
    for operation in asked.configs:
        if counts[operation.name] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"duplicate setting {operation.name}")
        _operate(state, resource, after, operation)
    if resource == EVERY_BROKER:
        after = _configured_minimum(state) | after
    if after and resource.resource_type in CHECKS:
        CHECKS[resource.resource_type](state, after)
    if after and not before and resource.resource_type is ConfigResourceType.GROUP:
        room.take(resource.name)
    if validate_only:
        return []
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    records = [ConfigRecord(*resource, name, after.get(name)) for name in changed]
    if resource.resource_type is not ConfigResourceType.BROKER:
        return records
    if DECISIVE.isdisjoint(changed):
        state.write(*records)
    else:
        _write_decisive_of_all(state, records)
    return []


def _write(state: ControllerState, records: Sequence[ConfigRecord]) -> None:
    """Change settings of topics and groups, and settle the topics whose elections they affect."""
    named = {each.resource_name for each in records if _is_decisive_of_topic(each)}
    topics = [state.topic(name) for name in sorted(named)]
    before = [state.topic_config(topic.name).min_insync_replicas for topic in topics]
    state.write(*records)
    if topics:
        settle_topics(state, topics)
    pairs = zip(topics, before, strict=True)
    raised = [topic for topic, minimum in pairs if state.topic_config(topic.name).min_insync_replicas > minimum]
    if raised:
        renew_partition_epochs(state, raised)


def _is_decisive_of_topic(record: ConfigRecord) -> bool:
    return record.resource_type is ConfigResourceType.TOPIC and record.name in DECISIVE


def _write_decisive_of_all(state: ControllerState, records: Iterable[ConfigRecord]) -> None:
    """Change settings of brokers that affect elections, and settle all partitions. Topics are read in portions: the
    settings of 20,000 topics take most of a second."""
    before = state.config.min_insync_replicas
    state.write(*records)
    settle_topics(state, state.image.topics())
    if state.config.min_insync_replicas > before:
        image = state.image
        shared = (topic for topic in image.topics() if MIN_INSYNC_REPLICAS not in image.topic_overrides(topic.name))
        renew_partition_epochs(state, shared)


def share_min_insync_replicas(state: ControllerState) -> None:
    """This node's configured value becomes the cluster's, unless the cluster has one."""
    minimum = _configured_minimum(state)
    if minimum and MIN_INSYNC_REPLICAS not in state.image.config_of(EVERY_BROKER):
        state.write(ConfigRecord(*EVERY_BROKER, MIN_INSYNC_REPLICAS, minimum[MIN_INSYNC_REPLICAS]))
        renew_partition_epochs(state, state.image.topics())


def _configured_minimum(state: ControllerState) -> dict[str, str]:
    """What this node shares as a setting of the whole cluster that has none of its own."""
    minimum = state.static_config.min_insync_replicas
    return {} if minimum == BrokerConfig.min_insync_replicas.default else {MIN_INSYNC_REPLICAS: str(minimum)}


def _resource(state: ControllerState, asked: AlterConfigsResource) -> ConfigResource:
    name = asked.resource_name
    if asked.resource_type == ConfigResourceType.TOPIC:
        state.topic(name)
        return ConfigResource(ConfigResourceType.TOPIC, name)
    if asked.resource_type == ConfigResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the group has no name; each group has settings of its own")
        return ConfigResource(ConfigResourceType.GROUP, name)
    if asked.resource_type != ConfigResourceType.BROKER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no settings to change here"
        )
    if name and not (name.isdecimal() and len(name) < 10 and state.image.broker(int(name)) is not None):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {name!r} not found; an empty name means every broker")
    return ConfigResource(ConfigResourceType.BROKER, str(int(name)) if name else "")


def _operate(
    state: ControllerState,
    resource: ConfigResource,
    after: dict[str, str],
    operation: AlterableConfig,
) -> None:
    """Carry out one operation on the values ``after``."""
    canonical = CANONICAL[resource.resource_type]
    name, value = operation.name, operation.value
    if name == MIN_INSYNC_REPLICAS and resource.resource_type is ConfigResourceType.BROKER and resource != EVERY_BROKER:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} is one for the whole cluster; name no broker, or set it on topics"
        )
    if resource == EVERY_BROKER and _is_of_one_node(name) and operation.config_operation != AlterConfigOp.DELETE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is of one broker; name it")
    if operation.config_operation == AlterConfigOp.DELETE:
        after.pop(name, None)  # whatever the name, as in Kafka
    elif value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no value")
    elif operation.config_operation == AlterConfigOp.SET:
        after[name] = canonical(name, value)
    elif operation.config_operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT):
        row = _check_known(resource, name)
        if row.kind.config_type is not ConfigType.LIST:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not a list; set it instead")
        is_topic = resource.resource_type is ConfigResourceType.TOPIC
        config = state.topic_config(resource.name) if is_topic else state.config
        after[name] = canonical(name, _combined(getattr(config, row.attribute), value, operation.config_operation))
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{operation.config_operation} is not an operation on settings")


def _is_of_one_node(name: str) -> bool:
    row = BrokerConfig.rows().get(name)
    return row is not None and row.of_one_node


def _check_known(resource: ConfigResource, name: str) -> Setting[Any]:
    row = ROWS[resource.resource_type].get(name)
    if row is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"setting {name!r} not found")
    return row


def _combined(present: tuple[str, ...], value: str, op: int) -> str:
    items = dict.fromkeys(item.strip() for item in value.split(","))
    if op == AlterConfigOp.SUBTRACT:
        return ",".join(item for item in present if item not in items)
    return ",".join(dict.fromkeys([*present, *items]))
