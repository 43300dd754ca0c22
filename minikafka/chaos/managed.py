"""A cluster whose nodes are started, paused and ended from here. What a node is, a process, a thread or a container,
subclasses say.

*Ready* means that every node answers clients, all of them are live members, and there is a controller.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from minikafka.chaos.faults import Breakable, RunningNode
from minikafka.chaos.layout import ClusterError, ClusterLayout, LoginRefusedError, NodeDownError
from minikafka.chaos.observed import READY_TIMEOUT_S, ObservedCluster
from minikafka.chaos.ports import check_ports

if TYPE_CHECKING:
    from minikafka.config import BrokerConfig

STOP_TIMEOUT_S: Final = 15.0


class ManagedCluster(Breakable, ObservedCluster):
    """The nodes of one layout."""

    def __init__(self, layout: ClusterLayout) -> None:
        self.layout = layout
        self._starting = threading.Lock()
        self._has_ended = False

    # --- what a node is ---

    @abstractmethod
    def running(self) -> Mapping[int, RunningNode]:
        """The nodes that are up or paused."""

    @abstractmethod
    def _spawn(self, node_ids: Iterable[int], started: list[int]) -> None:
        """Start those that are down, and do not wait. Each is in ``started`` before it is started: Ctrl-C may come at
        any time.
        """

    @abstractmethod
    def _kill_started(self, node_ids: Iterable[int]) -> None:
        """Kill those of them that this object started."""

    @abstractmethod
    def kill(self, *node_ids: int) -> None:
        """Kill all of them, then wait until they are gone."""

    @abstractmethod
    def pause(self, *node_ids: int) -> None:
        """Stop them where they are: they answer nothing. Returns once that is so."""

    @abstractmethod
    def resume(self, *node_ids: int) -> None:
        """Paused nodes go on as if nothing had happened."""

    @abstractmethod
    def stop_node(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop one node in order. True when it was killed because it did not end in time."""

    def fetch(self, *node_ids: int) -> None:
        """Have the files and logs of these nodes where the layout says. There they are, if no subclass knows better."""

    def put_back(self, node_id: int) -> None:
        """Let a node that is down have its files as they are now where the layout says."""

    # --- looking ---

    @property
    def _nodes_layout(self) -> ClusterLayout:
        return self.layout

    @property
    def _running_nodes(self) -> Mapping[int, RunningNode]:
        return self.running()

    def responsive(self) -> list[int]:
        """The nodes that are up, and not paused."""
        return [node_id for node_id, node in self.running().items() if not node.paused]

    def check_node(self, node_id: int) -> None:
        """Raise ClusterError unless the cluster has such a node."""
        if node_id not in self.node_ids:
            names = ", ".join(map(str, self.node_ids))
            raise ClusterError(f"node {node_id!r} not found; the nodes of this cluster are {names}")

    def _down(self, node_id: int) -> NodeDownError:
        restart = self.remedy(f"cluster restart {node_id}", f"restart({node_id})")
        return NodeDownError(f"node {node_id} is down; start it with: {restart}")

    def quorum_shortage(self) -> str | None:
        """Why there can be no controller, if too few nodes run. A node without one does not yet listen for clients."""
        voters = self.layout.voter_ids
        needed = len(voters) // 2 + 1
        running = len({*self.responsive()} & {*voters})
        return None if running >= needed else f"an election needs {needed} of nodes {', '.join(map(str, voters))}"

    # --- starting and ending ---

    def check(self) -> None:
        """Raise ClusterError if the nodes cannot be started, because of their settings or ports."""
        from minikafka.config import BrokerConfig, ConfigError, parse_properties

        for node_id in self.node_ids:
            try:
                config = BrokerConfig(parse_properties(self.layout.server_properties(node_id)))
            except ConfigError as error:
                raise ClusterError("; ".join(error.problems)) from None
            if self.layout.secure:
                from minikafka.chaos.logins import check_admin

                check_admin(config)
            else:
                check_nobody_is_asked(config)
                check_anonymous(config)
        for node_id in self.node_ids:
            check_ports(self.layout, node_id)

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> list[int]:
        """Start the nodes that are down, and wait until the cluster is ready. Returns the started nodes.

        If one of them dies, or the cluster does not become ready, the started nodes are killed; but not if they only
        know another password: who has that can get in. Nodes that somebody else has just started are waited for, too.
        ClusterError when one is paused: it will not be ready.
        """
        if paused := [str(node_id) for node_id, node in self.running().items() if node.paused]:
            resume = self.remedy(f"cluster resume {' '.join(paused)}", f"resume({', '.join(paused)})")
            raise ClusterError(f"paused: node {', '.join(paused)}; resume with: {resume}")
        started: list[int] = []
        try:
            self._spawn_missing(self.node_ids, started)
            self.wait_ready(timeout_s=timeout_s)
        except LoginRefusedError:
            raise
        except BaseException:
            self._kill_started(started)
            raise
        return started

    def start_node(self, node_id: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start one node that is down. Waits until it is a live member, if there is a quorum."""
        self.check_node(node_id)
        started: list[int] = []
        self._spawn_missing([node_id], started)
        if not started:
            raise ClusterError(f"node {node_id} is already up")
        if self.quorum_shortage() is None:
            self.wait_ready([node_id], timeout_s)

    def spawn(self, *node_ids: int) -> None:
        """Start those of these nodes that are down, and do not wait for them."""
        self._spawn_missing(node_ids, [])

    def _spawn_missing(self, node_ids: Iterable[int], started: list[int]) -> None:
        with self._starting:
            if self._has_ended:
                raise ClusterError("this cluster has ended; make another one")
            self._spawn(node_ids, started)

    def end(self) -> None:
        """Kill every node, and let nobody start one, also who is about to in another thread."""
        with self._starting:
            self._has_ended = True
            self.kill_all()

    def restart(self, node_id: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start a node that is down, or stop and start one that is up."""
        self.check_node(node_id)
        if self._is_up(node_id):
            self.stop_node(node_id)
        self.start_node(node_id, timeout_s)

    def kill_all(self) -> None:
        """Kill every node that is up. One may end by itself meanwhile."""
        while running := self.running():
            with suppress(NodeDownError):
                self.kill(*running)


def check_nobody_is_asked(config: BrokerConfig) -> None:
    """Raise ClusterError for a node of a cluster that is not secure whose clients must say who they are by the listener
    that whoever starts it asks: it would wait in vain until the node is ready."""
    from minikafka.config.node import CLIENT
    from minikafka.config.security import PLAINTEXT

    if (protocol := config.security_protocol(CLIENT)) != PLAINTEXT:
        raise ClusterError(
            f"listener {CLIENT} must speak {PLAINTEXT}, not {protocol}: verbs reach the nodes by it, and know no "
            "password here; give clients a listener of another name, or make a new cluster with --secure"
        )


def check_anonymous(config: BrokerConfig) -> None:
    """Raise ClusterError for a new cluster in which nobody may do anything: there is no user yet who could log in."""
    if config.authorizer_class_name is None or config.allow_everyone_if_no_acl_found:
        return
    if "User:ANONYMOUS" not in config.super_users:
        raise ClusterError(
            "with authorizer.class.name nobody may do anything: super.users must have User:ANONYMOUS, too, who verbs "
            "are here; or make a cluster with users: --secure"
        )
