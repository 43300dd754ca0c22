from __future__ import annotations

from minikafka.metrics.requests import Requests


def test_an_api_is_counted_once_however_many_listeners_serve_it() -> None:
    requests = Requests()
    assert requests.of("ListOffsets") is requests.of("ListOffsets")
    requests.of("ListOffsets").note(3)
    requests.of("Produce").note_errors([19, 19, 6])
    assert [(each.name, each.count, dict(each.errors)) for each in requests] == [
        ("ListOffsets", 1, {}),
        ("Produce", 0, {19: 2, 6: 1}),
    ]
