"""The level of a node's log is described, set while it runs, and checked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest
from broker_client import Client

from minikafka.broker.loggers import DELETE, SET, RootLogger, root_logger
from minikafka.broker.logs import configure_logging
from minikafka.errors import ErrorCode
from minikafka.event_log import get_logger, processors
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.list_config_resources import ListConfigResourcesRequest

LOGGERS = 8


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    """The logger is the process's."""
    yield
    root_logger.configure("info")


def change(level: str | None, name: str = "root", operation: int = SET) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=level)


async def described(client: Client, name: str = "1") -> Any:
    resource = DescribeConfigsResource(resource_type=LOGGERS, resource_name=name, configuration_keys=None)
    (result,) = (await client.ask(DescribeConfigsRequest(resources=[resource]))).results
    return result.error_code or [(row.name, row.value, row.config_source, row.read_only) for row in result.configs]


async def altered(client: Client, *changes: AlterableConfig, name: str = "1", validate_only: bool = False) -> int:
    resource = AlterConfigsResource(resource_type=LOGGERS, resource_name=name, configs=list(changes))
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = (await client.ask(request)).responses
    assert (response.resource_type, response.resource_name) == (LOGGERS, name)
    code: int = response.error_code
    assert (response.error_message is None) == (code == 0)
    return code


async def test_the_level_is_described_and_set(client: Client) -> None:
    assert await described(client) == [("root", "INFO", 6, False)]
    assert await altered(client, change("DEBUG"), validate_only=True) == 0
    assert root_logger.level == "INFO"
    assert await altered(client, change("DEBUG")) == 0
    assert await described(client) == [("root", "DEBUG", 6, False)]
    listed = await client.ask(ListConfigResourcesRequest(resource_types=[LOGGERS]), 1)
    assert [(each.resource_name, each.resource_type) for each in listed.config_resources] == [("1", LOGGERS)]


async def test_what_is_wrong_changes_nothing(client: Client) -> None:
    invalid, config = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
    assert [await described(client, "2"), await described(client, "")] == [invalid, invalid]
    assert await altered(client, change("DEBUG"), name="2") == invalid
    assert await altered(client, change("debug")) == config
    assert await altered(client, change("DEBUG", "kafka")) == config
    assert await altered(client, change(None)) == invalid
    assert await altered(client, change(None, operation=DELETE)) == invalid
    assert [await altered(client, change("DEBUG", operation=kind)) for kind in (2, 3, 7)] == [invalid] * 3
    assert await altered(client, change("DEBUG"), change("WARN")) == invalid
    twice = AlterConfigsResource(resource_type=LOGGERS, resource_name="1", configs=[change("DEBUG")])
    answer = await client.ask(IncrementalAlterConfigsRequest(resources=[twice, twice]))
    assert [each.error_code for each in answer.responses] == [invalid]
    assert root_logger.level == "INFO"


def test_lines_below_the_level_are_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    before = processors.copy()
    of_loops = logging.getLogger("asyncio")
    try:
        copy_context().run(configure_logging, node_id=1, level="warning")
        assert not of_loops.isEnabledFor(logging.WARNING), "clients could have it write at will, and wait"
        log = get_logger()
        for level in ("WARN", "TRACE", "FATAL"):
            root_logger.alter([change(level)], validate_only=False)
            for method in ("debug", "info", "warning", "error", "critical"):
                getattr(log, method)(f"{method} at {level}")
    finally:
        processors[:] = before
        of_loops.setLevel(logging.NOTSET)
    lines = capfd.readouterr().err
    written = [line for line in lines.splitlines() if " at " in line]
    assert [next(level for level in ("WARN", "TRACE", "FATAL") if level in line) for line in written] == [
        *["WARN"] * 3,
        *["TRACE"] * 5,
        "FATAL",
    ]


@pytest.mark.parametrize(("word", "level"), [("debug", "DEBUG"), ("warning", "WARN"), ("error", "ERROR")])
def test_it_begins_with_the_level_of_the_settings(word: str, level: str) -> None:
    logger = RootLogger()
    logger.configure(word)
    assert logger.level == level
