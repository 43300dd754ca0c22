"""Description of the metadata quorum, from its leader."""

from __future__ import annotations

from typing import Any, Final

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.controller_client import without_contact
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink
from minikafka.raft.progress import QuorumInfo, QuorumReplica

METHOD: Final = "describe-quorum"


class Quorum:
    """Describes the quorum, here or by a call to its leader."""

    def __init__(self, node_id: int, raft: RaftDriver, links: dict[int, ControlLink], clock: Clock) -> None:
        self._node_id = node_id
        self._raft = raft
        self._links = links
        self._clock = clock

    async def describe(self) -> QuorumInfo:
        """The leader's view, times by the wall clock. KafkaError(NOT_CONTROLLER) when no leader is known or reached."""
        leader_id = self._raft.leader_id
        if leader_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the metadata quorum has no leader; {self._contact()}")
        if leader_id == self._node_id:
            return self._report()
        try:
            return _from_wire(await self._links[leader_id].call(METHOD, None))
        except (OSError, TimeoutError, ChannelClosedError) as error:
            message = f"the metadata quorum's leader, node {leader_id}, does not answer; {self._contact(error)}"
            raise KafkaError(ErrorCode.NOT_CONTROLLER, message) from error

    def controller_id(self, image: MetadataImage) -> int:
        """A live node that carries out or forwards admin requests: the active controller if it is live, else this."""
        leader_id = self._raft.leader_id
        return leader_id if leader_id is not None and image.is_live(leader_id) else self._node_id

    async def handle_call(self, peer_id: int, body: Any) -> Any:
        """A call of another node. KafkaError(NOT_CONTROLLER) when this node does not lead."""
        if self._raft.leader_id != self._node_id:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} does not lead the quorum")
        return self._report()

    def _contact(self, error: Exception | None = None) -> str:
        lost = without_contact(self._links)
        if lost:
            return f"node {self._node_id} has {lost}"
        return "an election is under way" if error is None else str(error)

    def _report(self) -> QuorumInfo:
        now_ms = self._clock.monotonic_ms()
        info = self._raft.machine.describe(now_ms)
        to_wall_ms = self._clock.wall_ms() - now_ms

        def on_wall(at_ms: int) -> int:
            return at_ms + to_wall_ms if at_ms >= 0 else -1

        voters, observers = (
            tuple(
                each._replace(
                    last_fetch_ms=on_wall(each.last_fetch_ms), last_caught_up_ms=on_wall(each.last_caught_up_ms)
                )
                for each in replicas
            )
            for replicas in (info.voters, info.observers)
        )
        return info._replace(voters=voters, observers=observers)


def _from_wire(body: Any) -> QuorumInfo:
    *known, voters, observers = body
    return QuorumInfo(*known, *(tuple(QuorumReplica(*replica) for replica in each) for each in (voters, observers)))
