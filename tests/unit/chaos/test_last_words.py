"""The reason in a critical line, as `cluster status` and `cluster start` show it."""

from __future__ import annotations

import pytest

from minikafka.chaos.last_words import reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "2026-01-01T00:00:00Z [critical ] the node stops                 node=1 remedy='make room, then restart' "
            'why="KAFKA_STORAGE_ERROR: can\'t append: [Errno 28] No space left on device"',
            "the node stops: KAFKA_STORAGE_ERROR: can't append: [Errno 28] No space left on device; "
            "make room, then restart",
        ),
        ("2026-01-01T00:00:00Z [critical ] cannot run  node=2 why=gone", "cannot run: gone"),
        ("2026-01-01T00:00:00Z [critical ] cannot run", "cannot run"),
        ('{"event": "cannot run", "level": "critical", "why": "no disk"}', "cannot run: no disk"),
        ('{"event": "registered", "level": "info"}', None),
        ("{not JSON", None),
        ("2026-01-01T00:00:00Z [error    ] a task failed why='x'", None),
    ],
)
def test_a_critical_line_is_put_in_words(line: str, expected: str | None) -> None:
    assert reason(line) == expected
