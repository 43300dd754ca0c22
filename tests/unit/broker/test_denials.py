"""The audit log says who was denied what, and no more lines than somebody reads."""

from __future__ import annotations

from captured_logs import capture_logs

from minikafka.broker.denials import LINES_MAX, NAME_MAX, WINDOW_S, Denials
from minikafka.security.acls import AclOperation, ResourceType


def note(denials: Denials, now_s: float, name: str = "orders") -> None:
    denials.note(now_s, "alice", "10.0.0.1", AclOperation.READ, ResourceType.TOPIC, name)


def test_lines_are_few_and_the_next_window_counts_the_others() -> None:
    denials = Denials()
    with capture_logs() as lines:
        for _ in range(LINES_MAX + 7):
            note(denials, 1.0)
        note(denials, 1.0 + WINDOW_S)
    assert [line["event"] for line in lines] == ["access denied"] * LINES_MAX + ["denials not logged", "access denied"]
    assert lines[LINES_MAX]["count"] == 7


def test_a_name_is_one_short_line() -> None:
    with capture_logs() as lines:
        note(Denials(), 0.0, "a\n[critical] forged" + "x" * NAME_MAX)
    assert "\n" not in lines[0]["resource"]
    assert len(lines[0]["resource"]) < NAME_MAX + 20
