"""Sends ISR proposals of this node's leaders to the controller, until each is committed or refused (row R20)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import groupby

from minikafka.broker.backoff import Backoff
from minikafka.broker.clock import Clock
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import TopicPartition
from minikafka.net.channel import ChannelClosedError
from minikafka.replication.isr import IsrProposal
from minikafka.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopic,
    BrokerState,
)

log = get_logger()

CALL_TIMEOUT_S = 5.0


class IsrProposals:
    """At most one call is under way; proposals made meanwhile go into the next."""

    def __init__(
        self,
        node_id: int,
        replicas: Replicas,
        controller: ControllerClient,
        clock: Clock,
        broker_epoch: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._controller = controller
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._pending: dict[TopicPartition, tuple[Partition, IsrProposal]] = {}
        self._wake = asyncio.Event()
        self._backoff = Backoff(rng, first_ms=20, last_ms=500)

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send it as soon as possible; a newer proposal of the same partition replaces it."""
        self._pending[partition.topic_partition] = (partition, proposal)
        self._wake.set()

    async def run(self) -> None:
        """Send proposals, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._pending = self._pending, {}
            try:
                is_settled = not batch or await self._send(batch)
            except (KafkaError, OSError):
                self._pending = batch | self._pending
                self._wake.set()
                raise
            if not is_settled:
                await asyncio.sleep(self._backoff.next_s())

    async def _send(self, batch: dict[TopicPartition, tuple[Partition, IsrProposal]]) -> bool:
        """False when some of the batch has to be sent again after a pause."""
        request = AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=[
                AlterPartitionTopic(topic_id=topic_id, partitions=[_change(*one) for one in some])
                for topic_id, some in groupby(batch.values(), lambda one: one[0].topic_id)
            ],
        )
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answer = await self._controller.call_once(request, AlterPartitionResponse)
        except KafkaError as error:
            code = error.code if error.code is ErrorCode.STALE_BROKER_EPOCH else ErrorCode.NETWORK_EXCEPTION
            return self._refuse_all(batch, code)
        except (OSError, TimeoutError, ChannelClosedError):
            return self._refuse_all(batch, ErrorCode.NETWORK_EXCEPTION)
        self._backoff.reset()
        settled = True
        results = (result for topic in answer.topics for result in topic.partitions)
        for (partition, proposal), result in zip(batch.values(), results, strict=True):
            settled = self._settle(partition, proposal, result) and settled
        return settled

    def _settle(self, partition: Partition, proposal: IsrProposal, result: AlterPartitionResult) -> bool:
        name, leader = str(partition.topic_partition), partition.leader
        if leader is None or leader.proposal_in_flight is not proposal:
            return True  # metadata was faster
        error = ErrorCode.of(result.error_code)
        if error is not ErrorCode.NONE:
            log.info("ISR change refused", partition=name, why=result.error_message or error.name)
            return self._refuse(partition, proposal, error)
        now_ms = self._clock.monotonic_ms()
        replica = partition.replica
        effects = replica.on_proposal_accepted(proposal, tuple(result.isr), result.partition_epoch, now_ms)
        self._replicas.waiting.note_changed(partition.topic_partition)
        log.info("ISR changed", partition=name, isr=result.isr)
        self._replicas.carry_out(partition, effects)
        return True

    def _refuse_all(self, batch: dict[TopicPartition, tuple[Partition, IsrProposal]], error: ErrorCode) -> bool:
        settled = True
        for partition, proposal in batch.values():
            settled = self._refuse(partition, proposal, error) and settled
        return settled

    def _refuse(self, partition: Partition, proposal: IsrProposal, error: ErrorCode) -> bool:
        again = partition.replica.on_proposal_refused(proposal, error, self._clock.monotonic_ms())
        if again is None:
            return True
        self._pending.setdefault(partition.topic_partition, (partition, again))
        self._wake.set()
        return False


def _change(partition: Partition, proposal: IsrProposal) -> AlterPartitionData:
    return AlterPartitionData(
        partition_index=partition.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch) for member in proposal.new_isr
        ],
    )
