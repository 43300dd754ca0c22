"""Loggers of nodes know their node by the context, and are not those of the application."""

from __future__ import annotations

import asyncio
import io
from contextvars import copy_context

import pytest
import structlog
from structlog.testing import capture_logs

from minikafka.broker.threads import Threads
from minikafka.event_log import get_logger, write_to

log = get_logger()


def test_each_context_has_its_lines_and_fields() -> None:
    def node(number: int) -> str:
        lines = io.StringIO()
        write_to(lines, node=number)
        log.info("up", port=9)
        return lines.getvalue()

    one, two = (copy_context().run(node, number) for number in (1, 2))
    assert one.endswith("[info     ] up                             node=1 port=9\n")
    assert two.count("\n") == 1
    assert "node=2" in two


def test_a_name_gives_no_orders_to_a_terminal() -> None:
    lines = io.StringIO()

    def node() -> None:
        write_to(lines)
        log.info("up", group="\x1b[2J\x9b", words="\x07 a\nb")

    copy_context().run(node)
    assert lines.getvalue().endswith(" group=\\x1b[2J\\x9b words='\\\\x07 a\\nb'\n")


def test_threads_of_a_node_write_where_its_tasks_do() -> None:
    lines = io.StringIO()

    async def node() -> None:
        write_to(lines, node=1)
        threads = Threads(asyncio.get_running_loop())
        await threads.upkeep(lambda: log.warning("from a thread"))
        threads.close()

    asyncio.run(node())
    assert "from a thread" in lines.getvalue()
    assert "node=1" in lines.getvalue()


def test_without_a_context_it_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    copy_context().run(log.info, "nobody's")
    assert "nobody's" in capsys.readouterr().err


def test_an_application_configures_and_captures_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with capture_logs() as of_application:
        structlog.get_logger().info("the application's")
        log.info("a node's")
    assert [each["event"] for each in of_application] == ["the application's"]
    assert "a node's" in capsys.readouterr().err
