"""Produce (key 0), versions 3-13 (offered from 0, see ``wire.api``): append each partition's batch, answer by acks.

The hot path. Batches are staged while the read event's frames are handled and written once per partition at its end
(:meth:`Replicas.commit_staged`); only then is anything answered. acks=0 gets no answer, and an error closes the
connection; acks=1 is answered after the write; acks=all waits in the purgatory for the high watermark (rows R23, D4).

From version 13 on a topic is named by its id: records for a deleted topic never land in a new one of the same name.

A batch that is not compressed as its topic demands is recompressed in a thread, where costly looks at keys are taken,
too; its connection waits. The first batch of a transaction in a partition waits until its coordinator was asked
(``handlers.verification``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.client_quotas import ClientQuotas
from minikafka.broker.context import CLIENT_ELEMENTS_MAX, REQUEST_BYTES_MAX, RequestContext, refuse_large
from minikafka.broker.delayed import ProduceResult
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.new_leaders import NewLeader, NewLeaders, reached_at
from minikafka.broker.handlers.verification import Verification, Verified
from minikafka.broker.logs import one_line
from minikafka.broker.lookups import Lookups
from minikafka.broker.produced_batches import OtherCodecError, UncheckedRecordsError, UnverifiedError
from minikafka.broker.replicas import ROLLS_AT_ONCE, Replicas
from minikafka.broker.staging import LargePlace, Staging
from minikafka.broker.waiting import ALL_IN_SYNC
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.net.turns import REQUEST_COST, TURN_COST
from minikafka.records.validate import ZSTD_MIN_PRODUCE_VERSION
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decoder
from minikafka.wire.decoder import Decoder
from minikafka.wire.hot import ProduceResponses
from minikafka.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

AUTHORIZATION: Final = (
    ByHandler(
        "WRITE on each topic; WRITE on the transactional id, which records of a transaction must have",
        ((AclOperation.WRITE, ResourceType.TOPIC), (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)),
    ),
)

log = get_logger()

LEADER, NONE = 1, 0
_KNOWN_ACKS: Final = (ALL_IN_SYNC, LEADER, NONE)
_new_tuple: Final = tuple.__new__  # a NamedTuple without its Python-level constructor: a third of the time
LONGEST_WAIT_MS: Final = 300_000
"""Whoever allows more gets REQUEST_TIMED_OUT then, which producers retry."""

WAITING_PARTITION_BYTES: Final = 768
"""What a request that waits holds for each of its partitions after the first."""
BATCHES_AT_ONCE: Final = 250
"""Some 8 ms. Those of a request with more are written in portions, with turns for others in between."""
ROLL_COST: Final = TURN_COST // ROLLS_AT_ONCE
"""Of a batch that begins a segment: 500 pipelined ones took half a second of one turn."""
LARGE_FRAME: Final = 1024
"""Bytes; none of so few has as many batches."""

ASKED_AT_MOST: Final = 5
"""So often a coordinator is asked again because a marker came meanwhile."""
FIRST_VERSION_WITH_IDS: Final = 13

_decoders: Final[dict[int, Decoder]] = {}  # by version: the codec's own table takes a tuple and a hash for each request

Batches = list[tuple[TopicProduceData, PartitionProduceData]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What producing asks of its node."""

    replicas: Replicas
    staging: Staging
    lookups: Lookups
    tasks: TaskOwner
    responses: ProduceResponses
    metadata: Metadata
    client_quotas: ClientQuotas
    new_leaders: NewLeaders
    verification: Verification
    authorizer: Authorizer


class LaterError(Exception):
    """The rest of a request waits for its turn."""


def handle_frame(frame: memoryview, position: int, context: RequestContext, parts: Parts) -> None:
    """Stage what the request brings; it is answered from :class:`PendingProduce` after the write."""
    version = context.version
    decode = _decoders.get(version)
    if decode is None:
        decode = _decoders[version] = decoder(ProduceRequest, version)
    request, _ = decode(frame, position, CLIENT_ELEMENTS_MAX)
    if len(frame) > REQUEST_BYTES_MAX:
        _check_rest(len(frame), request)
    acks = request.acks
    results: list[ProduceResult] = []
    if parts.client_quotas.bound_keys:
        parts.client_quotas.on_produced(context, len(frame))
    if acks not in _KNOWN_ACKS:
        refusal = _unknown_acks(acks)
        results += (_failed(topic, data.index, refusal) for topic, data in _batches(request))
    elif len(frame) > LARGE_FRAME and (batches := _count(request)) > BATCHES_AT_ONCE:
        context.connection.spend(REQUEST_COST * batches)
        _stage_large_later(bytearray(frame), position, context, parts, acks)
        return
    elif parts.authorizer.is_enabled and not _is_allowed(request, context, parts):
        _stage_later(bytearray(frame), position, context, parts, results)
        return
    else:
        stage, replicas = parts.replicas.stage_produced, parts.replicas
        in_transaction = request.transactional_id is not None
        try:
            for topic in request.topic_data:
                for data in topic.partition_data:
                    if results and replicas.has_rolled_many:
                        raise LaterError
                    if version >= FIRST_VERSION_WITH_IDS:
                        results.append(_stage(topic, data, acks, version, in_transaction, parts))
                        continue
                    tp = _new_tuple(TopicPartition, (topic.name, data.index))
                    results.append(stage(tp, data.records, acks, version, in_transaction))
        except (LaterError, UncheckedRecordsError, OtherCodecError, UnverifiedError):
            _stage_later(bytearray(frame), position, context, parts, results)
            return
    if len(results) > 1:
        context.connection.spend(REQUEST_COST * len(results))
    if rolls := parts.replicas.take_rolls():
        context.connection.spend(ROLL_COST * rolls)
    parts.staging.add(PendingProduce(context, parts, acks, request.timeout_ms, results))


def _check_rest(size: int, request: ProduceRequest) -> None:
    """FrameError for one with very much beside its records: names."""
    rest = size - sum(len(data.records) for _topic, data in _batches(request) if data.records is not None)
    if rest > REQUEST_BYTES_MAX:
        refuse_large(ApiKey.PRODUCE, rest)


def _is_allowed(request: ProduceRequest, context: RequestContext, parts: Parts) -> bool:
    """All of it."""
    sees, transactional_id = parts.authorizer.sees, request.transactional_id
    if transactional_id is not None and not sees(
        context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return False
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    for topic in request.topic_data:
        name = _name(topic, context.version, parts) if by_id else topic.name
        if name is not None and not sees(context, AclOperation.WRITE, ResourceType.TOPIC, name):
            return False
    return True


def _why_denied(
    request: ProduceRequest, topic: TopicProduceData, context: RequestContext, parts: Parts
) -> KafkaError | None:
    permits, transactional_id = parts.authorizer.permits, request.transactional_id
    if transactional_id is not None and not permits(
        context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    name = _name(topic, context.version, parts)
    if name is None:  # now: when the batch is staged, the id may be that of a topic
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic.topic_id} not found")
    if not permits(context, AclOperation.WRITE, ResourceType.TOPIC, name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _name(topic: TopicProduceData, version: int, parts: Parts) -> str | None:
    """None for an id that is not known."""
    if version < FIRST_VERSION_WITH_IDS:
        return topic.name
    found = parts.metadata.image.topic_by_id(topic.topic_id)
    return None if found is None else found.name


def _count(request: ProduceRequest) -> int:
    return sum(len(topic.partition_data) for topic in request.topic_data)


def _batches(request: ProduceRequest) -> Batches:
    return [(topic, data) for topic in request.topic_data for data in topic.partition_data]


def _stage(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    version: int,
    in_transaction: bool,
    parts: Parts,
    *,
    has_keys: bool = False,
    verified_at: int | None = None,
) -> ProduceResult:
    """As ``Replicas.stage_produced``, where the topic may be named by its id."""
    if version >= FIRST_VERSION_WITH_IDS:
        found = parts.metadata.image.topic_by_id(topic.topic_id)
        topic.name = "" if found is None else found.name
    tp = TopicPartition(topic.name, data.index)
    if version >= FIRST_VERSION_WITH_IDS:
        partition = parts.replicas.get(tp)
        if not topic.name or (partition is not None and partition.topic_id != topic.topic_id):
            refusal = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic.topic_id} not found")
            return _failed(topic, data.index, refusal)
    result = parts.replicas.stage_produced(
        tp, data.records, acks, version, in_transaction, has_keys=has_keys, verified_at=verified_at
    )
    result.topic_id = topic.topic_id
    return result


def _failed(topic: TopicProduceData, index: int, error: KafkaError) -> ProduceResult:
    result = ProduceResult.failed(TopicPartition(topic.name, index), error)
    result.topic_id = topic.topic_id
    return result


def _stage_later(
    copy: bytearray, position: int, context: RequestContext, parts: Parts, staged: list[ProduceResult]
) -> None:
    """The next batch must wait, for its turn, for a look into it or for its coordinator: go on in a copy.

    Meanwhile the connection handles nothing: the order of its requests is that of its producer's batches.
    """
    request, _ = decoder(ProduceRequest, context.version)(memoryview(copy), position, CLIENT_ELEMENTS_MAX)
    context.reply.hold(len(copy))
    context.connection.suspend()
    parts.tasks.start(_stage_in_portions(request, staged, context, parts), "produce")


def _stage_large_later(copy: bytearray, position: int, context: RequestContext, parts: Parts, acks: int) -> None:
    """There are many batches: few such requests are decoded at a time, and staged in portions. One that waits for that
    ends with its connection, unless its producer has no answer to wait for."""
    context.connection.suspend()
    task = parts.tasks.start(_stage_large(copy, position, context, parts), "produce")
    context.reply.hold(len(copy), None if acks == NONE else task.cancel)


async def _stage_large(copy: bytearray, position: int, context: RequestContext, parts: Parts) -> None:
    async with LargePlace(parts.staging.large) as place:
        await context.connection.wait_for_turn()
        context.reply.cancel_with_connection(_go_on)
        request, _ = decoder(ProduceRequest, context.version)(memoryview(copy), position, CLIENT_ELEMENTS_MAX)
        await _stage_in_portions(request, [], context, parts, place)


async def _stage_in_portions(
    request: ProduceRequest,
    results: list[ProduceResult],
    context: RequestContext,
    parts: Parts,
    place: LargePlace | None = None,
) -> None:
    """Stage the batches that have no result, in portions, when what they wait for is known."""
    later = _batches(request)[len(results) :]
    try:
        for start in range(0, len(later), BATCHES_AT_ONCE):
            parts.staging.on_read_event_end()  # nothing stays staged while others have their turn
            await context.connection.wait_for_turn()
            portion = later[start : start + BATCHES_AT_ONCE]
            if parts.authorizer.is_enabled:
                portion = _take_denied(request, portion, results, context, parts)
            verified = await _verified(request, portion, context, parts, place)
            for topic, data in portion:
                if parts.replicas.has_rolled_many:
                    parts.replicas.take_rolls()
                    parts.staging.on_read_event_end()
                    await context.connection.wait_for_turn()
                results.append(await _stage_patiently(request, topic, data, verified, context, parts, place))
        parts.staging.add(PendingProduce(context, parts, request.acks, request.timeout_ms, results))
        parts.staging.on_read_event_end()
    except Exception as error:  # a bug, and what one client sends must not stop the node for all others
        log.error("batch check failed", why=one_line(error), exc_info=error)
        context.connection.close()
    finally:
        context.connection.resume()


def _take_denied(
    request: ProduceRequest, batches: Batches, results: list[ProduceResult], context: RequestContext, parts: Parts
) -> Batches:
    """The batches that are allowed; of the others there are results."""
    allowed = []
    for topic, data in batches:
        if (error := _why_denied(request, topic, context, parts)) is None:
            allowed.append((topic, data))
        else:
            results.append(_failed(topic, data.index, error))
    return allowed


async def _stage_patiently(
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    verified: Verified,
    context: RequestContext,
    parts: Parts,
    place: LargePlace | None,
) -> ProduceResult:
    """Look into a costly batch in a thread, recompress it there, ask for the transaction of one that begins it."""
    has_keys, asked, version = False, 0, context.version
    acks, in_transaction = request.acks, request.transactional_id is not None
    try:
        while True:
            verified_at = verified.get(TopicPartition(topic.name, data.index))
            if isinstance(verified_at, KafkaError):
                raise verified_at
            try:
                return _stage(
                    topic, data, acks, version, in_transaction, parts, has_keys=has_keys, verified_at=verified_at
                )
            except UncheckedRecordsError as unchecked:
                assert data.records is not None
                parts.staging.on_read_event_end()
                async with _left(place):
                    error = await parts.lookups.check_records(data.records, unchecked.check)
                if error is not None:
                    raise error from None
                has_keys = True
            except OtherCodecError as other:
                assert data.records is not None
                parts.staging.on_read_event_end()
                async with _left(place):
                    data.records = memoryview(await parts.lookups.recompress(data.records, other.codec))
                version = max(version, ZSTD_MIN_PRODUCE_VERSION)  # it tells what its producer may send
            except UnverifiedError:  # a marker came since the coordinator was asked, maybe of the transaction before
                parts.staging.on_read_event_end()
                if asked == ASKED_AT_MOST:
                    raise KafkaError(
                        ErrorCode.INVALID_TXN_STATE, "transactions of the producer end all the time"
                    ) from None
                asked += 1
                verified |= await _verified(request, [(topic, data)], context, parts, place)
    except KafkaError as error:
        return _failed(topic, data.index, error)


def _left(place: LargePlace | None) -> AbstractAsyncContextManager[None]:
    return nullcontext() if place is None else place.left()


async def _verified(
    request: ProduceRequest, batches: Batches, context: RequestContext, parts: Parts, place: LargePlace | None
) -> Verified:
    """What the coordinator says of these. That may take seconds, so the request ends with its connection meanwhile:
    what it holds is counted for that."""
    version, task, transactional_id = context.version, asyncio.current_task(), request.transactional_id
    if transactional_id is None:
        return {}
    if version >= FIRST_VERSION_WITH_IDS:
        for topic, _data in batches:
            found = parts.metadata.image.topic_by_id(topic.topic_id)
            topic.name = "" if found is None else found.name
    asked = ((TopicPartition(topic.name, data.index), data.records) for topic, data in batches)
    assert task is not None
    context.reply.cancel_with_connection(task.cancel)
    try:
        async with _left(place):
            return await parts.verification.verify(transactional_id, asked, version)
    finally:
        context.reply.cancel_with_connection(_go_on)


def _go_on() -> None:
    """The connection is gone, but the request is about to be done."""


class PendingProduce:
    """A request whose batches are staged."""

    __slots__ = ("_acks", "_context", "_parts", "_results", "_timeout_ms")

    def __init__(
        self, context: RequestContext, parts: Parts, acks: int, timeout_ms: int, results: Sequence[ProduceResult]
    ) -> None:
        self._context = context
        self._parts = parts
        self._acks = acks
        self._timeout_ms = timeout_ms if timeout_ms < LONGEST_WAIT_MS else LONGEST_WAIT_MS
        self._results = results

    def on_written(self) -> None:
        """The batches are in the log, or failed: answer now, or when replicas have them."""
        if self._acks == NONE:
            self._finish_unanswered()
        else:
            replicas = self._parts.replicas
            waiting = replicas.waiting.await_acks(self._results, self._acks, self._timeout_ms, self._answer)
            if waiting is not None:
                self._context.reply.hold(WAITING_PARTITION_BYTES * (len(self._results) - 1), waiting.cancel)

    def _answer(self, results: Sequence[ProduceResult]) -> None:
        if len(results) == 1 and not results[0].error and not self._context.throttle_ms:
            result, context = results[0], self._context
            frame = self._parts.responses.success(
                context.version,
                context.correlation_id,
                result.tp,
                result.topic_id,
                result.base_offset,
                result.log_append_time,
                result.log_start_offset,
            )
            context.reply.send((frame,))
            return
        topics: list[TopicProduceResponse] = []
        elsewhere: list[NewLeader] = []
        for result in results:
            name, index = result.tp
            leader = self._parts.new_leaders.find(result.tp, result.error, self._context.listener)
            if leader is not None:
                elsewhere.append(leader)
            if not topics or (topics[-1].name, topics[-1].topic_id) != (name, result.topic_id):
                topics.append(TopicProduceResponse(name=name, topic_id=result.topic_id))
            topics[-1].partition_responses.append(
                PartitionProduceResponse(
                    index=index,
                    error_code=result.error,
                    base_offset=result.base_offset,
                    log_append_time_ms=result.log_append_time,
                    log_start_offset=result.log_start_offset,
                    record_errors=[
                        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=result.message)
                        for index in result.wrong_records
                    ],
                    error_message=result.message,
                    current_leader=leader and LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch),
                )
            )
        self._context.send(ProduceResponse(responses=topics, node_endpoints=reached_at(NodeEndpoint, elsewhere)))

    def _finish_unanswered(self) -> None:
        failed = next((result for result in self._results if result.error), None)
        self._context.note_errors([result.error for result in self._results if result.error])
        self._context.reply.skip()
        if failed is not None:
            self._context.connection.close(f"produce with acks=0 to {failed.tp} failed: {failed.message}")


def _unknown_acks(acks: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it must be -1 (all), 0 or 1")
