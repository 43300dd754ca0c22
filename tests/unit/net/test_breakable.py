"""Answers over a link that a test breaks: held, late, changed, and let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from net_peers import Peer, Recorder, Region, eventually, framed

from minikafka.model import Endpoint
from minikafka.net.breakable import BreakableConnection, Treatment
from minikafka.net.connection import Connection
from minikafka.net.duplicates import Duplicates
from minikafka.net.links import CLIENTS, Condition, Link, Links
from minikafka.net.listener import Listener, ListenerLimits

Dial = Callable[..., Awaitable[Peer]]


class Treating(Recorder):
    """Treats each answer in the same way."""

    def __init__(self, treatment: Treatment | None = None) -> None:
        super().__init__()
        self.treatment = treatment

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        assert isinstance(connection, BreakableConnection)
        connection.treatment = self.treatment
        super().on_frame(connection, frame)


async def listen(handler: Recorder, links: Links) -> Listener:
    limits = ListenerLimits(max_connections=10, max_frame_bytes=1 << 20)
    accepted = partial(BreakableConnection, links=links)
    listener = Listener("CLIENT", Endpoint("127.0.0.1", 0), handler, limits, Duplicates(0), accepted)
    await listener.start()
    return listener


async def test_an_answer_that_a_rule_has_late_leaves_once_nothing_is_broken(dial: Dial) -> None:
    """It was late also after a heal, and its client waited in the next test."""
    links, handler = Links(frozenset()), Treating(Treatment(delay_ms=3_600_000))
    listener = await listen(handler, links)
    links.change(CLIENTS, is_cut_out=True)
    peer = await dial(listener)
    await peer.send(framed(b"asked"))
    (reply,) = await eventually(lambda: handler.replies, "the request")
    reply.send([framed(b"answer")])
    links.hasten()
    assert not reply.is_ready, "its link is cut"
    links.heal()
    assert await peer.receive_frame() == b"answer"
    await listener.close()


async def test_who_gets_no_answer_loses_the_connection_instead(dial: Dial) -> None:
    """Rules with an error or an end did nothing to produce requests with acks=0, and were used up."""
    links, handler = Links(frozenset()), Treating(Treatment(change=lambda frame: frame or None))
    listener = await listen(handler, links)
    peer = await dial(listener)
    await peer.send(framed(b"asked"))
    (reply,) = await eventually(lambda: handler.replies, "the request")
    reply.skip()
    assert await peer.receive_all() == b""
    await listener.close()


async def test_an_answer_keeps_its_place_on_a_slow_link_when_others_change_or_rules_end(dial: Dial) -> None:
    """Its bytes were counted again, and it came later each time."""
    links, handler = Links(frozenset()), Treating()
    listener = await listen(handler, links)
    links.change(CLIENTS, bytes_per_s=1)
    peer = await dial(listener)
    await peer.send(framed(b"asked"))
    (reply,) = await eventually(lambda: handler.replies, "the request")
    reply.send([framed(b"answer")])
    place_s = reply.due_s
    links.change(7, delay_ms=1)
    links.hasten()
    assert not reply.is_ready
    assert reply.due_s == place_s
    links.heal()
    assert await peer.receive_frame() == b"answer"
    await listener.close()


async def test_an_answer_that_is_late_does_not_pass_a_link_that_is_cut_meanwhile(dial: Dial) -> None:
    links, handler = Links(frozenset()), Treating()
    listener = await listen(handler, links)
    links.change(CLIENTS, delay_ms=20)
    peer = await dial(listener)
    await peer.send(framed(b"asked"))
    (reply,) = await eventually(lambda: handler.replies, "the request")
    reply.send([framed(b"answer")])
    links.change(CLIENTS, is_cut_out=True)
    await asyncio.sleep(0.05)  # longer than the answer is late
    assert not reply.is_ready
    assert handler.connections[0].replies_held > len(b"answer")
    links.heal()
    assert await peer.receive_frame() == b"answer"
    assert not handler.connections[0].replies_held
    await listener.close()


async def test_files_of_a_held_answer_are_let_go_with_its_connection(dial: Dial, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 100)
    links, handler = Links(frozenset()), Treating()
    listener = await listen(handler, links)
    links.change(CLIENTS, is_cut_out=True)
    peer = await dial(listener)
    await peer.send(framed(b"asked"))
    (reply,) = await eventually(lambda: handler.replies, "the request")
    region = Region(tmp_path / "log", 0, 100)
    reply.send([region])
    peer.reset()
    await eventually(lambda: region.releases == 1, "the file to be let go")
    await listener.close()


async def test_an_answer_whose_file_cannot_be_read_ends_the_connection(dial: Dial, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"short")
    handler = Treating(Treatment(change=lambda frame: frame + frame))
    listener = await listen(handler, Links(frozenset()))
    peer = await dial(listener)
    await peer.send(framed(b"asked"))
    (reply,) = await eventually(lambda: handler.replies, "the request")
    region = Region(tmp_path / "log", 0, 100)
    reply.send([region])
    assert await peer.receive_all() == b""
    assert region.releases == 1
    await listener.close()


def test_a_connection_made_over_a_cut_link_stays_without_answers_when_the_link_becomes_slow() -> None:
    link = Link()
    link.change(Condition(is_cut_in=True), 1.0)
    link.change(Condition(is_cut_in=True, delay_ms=5), 3.0)
    assert link.due_s(10, opened_at_s=2.0, now_s=4.0) is None
    assert link.due_s(10, opened_at_s=0.5, now_s=4.0) is not None
