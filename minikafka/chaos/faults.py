"""Commands that break nodes of a local cluster, and mend them: their links, disks and clocks, and what they answer.

A node has a fault until it is mended, or ends: one that is started again has none. Which there are, the nodes know.
"""

from __future__ import annotations

import asyncio
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar, Final, Protocol, TypeVar

from minikafka.chaos.damage import damage_replica
from minikafka.chaos.layout import HOST, ClusterError, ClusterLayout, NodeDownError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, Endpoint
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink
from minikafka.net.identity import Identity

T = TypeVar("T")

CLIENTS: Final = "clients"
Party = int | str
"""A node, or ``CLIENTS``: all of them."""
_Change = tuple[int, Party, dict[str, Any]]
"""A node that is told, its peer, and what changes of the link between them."""
_RETRY_S: Final = 0.1
_METHOD: Final = "faults"


class RunningNode(Protocol):
    """One that was started, and has not ended."""

    @property
    def paused(self) -> bool:
        """It answers nothing."""
        ...


class Breakable(ABC):
    """A cluster of one layout. Methods raise ClusterError for what cannot be, and for a node that does not answer;
    NodeDownError if it has ended. What breaks something changes nothing when one of its nodes is down, or paused.
    """

    patience_s: ClassVar[float] = 10.0
    """With a node that has a process, but does not answer: it may have just begun."""

    @property
    @abstractmethod
    def _nodes_layout(self) -> ClusterLayout:
        """Where its nodes are reached, and their secret."""

    @property
    @abstractmethod
    def _running_nodes(self) -> Mapping[int, RunningNode]:
        """Those that are up or paused."""

    def _is_up(self, node: int) -> bool:
        """Whether it has a process."""
        return node in self._running_nodes

    # -- links ------------------------------------------------------------------------------------------------------

    def cut(self, one: Party, other: Party, *, one_way: bool = False) -> None:
        """Cut the link between two nodes, or between a node and all clients; ``one_way``: from the first only.

        What is sent over it waits, and arrives when the link is healed.
        """
        self._break_links(_cuts(one, other, one_way=one_way))

    def isolate(self, node: int, others: Iterable[int] | None = None) -> None:
        """Cut all links of a node: to the others (default: to all of them), and to clients."""
        if others is None:
            others = [each for each in self._nodes_layout.node_ids if each != node]
        parties: list[Party] = [*others, CLIENTS]
        self._break_links(cut for other in parties for cut in _cuts(node, other, one_way=False))

    def rejoin(self, node: int, others: Iterable[int]) -> None:
        """Make the links of a node to these others, and to clients, whole again."""
        parties: list[Party] = [*others, CLIENTS]
        self._change_links(whole for other in parties for whole in self._joins(node, other))

    def slow(self, one: Party, other: Party, *, delay_ms: int = 0, bytes_per_s: int = 0) -> None:
        """Delay what is answered over a link, or let only so much pass; 0 and 0: as fast as ever."""
        changes = {"delay_ms": delay_ms, "bytes_per_s": bytes_per_s}
        both = _both_ends(one, other)
        self._break_links([(node, peer, changes) for node, peer in both if isinstance(node, int)])

    def join(self, one: Party, other: Party) -> None:
        """Make the link between two nodes, or between a node and all clients, whole again. A node without a process has
        no fault.
        """
        self._change_links(self._joins(one, other))

    def _joins(self, one: Party, other: Party) -> list[_Change]:
        whole = {"is_cut_in": False, "is_cut_out": False, "delay_ms": 0, "bytes_per_s": 0}
        both = _both_ends(one, other)
        return [(node, peer, whole) for node, peer in both if isinstance(node, int) and self._is_up(node)]

    # -- the rest of a node -----------------------------------------------------------------------------------------

    def clock(self, node: int, off_ms: int = 0, *, drift: float = 0.0) -> None:
        """Make a node's wall clock wrong by ``off_ms``, and by ``drift`` seconds more every second.

        Records get no old times because a clock is set back (docs/decisions/0009)."""
        self._break([node], {"do": "clock", "off_ms": off_ms, "drift": drift})

    def disk(
        self,
        node: int,
        *,
        full: bool | None = None,
        sync_delay_ms: int | None = None,
        unreadable: bool | None = None,
        lying: bool | None = None,
    ) -> None:
        """Fill a node's disk, slow its syncs down, or make its logs unreadable; None: as it is.

        One that is ``lying`` says that it syncs, and keeps nothing: if the node is killed, it begins with what it had
        when the disk began to lie, as after a power cut. A node that is stopped in order loses nothing.
        """
        changes = {
            "is_full": full,
            "sync_delay_ms": sync_delay_ms,
            "is_unreadable": unreadable,
            "is_lying": lying,
        }
        self._break([node], {"do": "disk", "changes": {k: v for k, v in changes.items() if v is not None}})

    def damage(self, node: int, topic: str, partition: int = 0, *, cut: bool = False) -> str:
        """Overwrite some bytes of a segment of a replica, or ``cut`` its end off. The node may run or be down;
        it is not told. Returns what was done. It is mended by the node alone, from other replicas.
        """
        self._check([node])
        directory = self._nodes_layout.data_directory(node)
        return damage_replica(directory, topic, partition, random.Random(), cut=cut)

    # -- rules ------------------------------------------------------------------------------------------------------

    def rule(
        self,
        api: str,
        *,
        error: str | None = None,
        delay_ms: int | None = None,
        drop: bool = False,
        disconnect: bool = False,
        duplicate: bool = False,
        versions: str | None = None,
        after: bool = False,
        client_id: str | None = None,
        times: int | None = None,
        brokers: Iterable[int] | None = None,
    ) -> dict[int, int]:
        """Have requests of clients treated by a rule, by all brokers, or these; one effect for each rule.

        ``error``: answer with it; ``delay_ms``: answer late; ``drop``: do not answer; ``disconnect``: end the
        connection instead; ``duplicate``: answer twice; ``versions`` (``0-7``): be an older broker. With ``after`` the
        request is carried out before it fails. ``client_id`` may be a pattern. Each broker counts ``times`` by itself.

        Returns the rule's number at each broker.
        """
        effects = {
            "error": error is not None,
            "delay": delay_ms is not None,
            "drop": drop,
            "disconnect": disconnect,
            "duplicate": duplicate,
            "versions": versions is not None,
        }
        wanted = [name for name, is_wanted in effects.items() if is_wanted]
        if len(wanted) != 1:
            given = ", ".join(wanted) or "none"
            raise ClusterError(f"a rule has one effect of {', '.join(effects)}; this one has {given}")
        body = {"do": "rule", "api": api, "effect": wanted[0], "error": error, "delay_ms": delay_ms}
        body |= {"versions": versions, "is_after": after, "client_id": client_id, "times": times}
        chosen = self._nodes_layout.node_ids if brokers is None else list(dict.fromkeys(brokers))
        if not chosen:
            raise ClusterError("a rule at which brokers? an empty list names none; without a list it is at all")
        answers = self._break(chosen, body)
        return {node: answer["number"] for node, answer in answers.items()}

    def remove_rule(self, numbers: Mapping[int, int]) -> None:
        """Take a rule away, by its number at each broker."""
        for node, number in numbers.items():
            self._tell([node], {"do": "unrule", "number": number})

    # -- all --------------------------------------------------------------------------------------------------------

    def mend(self, nodes: Iterable[int] = (), *, what: str | None = None) -> None:
        """Mend everything of these nodes (default: all), or one of ``links``, ``clock``, ``disk``, ``rules``."""
        self._tell(nodes or self._nodes_layout.node_ids, {"do": "heal", "what": what})

    def faults(self, nodes: Iterable[int] = ()) -> dict[int, list[str]]:
        """The faults of these nodes (default: all), a sentence each."""
        answers = self._tell(nodes or self._nodes_layout.node_ids, {"do": "list"})
        return {node: answer["faults"] for node, answer in answers.items()}

    # -- calls ------------------------------------------------------------------------------------------------------

    def _break(self, nodes: Iterable[int], body: dict[str, Any]) -> dict[int, dict[str, Any]]:
        nodes = list(nodes)
        self._check_ready(nodes)
        return self._tell(nodes, body)

    def _break_links(self, changes: Iterable[_Change]) -> None:
        changes = list(changes)
        self._check_ready(party for node, peer, _ in changes for party in (node, peer))
        self._change_links(changes)

    def _check_ready(self, parties: Iterable[Party]) -> None:
        """A fault at one end only would stay, after the error of the other end, as if nobody had made it."""
        nodes = [party for party in parties if party != CLIENTS]
        self._check(nodes)
        running = self._running_nodes
        for node in nodes:
            assert isinstance(node, int)
            if node not in running:
                raise NodeDownError(f"node {node} is down; nothing was changed")
            if running[node].paused:
                raise ClusterError(f"node {node} is paused; nothing was changed")

    def _change_links(self, changes: Iterable[_Change]) -> None:
        """All of them at once."""
        changes = list(changes)
        self._check(party for node, peer, _ in changes for party in (node, peer) if party != CLIENTS)
        commands = [
            (node, {"do": "link", "peer": None if peer == CLIENTS else peer, "changes": change})
            for node, peer, change in changes
        ]
        finished(self._call_all(commands))

    def _tell(self, nodes: Iterable[int], body: dict[str, Any]) -> dict[int, dict[str, Any]]:
        nodes = list(nodes)
        self._check(nodes)
        answers = finished(self._call_all([(node, body) for node in nodes]))
        return dict(zip(nodes, answers, strict=True))

    def _check(self, nodes: Iterable[Party]) -> None:
        for node in nodes:
            if isinstance(node, bool) or node not in self._nodes_layout.node_ids:  # True is 1 in Python
                names = ", ".join(map(str, self._nodes_layout.node_ids))
                raise ClusterError(f"node {node!r} not found; the nodes of this cluster are {names}")

    async def _call_all(self, commands: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
        """Also when one of them fails, the others are carried out."""
        answers = await asyncio.gather(*(self._call(node, body) for node, body in commands), return_exceptions=True)
        return [_checked(answer) for answer in answers]

    async def _call(self, node: int, body: dict[str, Any]) -> dict[str, Any]:
        layout = self._nodes_layout
        secret = layout.secret_file.read_bytes().strip()
        tls = layout.nodes_tls()
        identity = Identity(layout.cluster_id, NO_NODE, secret, lambda: os.urandom(32), lambda listener: tls)
        # A node that has hardly any CPU takes seconds to check who this is, every time that it is asked anew.
        link = ControlLink(identity, node, Endpoint(HOST, layout.ports(node)[2]), self.patience_s)
        try:
            async with asyncio.timeout(self.patience_s):
                return await self._ask(link, body)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_REQUEST:
                raise ClusterError(error.message) from None
            raise
        except (OSError, TimeoutError) as error:
            why = str(error) or f"no answer within {self.patience_s:.0f} s"
            kind = ClusterError if self._is_up(node) else NodeDownError
            raise kind(f"node {node} does not answer; is it up? ({why})") from error
        finally:
            link.close()

    async def _ask(self, link: ControlLink, body: dict[str, Any]) -> dict[str, Any]:
        """A node that is very busy, or has just begun, is asked again. Only a rule does more when it is given twice."""
        while True:
            try:
                answer: dict[str, Any] = await link.call(_METHOD, body, timeout_s=self.patience_s)
                return answer
            except (OSError, TimeoutError, ChannelClosedError):
                if not self._is_up(link.peer_id):
                    raise
                await asyncio.sleep(_RETRY_S)


def _checked(answer: dict[str, Any] | BaseException) -> dict[str, Any]:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _both_ends(one: Party, other: Party) -> tuple[tuple[Party, Party], ...]:
    """Each with the other. ClusterError: they are the same."""
    if one == other:
        raise ClusterError(f"there is no link from {one} to itself")
    return (one, other), (other, one)


def _cuts(one: Party, other: Party, *, one_way: bool) -> list[_Change]:
    told: list[_Change] = []
    for source, target in _both_ends(one, other)[: 1 if one_way else 2]:
        if isinstance(source, int):
            told.append((source, target, {"is_cut_out": True}))
        if isinstance(target, int):
            told.append((target, source, {"is_cut_in": True}))
    return told


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread: the caller may have a running loop. It is cancelled when the caller is interrupted."""
    loop = asyncio.new_event_loop()

    def run() -> T:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(work)

    def cancel() -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    with ThreadPoolExecutor(1, thread_name_prefix="minikafka-faults") as thread:
        try:
            return thread.submit(run).result()
        except BaseException:
            with suppress(RuntimeError):  # it ended with that error
                loop.call_soon_threadsafe(cancel)  # the first that it does, if it has not begun yet
            raise
