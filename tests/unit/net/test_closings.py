from __future__ import annotations

from captured_logs import capture_logs

from minikafka.net.closings import LINES_MAX, WINDOW_S, Closings


def test_a_peer_that_comes_back_all_the_time_does_not_fill_the_log() -> None:
    closings = Closings()
    with capture_logs() as lines:
        for attempt in range(LINES_MAX + 5):
            closings.note(attempt / 1000, "CLIENT", "10.0.0.7", "Fetch version 99 is not served")
    assert [line["event"] for line in lines] == ["connection closed"] * LINES_MAX
    assert lines[0] == {
        "event": "connection closed",
        "listener": "CLIENT",
        "log_level": "info",
        "peer": "10.0.0.7",
        "why": "Fetch version 99 is not served",
    }
    with capture_logs() as lines:
        closings.note(WINDOW_S, "CLIENT", "10.0.0.8", "unknown API key 999")
        closings.note(WINDOW_S, "CLIENT", "10.0.0.8", "unknown API key 999")
    assert [(line["event"], line.get("count")) for line in lines] == [
        ("closings not logged", 5),
        ("connection closed", None),
        ("connection closed", None),
    ]
