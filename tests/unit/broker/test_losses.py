"""Losses are said, written down, and seen in the status of the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_node import create_topic, eventually, led
from captured_logs import capture_logs

from minikafka.broker import losses
from minikafka.broker.node import Node
from minikafka.model import TopicPartition
from minikafka.replication import replica_effects as do

ORDERS = TopicPartition("orders", 0)


@pytest.mark.spec("P5")
async def test_truncation_below_the_high_watermark_is_a_loss(node: Node, tmp_path: Path) -> None:
    """Row 2 of issue 11: a follower cuts on the word of a leader that has less than was committed."""
    await create_topic(node, "orders")
    driver = node.data_plane.driver
    with capture_logs() as said:
        driver.carry_out(led(node, ORDERS), [do.Say(do.Saying.LOSS_BY_TRUNCATION, 3, 7)])
    assert [line["event"] for line in said if line["log_level"] == "error"] == ["records lost"]
    path = Path(node.store.directories[0].path) / losses.LOSSES_FILE
    await eventually(lambda: path.exists() and path.read_text(), "it to be written down")
    (line,) = path.read_text().splitlines()
    assert "orders-0 truncating below the high watermark" in line
    assert line.endswith("to offset 3, high watermark 7")


async def test_the_file_is_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "SIZE_MAX", 100)
    path = Path(node.store.directories[0].path) / losses.LOSSES_FILE
    noted = node.data_plane.driver._losses
    for _ in range(10):
        noted._append(str(path), b"x" * 59 + b"\n")
    assert path.stat().st_size == 120
