"""What one request to the controller has of a client's."""

from __future__ import annotations

from minikafka.broker.pacing import CHARACTERS_PER_REQUEST, PER_REQUEST, portions


def test_a_request_to_the_controller_is_bounded_by_entries_and_by_their_text() -> None:
    """300 lists of 30 KB in one turn of its loop took 2 to 3 s, and it was deposed."""
    few = portions(range(2 * PER_REQUEST), lambda number: number)
    assert [len(some) for some in few] == [PER_REQUEST, PER_REQUEST]
    long = portions(range(6), lambda number: number, lambda _: CHARACTERS_PER_REQUEST // 2)
    assert long == [[0, 1], [2, 3], [4, 5]]


def test_entries_of_one_name_stay_together() -> None:
    """Else none of them is refused as a repetition."""
    assert portions([1, 2, 1], lambda number: number, lambda _: CHARACTERS_PER_REQUEST) == [[1, 1], [2]]
