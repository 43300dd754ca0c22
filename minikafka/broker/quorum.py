"""What the metadata quorum looks like: its leader knows, and any node asks it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink
from minikafka.raft.progress import ReplicaState

METHOD: Final = "describe-quorum"


class QuorumReplica(NamedTuple):
    """A voter or an observer; times are wall-clock milliseconds, -1 when there is none."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumReport(NamedTuple):
    """The quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class Quorum:
    """Describes the quorum, here or by a call to its leader."""

    def __init__(self, node_id: int, raft: RaftDriver, links: dict[int, ControlLink], clock: Clock) -> None:
        self._node_id = node_id
        self._raft = raft
        self._links = links
        self._clock = clock

    async def describe(self) -> QuorumReport:
        """The leader's view. KafkaError(NOT_CONTROLLER) when no leader is known or it is not reached."""
        leader_id = self._raft.leader_id
        if leader_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the quorum has no leader")
        if leader_id == self._node_id:
            return self._report()
        try:
            return _from_wire(await self._links[leader_id].call(METHOD, None))
        except (OSError, TimeoutError, ChannelClosedError) as error:
            message = f"the quorum's leader, node {leader_id}, is not reached: {error}"
            raise KafkaError(ErrorCode.NOT_CONTROLLER, message) from error

    def controller_id(self, image: MetadataImage) -> int:
        """A live node that carries out or forwards admin requests: the active controller if it is live, else this."""
        leader_id = self._raft.leader_id
        return leader_id if leader_id is not None and image.is_live(leader_id) else self._node_id

    async def handle_call(self, peer_id: int, body: Any) -> Any:
        """Another node asks. KafkaError(NOT_CONTROLLER) when this node does not lead."""
        if self._raft.leader_id != self._node_id:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} does not lead the quorum")
        return self._report()

    def _report(self) -> QuorumReport:
        now_ms = self._clock.monotonic_ms()
        info = self._raft.machine.describe(now_ms)
        to_wall_ms = self._clock.wall_ms() - now_ms

        def on_wall(replicas: tuple[ReplicaState, ...]) -> tuple[QuorumReplica, ...]:
            return tuple(
                QuorumReplica(
                    replica.replica_id,
                    replica.log_end_offset,
                    *(at_ms + to_wall_ms if at_ms >= 0 else -1 for at_ms in replica[2:]),
                )
                for replica in replicas
            )

        return QuorumReport(
            self._node_id, info.leader_epoch, info.high_watermark, on_wall(info.voters), on_wall(info.observers)
        )


def _from_wire(body: Any) -> QuorumReport:
    leader_id, leader_epoch, high_watermark, voters, observers = body
    return QuorumReport(
        leader_id,
        leader_epoch,
        high_watermark,
        tuple(QuorumReplica(*replica) for replica in voters),
        tuple(QuorumReplica(*replica) for replica in observers),
    )
