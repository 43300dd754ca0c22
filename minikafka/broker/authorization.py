"""What an API asks of who may use it, and what is refused for it.

Each handler's module has a row, ``AUTHORIZATION``: the rights that its requests need, as Apache Kafka has them::

    AUTHORIZATION: Final = (Whole(READ, GROUP, "group_id"), Each("topics", READ, TOPIC))

A request is authorised where it came in, before its handler sees it (docs/decisions/0034). What is refused as a whole
is answered here. Of a list, the handler gets those elements that are allowed, and a context that puts the refused ones
into its answer. So a handler knows nothing of rights, unless they depend on what it finds: that one's row has
:class:`ByHandler`, and it asks the ``Authorizer`` itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage
from minikafka.model import ZERO_TOPIC_ID
from minikafka.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.error_codes import errors_of
from minikafka.wire.refusals import refuse
from minikafka.wire.schema import Message

ERRORS: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
Right = tuple[AclOperation, ResourceType]
REFUSAL_COST: Final = 400
"""What a refused element costs the turn (``net.turns``)."""
AT_ONCE: Final = 500
"""Elements whose rights are looked at in a turn: some 3 ms."""


class Asker(NamedTuple):
    """Who asks, and what is known of their rights."""

    context: RequestContext
    authorizer: Authorizer
    image: MetadataImage


class Need(ABC):
    """A right that a request needs."""

    @abstractmethod
    def __str__(self) -> str:
        """As the documentation has it."""


@dataclass(frozen=True, slots=True)
class Anyone(Need):
    """None."""

    def __str__(self) -> str:
        return "anyone"


@dataclass(frozen=True, slots=True)
class ByHandler(Need):
    """The handler asks; what for, is said here. ``rights``: without each of them a request about what it is needed for
    is refused, in whole or in part, rather than answered with less."""

    what: str
    rights: tuple[Right, ...]

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class Whole(Need):
    """For all of the request. ``field`` of it has the name of the resource; the cluster has none.

    ``instead``: an operation that will do, too.
    """

    operation: AclOperation
    resource_type: ResourceType
    field: str = ""
    instead: AclOperation | None = None

    def __str__(self) -> str:
        either = "" if self.instead is None else f" or {self.instead.name}"
        return f"{self.operation.name}{either} on the {_shown(self.resource_type)}"

    def is_met(self, request: Message, asker: Asker) -> bool:
        """Whether the request may be handled."""
        name = getattr(request, self.field) if self.field else CLUSTER_NAME
        context, authorizer = asker.context, asker.authorizer
        if self.instead is not None and authorizer.sees(context, self.instead, self.resource_type, name):
            return True
        return authorizer.permits(context, self.operation, self.resource_type, name)


@dataclass(frozen=True, slots=True)
class Each(Need):
    """For each element of a list, whose ``field`` has the name of the resource, unless it is the name itself.

    A topic without a name is named by its id. An unknown id is refused here, too: by the time that the handler looks,
    it may be that of a topic that whoever asks has no right to. ``on_cluster``: an operation on the cluster that will
    do for all.
    """

    elements: str
    operation: AclOperation
    resource_type: ResourceType
    field: str = "name"
    on_cluster: AclOperation | None = None

    def __str__(self) -> str:
        either = "" if self.on_cluster is None else f", or {self.on_cluster.name} on the cluster"
        return f"{self.operation.name} on each {_shown(self.resource_type)}{either}"

    def resource(self, element: Any, image: MetadataImage) -> tuple[ResourceType, str] | None:
        """The resource that the element names; None for one that is not there."""
        name = element if isinstance(element, str) else getattr(element, self.field)
        topic_id = ZERO_TOPIC_ID if name else getattr(element, "topic_id", ZERO_TOPIC_ID)
        if topic_id == ZERO_TOPIC_ID:
            return self.resource_type, name or ""
        topic = image.topic_by_id(topic_id)
        return None if topic is None else (self.resource_type, topic.name)

    def take_refused(self, request: Message, asker: Asker) -> Generator[None, None, list[tuple[ErrorCode, list[Any]]]]:
        """Take the elements out of the request that are refused; they, by error. In steps."""
        context, authorizer = asker.context, asker.authorizer
        if self.on_cluster is not None and authorizer.sees(
            context, self.on_cluster, ResourceType.CLUSTER, CLUSTER_NAME
        ):
            return []
        kept: list[Any] = []
        refused: dict[ErrorCode, list[Any]] = {}
        for count, element in enumerate(getattr(request, self.elements) or ()):
            if count and count % AT_ONCE == 0:
                yield
            resource = self.resource(element, asker.image)
            if resource is None:
                refused.setdefault(ErrorCode.UNKNOWN_TOPIC_ID, []).append(element)
            elif authorizer.permits(context, self.operation, *resource):
                kept.append(element)
            else:
                refused.setdefault(ERRORS[resource[0]], []).append(element)
        if refused:
            setattr(request, self.elements, kept)
        return list(refused.items())


@dataclass(frozen=True, slots=True)
class EachConfigResource(Each):
    """For each resource of a request for settings; those of brokers are the cluster's."""

    TYPES: ClassVar[Mapping[int, ResourceType]] = {2: ResourceType.TOPIC, 32: ResourceType.GROUP}

    def __str__(self) -> str:
        return f"{self.operation.name} on each topic or group, on the cluster for brokers"

    def resource(self, element: Any, image: MetadataImage) -> tuple[ResourceType, str] | None:
        kind = self.TYPES.get(element.resource_type, ResourceType.CLUSTER)
        return kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else element.resource_name


Row = tuple[Need, ...]


@dataclass(slots=True, eq=False)
class PartlyRefused(RequestContext):
    """A request some of whose elements are refused. They are in the answer, after those of the handler."""

    refusals: tuple[Message, ...] = ()

    def encoded(self, response: Message) -> bytes:
        for refusal in self.refusals:
            for name, elements in _arrays(refusal):
                setattr(response, name, [*(getattr(response, name) or ()), *elements])
        return RequestContext.encoded(self, response)

    def send_around(self, response: Message, field: str, elements: list[bytes]) -> None:
        refused = [
            each for refusal in self.refusals for name, found in _arrays(refusal) if name == field for each in found
        ]
        for each in refused:
            self.note_errors(errors_of(each))
        RequestContext.send_around(
            self, response, field, [*elements, *(encode(each, self.version) for each in refused)]
        )


class Admission:
    """Of requests to a listener for clients, by the rows of the APIs."""

    def __init__(self, rows: Mapping[ApiKey, Row], authorizer: Authorizer) -> None:
        self._rows = rows
        self._authorizer = authorizer

    def admit(
        self, key: ApiKey, request: Message, context: RequestContext, image: MetadataImage
    ) -> Generator[None, None, RequestContext | None]:
        """In steps, if it names many: the context to handle the request with, or what is left of it; None: it is
        refused, and answered."""
        asker = Asker(context, self._authorizer, image)
        refusals: list[Message] = []
        for need in self._rows[key]:
            if isinstance(need, Whole) and not need.is_met(request, asker):
                _answer(context, [refuse(request, key.response_class, ERRORS[need.resource_type])])
                return None
            if isinstance(need, Each):
                taken = yield from need.take_refused(request, asker)
                is_long = sum(len(refused) for _, refused in taken) > AT_ONCE
                if is_long:
                    yield
                refusals += _refusals(key, request, need.elements, taken, context)
                if is_long:
                    yield
                if taken and not getattr(request, need.elements):
                    _answer(context, refusals)
                    return None
        return _partly(context, refusals) if refusals else context


def _refusals(
    key: ApiKey,
    request: Message,
    elements: str,
    taken: Iterable[tuple[ErrorCode, list[Any]]],
    context: RequestContext,
) -> list[Message]:
    kept, refusals = getattr(request, elements), []
    for code, refused in taken:
        context.connection.spend(REFUSAL_COST * len(refused))
        setattr(request, elements, refused)
        refusal = refuse(request, key.response_class, code)
        if "error_code" in type(refusal).SCHEMA:
            refusal.error_code = ErrorCode.NONE  # type: ignore[attr-defined]  # of the whole
        refusals.append(refusal)
    setattr(request, elements, kept)
    return refusals


def _answer(context: RequestContext, refusals: list[Message]) -> None:
    last = refusals[-1]
    (_partly(context, refusals[:-1]) if refusals[:-1] else context).send(last)


def _partly(context: RequestContext, refusals: Iterable[Message]) -> PartlyRefused:
    return PartlyRefused(
        context.connection,
        context.reply,
        context.api_key,
        context.version,
        context.correlation_id,
        context.client_id,
        context.throttle_ms,
        context.may_wait_for_controller,
        refusals=tuple(refusals),
    )


def _arrays(refusal: Message) -> list[tuple[str, list[Any]]]:
    """The lists of its elements."""
    names = (name for name, field in type(refusal).SCHEMA.items() if field.array)
    return [(name, found) for name in names if (found := getattr(refusal, name))]


def _shown(resource_type: ResourceType) -> str:
    return resource_type.name.lower().replace("_", " ")
