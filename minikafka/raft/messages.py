"""Requests and answers of the quorum, and their wire format.

They are KRaft's (KIP-595, KIP-630, KIP-996), reduced to one log: Vote (with the pre-vote flag), BeginQuorumEpoch,
EndQuorumEpoch, Fetch, FetchSnapshot. Every request has the cluster id and the sender's epoch. Every answer has an
error code, the sender's epoch and its leader: so any exchange brings both sides up to date.

``to_wire`` makes a list of plain values for msgpack: a tag, then the fields in order. ``message_from_wire`` is its
strict inverse: it raises :class:`MalformedMessageError` for any other value. A field's annotation names its rule
(``NodeId``, ``Offset``, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, TypeAlias

from minikafka.errors import ErrorCode
from minikafka.model import OffsetAndEpoch

Text: TypeAlias = str
NodeId: TypeAlias = int
Epoch: TypeAlias = int
Offset: TypeAlias = int
Size: TypeAlias = int
Flag: TypeAlias = bool
Blob: TypeAlias = bytes
NodeIds: TypeAlias = tuple[int, ...]

_MAX_NODES: Final = 1_000
_MAX_TEXT: Final = 255


class MalformedMessageError(ValueError):
    """The value is no message of the quorum; the text names the wrong field."""


class Message:
    """Base of the dataclasses below: the tag on the wire, encoding and decoding."""

    __slots__ = ()
    TAG: ClassVar[str]
    ADDED: ClassVar[int] = 0
    """How many of the last fields earlier versions do not know. Each is a flag, and on the wire only if it is set."""

    def to_wire(self) -> list[object]:
        """A list of str, int, bool, bytes, None and lists of them."""
        wire = [self.TAG, *(_plain(getattr(self, field.name)) for field in fields(self))]  # type: ignore[arg-type]
        for _ in range(self.ADDED):
            if not wire[-1]:
                wire.pop()
        return wire


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, ErrorCode) else value


@dataclass(frozen=True, slots=True)
class VoteRequest(Message):
    """Asks for a vote in ``epoch``. A pre-vote asks whether the receiver would grant it; it has the sender's
    current epoch and changes nothing. ``last`` is the end of the sender's log; ``is_blank``: it never had a record."""

    TAG: ClassVar[str] = "Vote"
    cluster_id: Text
    candidate_id: NodeId
    epoch: Epoch
    last: OffsetAndEpoch
    pre_vote: Flag
    is_blank: Flag = False


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest(Message):
    """The leader announces itself to a voter that does not fetch from it."""

    TAG: ClassVar[str] = "BeginQuorumEpoch"
    cluster_id: Text
    leader_id: NodeId
    leader_epoch: Epoch


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest(Message):
    """The leader resigned. The first of ``preferred_successors`` stands at once, the others a little later."""

    TAG: ClassVar[str] = "EndQuorumEpoch"
    cluster_id: Text
    leader_id: NodeId
    leader_epoch: Epoch
    preferred_successors: NodeIds


@dataclass(frozen=True, slots=True)
class FetchRequest(Message):
    """``end`` is the end of the sender's log, which is flushed: the leader counts it.
    ``high_watermark`` is the sender's; the leader answers at once if its own is larger (KIP-1166)."""

    TAG: ClassVar[str] = "Fetch"
    cluster_id: Text
    replica_id: NodeId
    leader_epoch: Epoch
    end: OffsetAndEpoch
    high_watermark: Offset
    max_wait_ms: Size
    max_bytes: Size


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest(Message):
    """Asks for the bytes of a snapshot from ``position`` on."""

    TAG: ClassVar[str] = "FetchSnapshot"
    cluster_id: Text
    replica_id: NodeId
    leader_epoch: Epoch
    snapshot_id: OffsetAndEpoch
    position: Offset
    max_bytes: Size


@dataclass(frozen=True, slots=True)
class VoteResponse(Message):
    """Answers VoteRequest. ``is_blank``: a blank candidate is refused by a voter that never had a record either."""

    TAG: ClassVar[str] = "VoteAnswer"
    ADDED: ClassVar[int] = 1
    error_code: ErrorCode
    leader_epoch: Epoch
    leader_id: NodeId | None
    vote_granted: Flag = False
    is_provisional: Flag = False
    is_blank: Flag = False

    @property
    def tells_of_records(self) -> bool:
        """For a blank candidate: the cluster has records."""
        has_looked = self.error_code in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
        return has_looked and not (self.vote_granted or self.is_blank)


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse(Message):
    """Answers BeginQuorumEpochRequest."""

    TAG: ClassVar[str] = "BeginQuorumEpochAnswer"
    error_code: ErrorCode
    leader_epoch: Epoch
    leader_id: NodeId | None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse(Message):
    """Answers EndQuorumEpochRequest."""

    TAG: ClassVar[str] = "EndQuorumEpochAnswer"
    error_code: ErrorCode
    leader_epoch: Epoch
    leader_id: NodeId | None


@dataclass(frozen=True, slots=True)
class FetchResponse(Message):
    """Answers FetchRequest with one of three: records from the fetch offset on, perhaps none; the point of divergence
    of
    the follower's log; or the snapshot to fetch first."""

    TAG: ClassVar[str] = "FetchAnswer"
    error_code: ErrorCode
    leader_epoch: Epoch
    leader_id: NodeId | None
    high_watermark: Offset = 0
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: Blob = b""

    def filled(self, data: bytes) -> FetchResponse:
        """This answer with the records that the driver read."""
        return replace(self, records=data)


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse(Message):
    """Answers FetchSnapshotRequest; ``size`` is that of the whole snapshot."""

    TAG: ClassVar[str] = "FetchSnapshotAnswer"
    error_code: ErrorCode
    leader_epoch: Epoch
    leader_id: NodeId | None
    size: Offset = 0
    position: Offset = 0
    data: Blob = b""

    def filled(self, data: bytes) -> FetchSnapshotResponse:
        """This answer with the bytes that the driver read."""
        return replace(self, data=data)


Request = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest
Response = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse

RESPONSE_TO: Final[dict[type[Request], type[Response]]] = {
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    FetchRequest: FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
}
REQUESTS: Final = tuple(RESPONSE_TO)
RESPONSES: Final = tuple(RESPONSE_TO.values())


def sender_of(request: Request) -> int:
    """The sender's id, as the request has it."""
    if isinstance(request, FetchRequest | FetchSnapshotRequest):
        return request.replica_id
    return request.candidate_id if isinstance(request, VoteRequest) else request.leader_id


def epoch_of(request: Request) -> int:
    """The sender's epoch, as the request has it."""
    return request.epoch if isinstance(request, VoteRequest) else request.leader_epoch


def message_from_wire(wire: object) -> Request | Response:
    """The message in a decoded msgpack value, or MalformedMessageError."""
    if not isinstance(wire, list | tuple) or not wire or not isinstance(wire[0], str):
        raise MalformedMessageError(f"a message is a list that begins with its name, got {type(wire).__name__}")
    cls = _BY_TAG.get(wire[0])
    if cls is None:
        raise MalformedMessageError(f"unknown message {wire[0][:40]!r}")
    rules = _RULES_OF[cls]
    if not 0 <= len(rules) + 1 - len(wire) <= cls.ADDED:
        raise MalformedMessageError(f"{cls.TAG} has {len(rules)} fields, got {len(wire) - 1}")
    return cls(*(_field(cls, name, rule, value) for (name, rule), value in zip(rules, wire[1:], strict=False)))


def _field(cls: type[Message], name: str, rule: Callable[[object], Any], value: object) -> Any:
    try:
        return rule(value)
    except MalformedMessageError as error:
        raise MalformedMessageError(f"{cls.TAG}.{name}: {error}") from None


def _between(low: int, high: int) -> Callable[[object], int]:
    def rule(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise MalformedMessageError(f"expected an integer from {low} to {high}, got {value!r:.40}")
        return value

    return rule


def _instance(kind: type, limit: int) -> Callable[[object], Any]:
    def rule(value: object) -> Any:
        if type(value) is not kind or (limit and len(value) > limit):  # type: ignore[arg-type]
            raise MalformedMessageError(f"expected {kind.__name__}, got {value!r:.40}")
        return value

    return rule


def _optional(rule: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else rule(value)


def _sequence(value: object, what: str, length_max: int) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > length_max:
        raise MalformedMessageError(f"expected {what}, got {value!r:.40}")
    return value


def _offset_and_epoch(value: object) -> OffsetAndEpoch:
    pair = _sequence(value, "offset and epoch", 2)
    if len(pair) != 2:
        raise MalformedMessageError(f"expected offset and epoch, got {value!r:.40}")
    return OffsetAndEpoch(_int64(pair[0]), _int32(pair[1]))


def _error_code(value: object) -> ErrorCode:
    return ErrorCode.of(_between(-1, 2**15 - 1)(value))


_int32 = _between(0, 2**31 - 1)
_int64 = _between(0, 2**63 - 1)

_RULES: Final[dict[str, Callable[[object], Any]]] = {
    "Text": _instance(str, _MAX_TEXT),
    "NodeId": _int32,
    "NodeId | None": _optional(_int32),
    "NodeIds": lambda value: tuple(_int32(node) for node in _sequence(value, "a list of node ids", _MAX_NODES)),
    "Epoch": _int32,
    "Offset": _int64,
    "Size": _int32,
    "Flag": _instance(bool, 0),
    "Blob": _instance(bytes, 0),
    "ErrorCode": _error_code,
    "OffsetAndEpoch": _offset_and_epoch,
    "OffsetAndEpoch | None": _optional(_offset_and_epoch),
}
_BY_TAG: Final[dict[str, type[Request] | type[Response]]] = {cls.TAG: cls for cls in (*REQUESTS, *RESPONSES)}
_RULES_OF: Final = {cls: [(field.name, _RULES[str(field.type)]) for field in fields(cls)] for cls in _BY_TAG.values()}
