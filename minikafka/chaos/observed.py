"""What the nodes of a cluster tell: who is up, leads, coordinates; and waiting until all is as it should be."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Set
from functools import cached_property
from typing import Final
from uuid import UUID

from minikafka.chaos.last_words import last_log_lines
from minikafka.chaos.layout import HOST, ClusterError, ClusterLayout, LoginRefusedError
from minikafka.chaos.probe import ClusterView, Entrance, QuorumView, login_refusal, probe, probe_quorum
from minikafka.coordination.partitioning import partition_for
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Endpoint

READY_TIMEOUT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.02
QUIET_S: Final = 3.0
LOOKS_APART_S: Final = 1.0


class ObservedCluster(ABC):
    """A cluster of one layout, whose nodes are asked over their client ports."""

    layout: ClusterLayout
    on_waiting: Callable[[str], None] | None = None
    """Told for which nodes :meth:`wait_ready` waits, and what one of them logged last, when that takes long."""

    @property
    def bootstrap_servers(self) -> str:
        """Bootstrap servers for clients."""
        return self.layout.bootstrap_servers

    @property
    def node_ids(self) -> list[int]:
        """The ids of its nodes, up or not."""
        return self.layout.node_ids

    @abstractmethod
    def responsive(self) -> list[int]:
        """The nodes that are up, and not paused."""

    @abstractmethod
    def check_alive(self, node_id: int) -> None:
        """Raise ClusterError with the reason when a node that was started has ended."""

    @abstractmethod
    def remedy(self, command: str, call: str) -> str:
        """What the user does: a command, or a call where the cluster is that of a test."""

    # --- looking ---

    @cached_property
    def _entrance(self) -> Entrance:
        return self.layout.entrance()

    def probe(self, node_id: int, timeout_s: float = 1.0) -> ClusterView | None:
        """The cluster as seen by this node; None without an answer."""
        return probe(Endpoint(HOST, self.layout.client_port(node_id)), timeout_s, self._entrance)

    def probe_quorum(self, node_id: int) -> QuorumView | None:
        """The metadata quorum as seen by this node; None without an answer."""
        return probe_quorum(Endpoint(HOST, self.layout.client_port(node_id)), entrance=self._entrance)

    def login_refusal(self, node_id: int) -> str | None:
        """That this node does not let the admin in, and why; None when it does, or does not answer."""
        why = login_refusal(Endpoint(HOST, self.layout.client_port(node_id)), self._entrance)
        if why is None:
            return None
        from minikafka.chaos.logins import ADMIN

        file = self.layout.logins.password_file(ADMIN)
        return f"node {node_id} is up, and does not take the password of {ADMIN} in {file}: {why}"

    def view(self) -> ClusterView | None:
        """The cluster as seen by its controller, or else by any node that answers."""
        views = {node_id: self.probe(node_id) for node_id in self.responsive()}
        answers = [view for node_id, view in views.items() if view is not None and view.controller_id == node_id]
        return next(iter(answers), None) or next((view for view in views.values() if view is not None), None)

    def quorum(self) -> QuorumView:
        """The metadata quorum as seen by a node that knows its leader, or else by any node that answers."""
        seen = QuorumView(None, "the metadata quorum does not answer")
        for node_id in self.responsive():
            answer = self.probe_quorum(node_id)
            if answer is not None and answer.leader_id is not None:
                return answer
            seen = answer or seen
        return seen

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition, from the controller. Raises ClusterError without a leader."""
        view = self._answer()
        for each in view.partitions:
            if (each.topic, each.partition) == (topic, partition):
                if each in view.leaderless:
                    raise ClusterError(f"partition {topic}-{partition} has no leader now")
                return each.leader_id
        raise ClusterError(f"partition {topic}-{partition} not found")

    def coordinator_of(self, group: str, *, transactional: bool = False) -> int:
        """The coordinator of a consumer group, or of a transactional id. Raises ClusterError without one.

        There is none before the first group, or transactional id, is used.
        """
        topic = TRANSACTION_STATE_TOPIC if transactional else CONSUMER_OFFSETS_TOPIC
        partitions = sum(each.topic == topic for each in self._answer().partitions)
        if not partitions:
            what = "transactional id" if transactional else "group"
            raise ClusterError(f"{what} {group!r} has no coordinator yet: none was used so far")
        return self.leader_of(topic, partition_for(group, partitions))

    def controller(self) -> int:
        """The active controller. Raises ClusterError without one."""
        quorum = self.quorum()
        if quorum.leader_id is None:
            raise ClusterError(f"no active controller: {quorum.trouble}")
        return quorum.leader_id

    def _answer(self) -> ClusterView:
        view = self.view()
        if view is None:
            raise ClusterError(f"no node answers; start the cluster with: {self.remedy('cluster start', 'heal()')}")
        return view

    # --- waiting ---

    def wait_ready(self, node_ids: Iterable[int] | None = None, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until each of these nodes (default: all) answers, and sees all of them alive and a controller. Raises
        LoginRefusedError when one lets nobody in: at the end, for a node may not yet know its users."""
        expected = frozenset(self.node_ids if node_ids is None else node_ids)
        waiting = sorted(expected)
        deadline = time.monotonic() + timeout_s
        look_s, told = time.monotonic() + QUIET_S, ""
        while waiting := [node_id for node_id in waiting if not self._is_ready(node_id, expected)]:
            for node_id in waiting:
                self.check_alive(node_id)
            if time.monotonic() >= deadline:
                if refusal := self.login_refusal(waiting[0]):
                    raise LoginRefusedError(refusal)
                names = ", ".join(map(str, waiting))
                raise ClusterError(
                    f"not ready after {timeout_s:g} s: node {names}\n{last_log_lines(self.layout, waiting[0])}"
                )
            if self.on_waiting is not None and time.monotonic() >= look_s:
                look_s, seen = time.monotonic() + LOOKS_APART_S, self._waiting_for(waiting)
                if seen != told:
                    self.on_waiting(told := seen)
            time.sleep(POLL_INTERVAL_S)

    def _waiting_for(self, node_ids: list[int]) -> str:
        last = last_log_lines(self.layout, node_ids[0], 1).strip()
        said = f"node {node_ids[0]} logged last:\n  {last}" if last else f"node {node_ids[0]} has logged nothing yet"
        return f"waiting until ready: node {', '.join(map(str, node_ids))}; {said}"

    def wait_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> float:
        """Wait until no partition is under-replicated or without a leader. Returns the seconds."""
        return self.wait_for(lambda view: view.fully_replicated, "every replica to be in sync", timeout_s)

    def wait_for(
        self, condition: Callable[[ClusterView], bool], what: str, timeout_s: float = READY_TIMEOUT_S
    ) -> float:
        """Wait until the cluster's view satisfies `condition`. Returns the seconds."""
        start = time.monotonic()
        while (view := self.view()) is None or not condition(view):
            if time.monotonic() - start >= timeout_s:
                raise ClusterError(f"timed out after {timeout_s:g} s waiting for {what}; last seen: {view}")
            time.sleep(POLL_INTERVAL_S)
        return time.monotonic() - start

    def wait_until_without(self, topic_ids: Set[UUID], timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until no node knows any of these topics, which were deleted, any more."""
        deadline = time.monotonic() + timeout_s
        for node_id in self.node_ids:
            while (view := self.probe(node_id)) is None or view.topic_ids & topic_ids:
                if time.monotonic() >= deadline:
                    raise ClusterError(
                        f"timed out after {timeout_s:g} s waiting for node {node_id} to forget its topics"
                    )
                time.sleep(POLL_INTERVAL_S / 4)

    def _is_ready(self, node_id: int, expected: frozenset[int]) -> bool:
        view = self.probe(node_id)
        if view is None:
            return False
        if view.cluster_id != self.layout.cluster_id:
            port = self.layout.client_port(node_id)
            raise ClusterError(f"another cluster ({view.cluster_id}) uses port {port}; choose another --base-port")
        return view.has_controller and expected <= view.broker_ids
