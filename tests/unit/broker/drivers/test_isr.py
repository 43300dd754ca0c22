from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from broker_node import eventually, turns
from broker_replicas import FOLLOWER, ME, OTHER, Rig

from minikafka.broker.drivers import isr as isr_module
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.isr import IsrProposals
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.channel import ChannelClosedError
from minikafka.replication import replica_effects as do
from minikafka.replication.isr import IsrProposal
from minikafka.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopicResult,
)
from minikafka.wire.schema import Message

Verdict = Exception | ErrorCode | None  # None: accepted


class Script:
    """A controller that accepts proposals, or does with the next ones what a test says."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.verdicts: list[Verdict] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, request: Message) -> AlterPartitionResponse:
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        await self.gate.wait()
        verdict = self.verdicts.pop(0) if self.verdicts else None
        if isinstance(verdict, Exception):
            raise verdict
        return AlterPartitionResponse(
            topics=[
                AlterPartitionTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionResult(
                            partition_index=change.partition_index,
                            error_code=verdict or ErrorCode.NONE,
                            isr=[member.broker_id for member in change.new_isr_with_epochs],
                            partition_epoch=change.partition_epoch + 1,
                        )
                        for change in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    @property
    def proposed(self) -> list[list[int]]:
        """The ISR of each partition in each request."""
        return [
            [member.broker_id for member in change.new_isr_with_epochs]
            for request in self.requests
            for change in changes_of(request)
        ]


def changes_of(request: AlterPartitionRequest) -> list[AlterPartitionData]:
    return [change for topic in request.topics for change in topic.partitions]


@pytest.fixture
async def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
async def script() -> Script:
    return Script()


@pytest.fixture
async def proposals(rig: Rig, script: Script) -> AsyncIterator[IsrProposals]:
    client = ControllerClient(ME, script, {}, lambda: ME, random.Random(1))
    made = IsrProposals(ME, rig.replicas, client, rig.clock, lambda: 55, random.Random(1))

    def carry_out(partition: Partition, effects: Sequence[do.ReplicaEffect]) -> None:
        rig.carry_out(partition, effects)
        for effect in effects:
            if isinstance(effect, do.Propose):
                made.propose(partition, effect.proposal)

    rig.replicas.carry_out = carry_out
    task = asyncio.get_running_loop().create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.spec("R23")
async def test_an_isr_that_became_too_small_lets_producers_wait(
    rig: Rig, script: Script, proposals: IsrProposals
) -> None:
    partition = rig.partition(min_insync_replicas=2)
    leader = rig.lead(partition, replicas=(ME, FOLLOWER), isr=(ME, FOLLOWER))
    result = rig.stage(partition, b"x")
    rig.replicas.commit_staged()
    acks = rig.await_acks(result)
    proposal = leader.maybe_shrink(rig.clock.monotonic_ms() + 1_000_000)
    assert proposal is not None
    assert acks.times == 0
    proposals.propose(partition, proposal)
    await eventually(lambda: isr_of(partition) == (ME,), "the ISR to shrink")
    assert acks.times == 0
    rig.fetched(partition, FOLLOWER, 1)
    assert partition.high_watermark == 0, "it is no member yet"
    await eventually(lambda: acks.times, "the answer")
    assert acks.results == [(ErrorCode.NONE, 0)]
    assert isr_of(partition) == (ME, FOLLOWER)


def growing(rig: Rig, name: str = "orders") -> Partition:
    """A partition whose follower is about to be in sync."""
    partition = rig.partition(name)
    rig.lead(partition, replicas=(ME, FOLLOWER), isr=(ME,))
    rig.append(partition, b"x")
    return partition


def isr_of(partition: Partition) -> tuple[int, ...]:
    assert partition.leader is not None
    return partition.leader.isr


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("proposals")
async def test_a_proposal_is_sent_with_what_the_leader_knows_and_committed(rig: Rig, script: Script) -> None:
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: isr_of(partition) == (ME, FOLLOWER), "the ISR to grow")
    request = script.requests[0]
    assert (request.broker_id, request.broker_epoch) == (ME, 55)
    change = request.topics[0].partitions[0]
    assert (request.topics[0].topic_id, change.partition_index) == (partition.topic_id, 0)
    assert (change.leader_epoch, change.partition_epoch) == (1, 0)
    assert [(member.broker_id, member.broker_epoch) for member in change.new_isr_with_epochs] == [
        (ME, -1),
        (FOLLOWER, 5),
    ]
    assert partition.leader is not None
    assert partition.leader.partition_epoch == 1


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("proposals")
async def test_while_it_is_out_the_larger_isr_counts(rig: Rig, script: Script) -> None:
    script.gate.clear()
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: script.requests, "the proposal")
    rig.append(partition, b"y")
    assert partition.high_watermark == 1
    script.gate.set()
    await eventually(lambda: isr_of(partition) == (ME, FOLLOWER), "the ISR to grow")
    rig.fetched(partition, FOLLOWER, 2)
    assert partition.high_watermark == 2


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("proposals")
@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST])
async def test_a_refused_proposal_changes_nothing(rig: Rig, script: Script, error: ErrorCode) -> None:
    script.verdicts = [error]
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    leader = partition.leader
    assert leader is not None
    await eventually(lambda: script.requests and leader.proposal_in_flight is None, "the verdict")
    assert isr_of(partition) == (ME,)
    assert leader._isr.maximal == {ME}
    await turns(10)
    assert len(script.requests) == 1


@pytest.mark.usefixtures("proposals")
async def test_a_stale_proposal_waits_for_metadata(rig: Rig, script: Script) -> None:
    script.verdicts = [ErrorCode.INVALID_UPDATE_VERSION]
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: script.requests, "the proposal")
    await turns(10)
    leader = partition.leader
    assert leader is not None
    assert leader.proposal_in_flight is not None
    assert leader._isr.maximal == {ME, FOLLOWER}, "it may yet be committed"
    leader.on_metadata((ME,), 7, (ME, FOLLOWER), rig.clock.monotonic_ms())
    assert leader.proposal_in_flight is None


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("proposals")
@pytest.mark.parametrize(
    "failure",
    [
        ConnectionResetError("gone"),
        ChannelClosedError("gone"),
        TimeoutError(),
        KafkaError(ErrorCode.NOT_CONTROLLER, "moved"),
        KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug"),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_one_in_doubt_is_sent_again_until_it_is_settled(rig: Rig, script: Script, failure: Exception) -> None:
    script.verdicts = [failure, failure]
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: isr_of(partition) == (ME, FOLLOWER), "the ISR to grow")
    assert script.proposed == [[ME, FOLLOWER]] * 3


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("proposals")
async def test_one_in_doubt_that_is_then_refused_is_fenced(rig: Rig, script: Script) -> None:
    script.verdicts = [ConnectionResetError("gone"), ErrorCode.INELIGIBLE_REPLICA]
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    leader = partition.leader
    assert leader is not None
    await eventually(lambda: len(script.requests) == 3 and leader.proposal_in_flight is None, "the fence")
    assert script.proposed == [[ME, FOLLOWER], [ME, FOLLOWER], [ME]]
    assert leader._isr.maximal == {ME}
    assert leader.partition_epoch == 1


@pytest.mark.usefixtures("proposals")
async def test_an_answer_that_takes_too_long_leaves_it_in_doubt(
    rig: Rig, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_module, "CALL_TIMEOUT_S", 0.01)
    script.gate.clear()
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: len(script.requests) == 2, "it to be sent again")
    script.gate.set()
    await eventually(lambda: isr_of(partition) == (ME, FOLLOWER), "the ISR to grow")


@pytest.mark.usefixtures("proposals")
async def test_a_stale_incarnation_is_refused_not_in_doubt(rig: Rig, script: Script) -> None:
    script.verdicts = [KafkaError(ErrorCode.STALE_BROKER_EPOCH, "of another life")]
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    leader = partition.leader
    assert leader is not None
    await eventually(lambda: script.requests and leader.proposal_in_flight is None, "the verdict")
    assert len(script.requests) == 1


@pytest.mark.usefixtures("proposals")
async def test_what_is_proposed_meanwhile_goes_together(rig: Rig, script: Script) -> None:
    script.gate.clear()
    first = growing(rig, "first")
    rig.fetched(first, FOLLOWER, 1)
    await eventually(lambda: script.requests, "the first call")
    others = [growing(rig, name) for name in ("second", "third")]
    for partition in others:
        rig.fetched(partition, FOLLOWER, 1)
    await turns()
    assert len(script.requests) == 1, "at most one call is out"
    script.gate.set()
    await eventually(lambda: all(isr_of(each) == (ME, FOLLOWER) for each in others), "the others")
    assert [len(changes_of(request)) for request in script.requests] == [1, 2]


@pytest.mark.usefixtures("proposals")
@pytest.mark.parametrize("verdict", [None, ErrorCode.INELIGIBLE_REPLICA, ConnectionResetError("gone")])
async def test_a_leadership_that_ended_meanwhile_makes_answers_void(rig: Rig, script: Script, verdict: Verdict) -> None:
    script.gate.clear()
    script.verdicts = [verdict]
    partition = growing(rig)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: script.requests, "the proposal")
    rig.follow(partition, OTHER, 2)
    script.gate.set()
    await turns(10)
    rig.lead(partition, epoch=3, replicas=(ME, FOLLOWER), isr=(ME,))
    assert isr_of(partition) == (ME,)
    assert len(script.requests) == 1


async def test_a_newer_proposal_of_a_partition_replaces_the_older(
    rig: Rig, script: Script, proposals: IsrProposals
) -> None:
    partition = growing(rig)
    stale = IsrProposal(partition.topic_partition, 1, 0, ())
    proposals.propose(partition, stale)
    rig.fetched(partition, FOLLOWER, 1)
    await eventually(lambda: isr_of(partition) == (ME, FOLLOWER), "the ISR to grow")
    assert script.proposed == [[ME, FOLLOWER]]
