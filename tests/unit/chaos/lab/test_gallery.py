"""Each lab has all that is told before and after it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minikafka.chaos.lab.gallery import LABS
from minikafka.chaos.lab.lab import Lab
from minikafka.config import BrokerConfig

PAGE = (Path(__file__).parents[4] / "docs" / "labs.md").read_text()
EACH = pytest.mark.parametrize("lab", LABS.values(), ids=LABS)


def test_there_are_ten() -> None:
    assert list(LABS) == [
        "acks-one",
        "min-isr",
        "unclean-election",
        "zombie-leader",
        "split-quorum",
        "slow-follower",
        "rack",
        "rebalance-storm",
        "full-disk",
        "delayed-end-txn",
    ]


@EACH
def test_it_says_what_to_watch_and_what_to_set(lab: type[Lab]) -> None:
    assert 1 <= len(lab.watch) <= 4
    assert lab.summary == lab.summary.rstrip(".")
    assert len(lab.summary) <= 100  # a line of the list
    assert lab.matters == lab.matters.rstrip(".")
    assert len(lab.advice) >= 2
    for text in (*lab.watch, *lab.advice):
        assert text.endswith("."), text
        assert "  " not in text, text


@EACH
def test_its_settings_are_settings_of_brokers(lab: type[Lab]) -> None:
    for node in range(1, lab.voters + lab.more + 1):
        settings = {**lab.settings, **lab().settings_of(node)}
        assert BrokerConfig(settings)


@EACH
def test_its_run_is_in_the_documentation(lab: type[Lab]) -> None:
    """As it is told now; what was measured is that of some run."""
    (section,) = re.findall(rf"^## {lab.name}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    told = " ".join(section.split())
    for text in (lab.summary, lab.matters, *lab.watch, *lab.advice):
        assert " ".join(text.split()) in told, "run: python tools/generate_labs.py"
