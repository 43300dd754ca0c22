"""Brokers for tests of the client's error paths: real sockets that speak the protocol and answer as they are told.

Left alone they behave like a small cluster: they keep what is produced in memory, check sequences as a broker does, and
serve it. :meth:`ScriptedCluster.on` puts a function before an API, which may answer, hang, hang up, or let it pass.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_NODE, OffsetAndEpoch, TopicPartition
from minikafka.records.batch import assign_offsets, iter_batches, parse_header
from minikafka.records.read import iter_records
from minikafka.storage.producer_state import ProducerState
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import decode_request_header, encode_response
from minikafka.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from minikafka.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from minikafka.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from minikafka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from minikafka.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from minikafka.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.wire.schema import Message

PRODUCER_ID = 1000
COORDINATOR = 1


class Reaction(Enum):
    """What a script may do instead of answering."""

    HANG = "never answer"
    HANG_UP = "close the connection"


HANG, HANG_UP = Reaction.HANG, Reaction.HANG_UP
Script = Callable[[int, Any], Message | Reaction | None]
"""(node id, request) -> what to do; None lets the request pass."""


class ScriptedPartition:
    """A log in memory, and who leads it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.epoch = 0
        self.epoch_starts = [OffsetAndEpoch(0, 0)]
        self.batches: list[bytes] = []
        self.log_start = 0
        self.log_end = 0
        self.producers = ProducerState()
        self.grown = asyncio.Event()

    def append(self, records: bytes) -> int:
        """The base offset, also of a duplicate. Raises KafkaError."""
        header = parse_header(records)
        if header.has_producer_id:
            duplicate = self.producers.check(header)
            if duplicate is not None:
                return duplicate.first_offset
        batch = bytearray(records)
        base_offset = self.log_end
        assign_offsets(batch, 0, base_offset, self.epoch)
        self.batches.append(bytes(batch))
        self.log_end = base_offset + header.record_count
        if header.has_producer_id:
            self.producers.append(header, base_offset)
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds ``offset`` on, at least one."""
        found = b""
        for batch in self.batches:
            if parse_header(batch).next_offset > offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return found

    def lead(self, leader: int, *, cut_to: int | None = None) -> None:
        """A new leader in a new epoch; one that had only the records before ``cut_to`` when that is given."""
        if cut_to is not None:
            self.batches = [batch for batch in self.batches if parse_header(batch).next_offset <= cut_to]
            self.log_end = parse_header(self.batches[-1]).next_offset if self.batches else 0
            self.epoch_starts = [entry for entry in self.epoch_starts if entry.offset < cut_to]
        self.leader = leader
        self.epoch += 1
        self.epoch_starts.append(OffsetAndEpoch(self.log_end, self.epoch))

    def epoch_end(self, epoch: int) -> OffsetAndEpoch:
        """Row E2."""
        if epoch == self.epoch_starts[-1].epoch:
            return OffsetAndEpoch(self.log_end, epoch)
        later = [start for start in self.epoch_starts if start.epoch > epoch]
        earlier = [start for start in self.epoch_starts if start.epoch <= epoch]
        if not later or not earlier:
            return OffsetAndEpoch(-1, -1)
        return OffsetAndEpoch(later[0].offset, earlier[-1].epoch)

    @property
    def values(self) -> list[bytes]:
        """The values of all records."""
        return [
            record.value or b""
            for batch in self.batches
            for at, header in iter_batches(batch)
            for record in iter_records(batch, at, header)
        ]


class ScriptedGroup:
    """The group that every group id names: one real member, whom it lets lead unless told otherwise."""

    def __init__(self) -> None:
        self.generation = 0
        self.member_id = ""
        self.members_made = 0
        self.leader = ""  # who leads when it is not the member
        self.assignment: bytes | None = None  # what the member gets when it does not lead
        self.protocol = "range"
        self.other_members: list[JoinGroupResponseMember] = []
        self.must_rebalance = False
        self.keeps_assignment = False  # the member leads, and is back as a static one (KIP-814)

    def join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        """The first time with a member id to come back with (KIP-394)."""
        if not request.member_id:
            self.members_made += 1
            self.member_id = f"member-{self.members_made}"
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=self.member_id)
        if request.member_id != self.member_id:
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.generation += 1
        self.must_rebalance = False
        member = JoinGroupResponseMember(member_id=self.member_id, metadata=request.protocols[0].metadata)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=request.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or self.member_id,
            member_id=self.member_id,
            members=[] if self.leader else [member, *self.other_members],
            skip_assignment=self.keeps_assignment,
        )

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """What the member assigned to itself, as a rule."""
        error = self._check(request.member_id, request.generation_id)
        shares = {share.member_id: share.assignment for share in request.assignments}
        assignment = shares.get(self.member_id, b"") if self.assignment is None else self.assignment
        return SyncGroupResponse(error_code=error, assignment=assignment)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Fine, unless there is a rebalance."""
        error = self._check(request.member_id, request.generation_id)
        return HeartbeatResponse(
            error_code=ErrorCode.REBALANCE_IN_PROGRESS if self.must_rebalance and not error else error
        )

    def _check(self, member_id: str, generation: int) -> ErrorCode:
        if member_id != self.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION


class ScriptedCluster:
    """Brokers on ports of 127.0.0.1; all share one picture of the cluster."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.live: set[int] = set()
        self.partitions: dict[TopicPartition, ScriptedPartition] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.topic_errors: dict[str, ErrorCode] = {}
        self.committed: dict[TopicPartition, OffsetAndEpoch] = {}
        self.group = ScriptedGroup()
        self.requests: list[tuple[int, Any]] = []
        self.versions: dict[ApiKey, tuple[int, int]] = {}
        self.producer_ids = 0
        self._scripts: dict[ApiKey, Script] = {}
        self._servers: dict[int, asyncio.Server] = {}
        self._writers: dict[int, set[asyncio.StreamWriter]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, *node_ids: int) -> None:
        """Start brokers, on their old ports when they had some."""
        for node_id in node_ids:

            async def serve(reader: Any, writer: Any, node_id: int = node_id) -> None:
                await self._serve(node_id, reader, writer)

            server = await asyncio.start_server(serve, "127.0.0.1", self.ports.get(node_id, 0))
            self.ports[node_id] = server.sockets[0].getsockname()[1]
            self._servers[node_id] = server
            self.live.add(node_id)

    def kill(self, node_id: int) -> None:
        """Its connections break and its port refuses new ones; what the cluster says of it is another matter."""
        self._servers.pop(node_id).close()
        for writer in self._writers.pop(node_id, ()):
            writer.transport.abort()

    async def close(self) -> None:
        """Stop all brokers."""
        for node_id in list(self._servers):
            self.kill(node_id)
        for partition in self.partitions.values():
            partition.grown.set()  # ends long polls
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- scripting --------------------------------------------------------------------------------------------------

    @property
    def servers(self) -> str:
        """bootstrap.servers"""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return sum(map(len, self._writers.values()))

    def create_topic(self, name: str, leaders: list[int]) -> None:
        """A topic with a partition per leader."""
        self.topic_ids[name] = uuid4()
        for index, leader in enumerate(leaders):
            self.partitions[TopicPartition(name, index)] = ScriptedPartition(leader)

    def partition(self, index: int, topic: str = "t") -> ScriptedPartition:
        """A partition of the topic."""
        return self.partitions[TopicPartition(topic, index)]

    def on(self, key: ApiKey, script: Script | None) -> None:
        """Put ``script`` before an API, or take it away."""
        if script is None:
            self._scripts.pop(key, None)
        else:
            self._scripts[key] = script

    def next_only(self, key: ApiKey, *reactions: Message | Reaction | Script | None) -> None:
        """Treat the next requests of an API so, one each, and let all later ones pass."""
        left = list(reactions)

        def script(node_id: int, request: Any) -> Message | Reaction | None:
            reaction = left.pop(0) if left else None
            return reaction(node_id, request) if callable(reaction) else reaction

        self.on(key, script)

    def asked(self, request_type: type[Message], node_id: int | None = None) -> list[Any]:
        """Every request of that type so far, of one broker or of all."""
        return [request for node, request in self.requests if type(request) is request_type and node_id in (None, node)]

    # -- serving ----------------------------------------------------------------------------------------------------

    async def _serve(self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers[node_id].add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await self._answer(node_id, await reader.readexactly(size))
                if answer is HANG_UP:
                    return
                if isinstance(answer, bytes):
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writers[node_id].discard(writer)
            writer.transport.abort()

    async def _answer(self, node_id: int, frame: bytes) -> bytes | Reaction | None:
        header, position = decode_request_header(frame)
        key, version = ApiKey(header.api_key), header.api_version
        if key is ApiKey.API_VERSIONS and version > self._range(key)[1]:
            return encode_response(key, 0, header.correlation_id, encode(self._refused_versions(), 0))
        request = decode_exactly(key.request_class, version, frame, position)
        if isinstance(request, FetchRequest | ProduceRequest):
            self._name_topics(request)
        self.requests.append((node_id, request))
        script = self._scripts.get(key)
        answer = None if script is None else script(node_id, request)
        if answer is None:
            answer = await self._default(key, node_id, request)
        if isinstance(answer, Reaction) or answer is None:
            return answer
        if isinstance(answer, FetchResponse):
            for topic in answer.responses:
                topic.topic_id = self.topic_ids.get(topic.topic, topic.topic_id)
        if isinstance(answer, ProduceResponse):
            asked = {topic.name: topic.topic_id for topic in request.topic_data}
            for written in answer.responses:
                written.topic_id = asked.get(written.name, written.topic_id)
        return encode_response(key, version, header.correlation_id, encode(answer, version))

    def _name_topics(self, request: FetchRequest | ProduceRequest) -> None:
        """From version 13 on topics come by id; one that is not known keeps no name."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        if isinstance(request, ProduceRequest):
            for produced in request.topic_data:
                produced.name = produced.name or names.get(produced.topic_id, "")
        else:
            for topic in request.topics:
                topic.topic = topic.topic or names.get(topic.topic_id, "")

    async def _default(self, key: ApiKey, node_id: int, request: Any) -> Message | None:
        if isinstance(request, FetchRequest):
            await self._wait_for_records(request)
        handler = getattr(self, f"_{key.name.lower()}")
        answer: Message | None = handler(node_id, request)
        return answer

    def _refused_versions(self) -> ApiVersionsResponse:
        response = self._api_versions(0, ApiVersionsRequest())
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response

    # -- what they do left alone ------------------------------------------------------------------------------------

    def _api_versions(self, node_id: int, request: ApiVersionsRequest) -> ApiVersionsResponse:
        ranges = {key: self._range(key) for key in ApiKey}
        rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
        return ApiVersionsResponse(api_keys=rows)

    def _range(self, key: ApiKey) -> tuple[int, int]:
        return self.versions.get(key) or key.announced_versions

    def _metadata(self, node_id: int, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topic_ids) if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="127.0.0.1", port=self.ports[node]) for node in self.live
            ],
            cluster_id="scripted",
            controller_id=min(self.live, default=NO_NODE),
            topics=[self._describe(name or "") for name in names],
        )

    def _describe(self, name: str) -> MetadataResponseTopic:
        error = self.topic_errors.get(name)
        if error is None and name not in self.topic_ids:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error is not None:
            return MetadataResponseTopic(name=name, error_code=error)
        partitions = [
            MetadataResponsePartition(
                partition_index=tp.partition,
                leader_id=partition.leader,
                leader_epoch=partition.epoch,
                replica_nodes=sorted(self.ports),
                isr_nodes=sorted(self.live),
            )
            for tp, partition in self.partitions.items()
            if tp.topic == name
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_ids[name], partitions=partitions)

    def _led(self, node_id: int, tp: TopicPartition, epoch: int = NO_EPOCH) -> ScriptedPartition:
        if not tp.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.partitions.get(tp)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if epoch != NO_EPOCH and epoch != partition.epoch:
            is_old = epoch < partition.epoch
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
        return partition

    def _init_producer_id(self, node_id: int, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=PRODUCER_ID + self.producer_ids - 1, producer_epoch=0)

    def _produce(self, node_id: int, request: ProduceRequest) -> ProduceResponse | None:
        def write(tp: TopicPartition, data: PartitionProduceData) -> PartitionProduceResponse:
            try:
                base_offset = self._led(node_id, tp).append(bytes(data.records or b""))
            except KafkaError as error:
                return PartitionProduceResponse(index=tp.partition, error_code=error.code, base_offset=-1)
            return PartitionProduceResponse(index=tp.partition, base_offset=base_offset)

        topics = [
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[write(TopicPartition(topic.name, d.index), d) for d in topic.partition_data],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=topics) if request.acks else None

    async def _wait_for_records(self, request: FetchRequest) -> None:
        asked = [
            (self.partitions[TopicPartition(topic.topic, wanted.partition)], wanted)
            for topic in request.topics
            for wanted in topic.partitions
            if TopicPartition(topic.topic, wanted.partition) in self.partitions
        ]
        if len(asked) == sum(len(topic.partitions) for topic in request.topics) and all(
            wanted.fetch_offset == partition.log_end and wanted.current_leader_epoch in (NO_EPOCH, partition.epoch)
            for partition, wanted in asked
        ):
            waits = [asyncio.ensure_future(partition.grown.wait()) for partition, _ in asked]
            await asyncio.wait(waits, timeout=request.max_wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    def _fetch(self, node_id: int, request: FetchRequest) -> FetchResponse:
        def read(tp: TopicPartition, wanted: FetchPartition) -> PartitionData:
            data = PartitionData(partition_index=tp.partition, aborted_transactions=None)
            try:
                partition = self._led(node_id, tp, wanted.current_leader_epoch)
                if not partition.log_start <= wanted.fetch_offset <= partition.log_end:
                    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            except KafkaError as error:
                data.error_code = error.code
                return data
            data.high_watermark = partition.log_end
            data.records = partition.read(wanted.fetch_offset, wanted.partition_max_bytes)
            return data

        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[read(TopicPartition(topic.topic, w.partition), w) for w in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _list_offsets(self, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def look(tp: TopicPartition, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
            try:
                partition = self._led(node_id, tp, wanted.current_leader_epoch)
            except KafkaError as error:
                return ListOffsetsPartitionResponse(partition_index=tp.partition, error_code=error.code)
            offset = partition.log_start if wanted.timestamp == -2 else partition.log_end
            return ListOffsetsPartitionResponse(partition_index=tp.partition, offset=offset, leader_epoch=-1)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[look(TopicPartition(topic.name, w.partition_index), w) for w in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _offset_for_leader_epoch(
        self, node_id: int, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        def look(tp: TopicPartition, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
            try:
                end = self._led(node_id, tp, wanted.current_leader_epoch).epoch_end(wanted.leader_epoch)
            except KafkaError as error:
                return EpochEndOffset(partition=tp.partition, error_code=error.code)
            return EpochEndOffset(partition=tp.partition, end_offset=end.offset, leader_epoch=end.epoch)

        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[look(TopicPartition(topic.topic, w.partition), w) for w in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _find_coordinator(self, node_id: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = Coordinator(
            key=request.coordinator_keys[0], node_id=COORDINATOR, host="127.0.0.1", port=self.ports[COORDINATOR]
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _join_group(self, node_id: int, request: JoinGroupRequest) -> JoinGroupResponse:
        return self.group.join(request)

    def _sync_group(self, node_id: int, request: SyncGroupRequest) -> SyncGroupResponse:
        return self.group.sync(request)

    def _heartbeat(self, node_id: int, request: HeartbeatRequest) -> HeartbeatResponse:
        return self.group.heartbeat(request)

    def _leave_group(self, node_id: int, request: LeaveGroupRequest) -> LeaveGroupResponse:
        return LeaveGroupResponse()

    def _offset_commit(self, node_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
        for topic in request.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                self.committed[tp] = OffsetAndEpoch(partition.committed_offset, partition.committed_leader_epoch)
        return commit_answer(request, ErrorCode.NONE)

    def _offset_fetch(self, node_id: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        def look(tp: TopicPartition) -> OffsetFetchResponsePartitions:
            offset, epoch = self.committed.get(tp, (-1, -1))
            return OffsetFetchResponsePartitions(
                partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=epoch, metadata=""
            )

        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.name, partitions=[look(TopicPartition(topic.name, i)) for i in topic.partition_indexes]
                )
                for topic in request.topics or ()
            ]
        )


async def until(condition: Callable[[], Any], timeout_s: float = 30) -> None:
    """Wait for something that has no event."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def commit_answer(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same answer for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def produce_answer(request: ProduceRequest, error: ErrorCode, message: str | None = None) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1, error_message=message)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
