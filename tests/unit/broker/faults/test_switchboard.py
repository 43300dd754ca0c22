"""Commands that cannot be carried out change nothing, and never end a node."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from minikafka.broker.faults.switchboard import OFF_MS_MAX, Faults
from minikafka.errors import ErrorCode, KafkaError

RULE = {"do": "rule", "api": "Produce", "effect": "drop"}


def link(peer: Any = 2, **changes: Any) -> dict[str, Any]:
    return {"do": "link", "peer": peer, "changes": changes}


def disk(**changes: Any) -> dict[str, Any]:
    return {"do": "disk", "changes": changes}


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"do": "nothing"},
        {"do": ["list"]},
        {"do": "heal", "what": "link"},
        {"do": "unrule", "number": "1"},
        {"do": "link", "peer": 2, "changes": []},
        link("clients", delay_ms=1),
        link([], delay_ms=1),
        link(delay_ms="1"),
        link(delay_ms=-1),
        link(delay_ms=True),
        link(bytes_per_s=2**31),
        link(is_cut_in=1),
        link(is_cut=True),
        disk(sync_delay_ms="1"),
        disk(is_full=True, is_gone=True),
        {"do": "clock", "off_ms": math.inf, "drift": 0},
        {"do": "clock", "off_ms": OFF_MS_MAX + 1, "drift": 0},
        {"do": "clock", "off_ms": 5, "drift": math.nan},
        RULE | {"times": 0},
        RULE | {"times": "3"},
        RULE | {"client_id": 5},
        RULE | {"effect": "delay", "delay_ms": -5},
        RULE | {"effect": "versions", "versions": "3-1"},
        RULE | {"effect": "versions", "versions": "3-8", "times": 1},  # was a rule for ever, that said "once more"
    ],
)
async def test_a_command_that_cannot_be_is_refused_and_changes_nothing(body: Any) -> None:
    faults = Faults(time.time, time.sleep)
    with pytest.raises(KafkaError) as refusal:
        await faults.handle_call(2, body)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert await faults.handle_call(2, {"do": "list"}) == {"faults": []}


class Accepted:
    """A connection of a listener."""

    principal = None
    listener = "CLIENT"
    hastened = 0

    def on_link_changed(self) -> None: ...

    def hasten(self) -> None:
        self.hastened += 1


@pytest.mark.parametrize(("what", "times"), [(None, 1), ("rules", 1), ("clock", 0)])
async def test_what_a_rule_has_late_is_late_until_rules_are_healed(what: str | None, times: int) -> None:
    faults, connection = Faults(time.time, time.sleep), Accepted()
    faults.links.join(connection)
    await faults.handle_call(0, RULE)
    await faults.handle_call(0, {"do": "heal", "what": what})
    assert connection.hastened == times
    assert len(faults.rules) == (1 - times)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"api": "Prduce"}, "clients have no API 'Prduce'; did you mean Produce?"),
        ({"api": "X"}, "clients have no API 'X'; names are Kafka's, such as Produce or FindCoordinator"),
        (
            {"effect": "error", "error": "NOT_LEADER_FOR_PARTITION"},
            "Kafka has no error 'NOT_LEADER_FOR_PARTITION'; did you mean NOT_LEADER_OR_FOLLOWER?",
        ),
        ({"effect": "error", "error": "X"}, "Kafka has no error 'X'"),
    ],
)
async def test_a_name_that_is_not_kafkas_is_told_the_nearest(changed: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        await Faults(time.time, time.sleep).handle_call(2, RULE | changed)
    assert refusal.value.message == said
