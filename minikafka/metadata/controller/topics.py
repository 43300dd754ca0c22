"""Creation and deletion of topics, and new partitions for them (row C5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.assignment import Candidate, Load, assign_replicas
from minikafka.metadata.controller.configs import canonical_topic_setting, check_topic_settings
from minikafka.metadata.controller.partition_change import directories_of
from minikafka.metadata.controller.state import ControllerState, unknown_topic, unknown_topic_id
from minikafka.metadata.image import BrokerImage, TopicImage
from minikafka.metadata.records import (
    ConfigRecord,
    ConfigResourceType,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
)
from minikafka.metadata.topic_names import check_topic_name, plain_name
from minikafka.model import INTERNAL_TOPICS
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from minikafka.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

PARTITIONS_PER_REQUEST_MAX: Final = 2_000  # the records of a request are replayed into each image in one turn
TOPICS_AT_ONCE: Final = 100
"""Topics of a portion: to create one takes some 150 microseconds."""

UNSET: Final = -1

T = TypeVar("T")


class _Request:
    """State of one request, for all its topics: brokers, the cluster's load, remaining room."""

    def __init__(self, state: ControllerState) -> None:
        self.state = state
        self._names: dict[str | None, str] | None = None  # by what they may not have in common
        self.candidates = [Candidate(b.broker_id, b.rack, _is_usable(b)) for b in state.image.brokers.values()]
        self.load = Load(partition.replicas for _, _, partition in state.image.partitions())
        self._left = PARTITIONS_PER_REQUEST_MAX

    def check_collision(self, name: str) -> None:
        """KafkaError(INVALID_TOPIC_EXCEPTION) if an earlier topic's name differs only in '.' and '_'."""
        plain = plain_name(name)
        if plain is None:
            return
        if self._names is None:
            self._names = {plain_name(other): other for other in self.state.image.topics_by_name}
        other = self._names.get(plain)
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} collides with {other!r}: names that differ only in '.' and '_' cannot be told apart",
            )

    def note_name(self, name: str) -> None:
        """There will be a topic of this name."""
        if self._names is not None and (plain := plain_name(name)) is not None:
            self._names[plain] = name

    def take(self, partitions: int) -> None:
        """Count partitions to create; KafkaError(POLICY_VIOLATION) for too many in one request."""
        if partitions > self._left:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"one request creates at most {PARTITIONS_PER_REQUEST_MAX} partitions"
            )
        self._left -= partitions

    def accept(self, assignments: Sequence[Sequence[int]], *, validate_only: bool) -> None:
        """After the assignment of replicas, which holds for later topics if it is accepted.

        KafkaError: POLICY_VIOLATION if a broker cannot keep so many logs open, THROTTLING_QUOTA_EXCEEDED if whoever
        asks has to wait; what is only validated is not counted.
        """
        added = Counter(broker_id for replicas in assignments for broker_id in replicas)
        try:
            self._check_room(added)
            if not validate_only:
                self.state.accept_partitions(len(assignments))
        except KafkaError:
            self.load.replicas.subtract(added)
            raise

    def _check_room(self, added: Iterable[int]) -> None:
        limit = self.state.replicas_per_broker_max
        crowded = next((broker_id for broker_id in sorted(added) if self.load.replicas[broker_id] > limit), None)
        if crowded is not None:
            message = (
                f"broker {crowded} would have {self.load.replicas[crowded]} replicas; with the controller's limit of "
                f"open files a broker may have {limit}. Raise the limit (ulimit -n), or create fewer partitions"
            )
            raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _is_usable(broker: BrokerImage) -> bool:
    return not broker.fenced and not broker.in_controlled_shutdown


# -- creation ---------------------------------------------------------------------------------------------------------


def create_topics(state: ControllerState, request: CreateTopicsRequest) -> Callable[[], CreateTopicsResponse]:
    """Create each topic on its own, in portions: a refused one does not affect the others. A topic that is named twice
    has one result. -1 takes the node's default; with ``assignments`` both numbers must be -1. The handler adds the
    settings to the answer.

    Errors of a topic: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION, THROTTLING_QUOTA_EXCEEDED.
    """
    asked, response = _Request(state), CreateTopicsResponse(topics=[])
    topics, repeated = _once([topic.name for topic in request.topics], request.topics)

    def create(name: str, topic: CreatableTopic) -> tuple[CreatableTopicResult, Sequence[Record]]:
        try:
            _refuse_repeated(name, repeated)
            return _create(asked, topic, request.validate_only)
        except KafkaError as error:
            return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message), ()

    def carried_out() -> Iterator[Sequence[Record]]:
        for name, topic in topics.items():
            result, records = create(name, topic)
            response.topics.append(result)
            yield records

    state.postpone(carried_out(), TOPICS_AT_ONCE)
    return lambda: response


def _create(
    request: _Request, topic: CreatableTopic, validate_only: bool
) -> tuple[CreatableTopicResult, Sequence[Record]]:
    state = request.state
    _check_new_name(request, topic.name)
    configs = _checked_configs(topic.configs)
    if configs:
        check_topic_settings(state, configs)
    assignments = _manual(request, topic) if topic.assignments else _automatic(request, topic)
    request.accept(assignments, validate_only=validate_only)
    created = CreatableTopicResult(
        name=topic.name, error_message=None, num_partitions=len(assignments), replication_factor=len(assignments[0])
    )
    if validate_only:
        return created, ()
    topic_id = created.topic_id = state.new_topic_id()
    resource = ConfigResourceType.TOPIC
    records: list[Record] = [TopicRecord(topic.name, topic_id)]
    records += (ConfigRecord(resource, topic.name, name, value) for name, value in configs.items())
    records += _new_partitions(state, topic_id, 0, assignments)
    request.note_name(topic.name)
    return created, records


def _check_new_name(request: _Request, name: str) -> None:
    check_topic_name(name)
    if request.state.image.topic(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    request.check_collision(name)


def _checked_configs(configs: Iterable[CreatableTopicConfig]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for config in configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{config.name} has no value")
        checked[config.name] = canonical_topic_setting(config.name, config.value)
    return checked


def _automatic(request: _Request, topic: CreatableTopic) -> list[tuple[int, ...]]:
    """Replicas chosen here, by the numbers of the request or the node's defaults."""
    config = request.state.config
    partitions = config.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
    factor = config.default_replication_factor if topic.replication_factor == UNSET else topic.replication_factor
    if partitions < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic has 1 partition or more, not {partitions}")
    if factor < 1:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"a topic has 1 replica or more, not {factor}")
    request.take(partitions)
    return assign_replicas(partitions, factor, request.candidates, request.state.rng, cluster=request.load)


def _manual(request: _Request, topic: CreatableTopic) -> list[tuple[int, ...]]:
    """Replicas of the request."""
    if topic.num_partitions != UNSET or topic.replication_factor != UNSET:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "with an assignment, neither partitions nor a replication factor can be given"
        )
    by_index = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
    if sorted(by_index) != list(range(len(topic.assignments))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an assignment must name each partition from 0 on exactly once"
        )
    request.take(len(by_index))
    assignments = [by_index[index] for index in range(len(by_index))]
    _check_manual(request, assignments, len(assignments[0]))
    return assignments


def _check_manual(request: _Request, assignments: Sequence[Sequence[int]], replication_factor: int) -> None:
    known = {candidate.broker_id: candidate for candidate in request.candidates}
    for replicas in assignments:
        unknown = [broker_id for broker_id in replicas if broker_id not in known]
        if not replicas:
            problem = "a partition has no replicas"
        elif len(set(replicas)) != len(replicas):
            problem = f"duplicate broker in replicas {list(replicas)}"
        elif unknown:
            problem = f"broker {unknown[0]} is not registered"
        elif len(replicas) != replication_factor:
            problem = f"replicas {list(replicas)} are not {replication_factor}, as in the other partitions"
        elif not any(known[broker_id].usable for broker_id in replicas):
            problem = f"all of the replicas {list(replicas)} are fenced or stopping"
        else:
            request.load.add(replicas)
            continue
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _new_partitions(
    state: ControllerState, topic_id: UUID, first: int, assignments: Sequence[Sequence[int]]
) -> Iterable[PartitionRecord]:
    """Leader epochs begin above those of deleted partitions (decision 0031)."""
    for index, replicas in enumerate(assignments, start=first):
        isr = tuple(broker_id for broker_id in replicas if _is_usable(state.image.brokers[broker_id]))
        assert isr, "a new partition has a usable replica"
        directories = directories_of(map(state.directory_for, replicas))
        yield PartitionRecord(
            topic_id,
            index,
            tuple(replicas),
            isr,
            leader=isr[0],
            leader_epoch=state.image.first_leader_epoch,
            first_leader_epoch=state.image.first_leader_epoch,
            directories=directories,
        )


# -- deletion ---------------------------------------------------------------------------------------------------------


def delete_topics(state: ControllerState, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each topic on its own, by name or by id. Brokers delete the logs once the record is committed.

    Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED, INVALID_REQUEST,
    THROTTLING_QUOTA_EXCEEDED.
    """
    records: dict[UUID, RemoveTopicRecord] = {}  # written at once: each write copies the table of all topics
    results = [_delete(state, topic, records) for topic in request.topics]
    state.write(*records.values())
    return DeleteTopicsResponse(responses=results)


def _delete(
    state: ControllerState, named: DeleteTopicState, records: dict[UUID, RemoveTopicRecord]
) -> DeletableTopicResult:
    try:
        topic = _named(state, named, records)
        if not state.config.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        if not state.config.delete_internal_topics_enable:
            _refuse_internal(topic.name)
        state.accept_partitions(len(topic.partitions))
    except KafkaError as error:
        return DeletableTopicResult(
            name=named.name, topic_id=named.topic_id, error_code=error.code, error_message=error.message
        )
    records[topic.topic_id] = RemoveTopicRecord(topic.topic_id)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _named(state: ControllerState, named: DeleteTopicState, deleted: Container[UUID]) -> TopicImage:
    """Those that are ``deleted`` are there no more, if they are named again."""
    if named.name is None:
        topic = state.topic_by_id(named.topic_id)
        if topic.topic_id in deleted:
            raise unknown_topic_id(named.topic_id)
        return topic
    if named.topic_id.int:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "name a topic by its name or by its id, not by both")
    topic = state.topic(named.name)
    if topic.topic_id in deleted:
        raise unknown_topic(named.name)
    return topic


# -- more partitions --------------------------------------------------------------------------------------------------


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest
) -> Callable[[], CreatePartitionsResponse]:
    """Add partitions to each topic on its own, in portions. A topic that is named twice has one result.

    Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR, INVALID_REQUEST, POLICY_VIOLATION, THROTTLING_QUOTA_EXCEEDED.
    """
    asked, response = _Request(state), CreatePartitionsResponse(results=[])
    topics, repeated = _once([topic.name for topic in request.topics], request.topics)

    def carried_out() -> Iterator[Iterable[Record]]:
        for name, topic in topics.items():
            result = CreatePartitionsTopicResult(name=name)
            records: Iterable[Record] = ()
            try:
                _refuse_repeated(name, repeated)
                records = _extend(asked, topic, request.validate_only)
            except KafkaError as error:
                result = CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
            response.results.append(result)
            yield records

    state.postpone(carried_out(), TOPICS_AT_ONCE)
    return lambda: response


def _extend(request: _Request, wanted: CreatePartitionsTopic, validate_only: bool) -> Iterable[PartitionRecord]:
    state = request.state
    topic = state.topic(wanted.name)
    _refuse_internal(topic.name)
    present = len(topic.partitions)
    if wanted.count <= present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name} has {present} partitions; the new total must be higher, not {wanted.count}",
        )
    request.take(wanted.count - present)
    existing = [partition.target_replicas for _, partition in sorted(topic.partitions.items())]
    factor = len(existing[0])
    if wanted.assignments is None:
        assignments = assign_replicas(
            wanted.count - present, factor, request.candidates, state.rng, existing=existing, cluster=request.load
        )
    else:
        assignments = [tuple(each.broker_ids) for each in wanted.assignments]
        if len(assignments) != wanted.count - present:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{wanted.count - present} new partitions, but {len(assignments)} assignments",
            )
        _check_manual(request, assignments, factor)
    request.accept(assignments, validate_only=validate_only)
    return () if validate_only else _new_partitions(state, topic.topic_id, present, assignments)


# -- shared -----------------------------------------------------------------------------------------------------------


def _once(names: Sequence[str], items: Iterable[T]) -> tuple[dict[str, T], Mapping[str, int]]:
    """The items by name, and the count of each name."""
    return dict(zip(names, items, strict=True)), Counter(names)


def _refuse_repeated(name: str, counts: Mapping[str, int]) -> None:
    if counts[name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name!r} is in the request {counts[name]} times")


def _refuse_internal(name: str) -> None:
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} is internal; clients cannot change it")
