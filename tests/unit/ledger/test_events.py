from __future__ import annotations

import pytest

from minikafka.ledger.events import Event, read_history


def test_a_torn_last_line_is_left_out() -> None:
    whole = Event(0, 0, "p", "ok", "poll", []).to_json() + "\n"
    assert len(list(read_history([whole, whole[:20]]))) == 1


@pytest.mark.parametrize("line", ["[]\n", "{}\n", '{"i": 0}\n'])
def test_a_line_that_is_no_event_is_refused_by_name(line: str) -> None:
    with pytest.raises(ValueError, match="not an event of a history"):
        list(read_history([line]))
