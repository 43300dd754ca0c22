"""The offsets of records: one each, seldom several, sometimes none that anybody knows."""

from __future__ import annotations

from minikafka.ledger.offsets import UNKNOWN, Offsets, by_offset


def offsets(*pairs: tuple[str, int]) -> Offsets:
    found = Offsets()
    for record, offset in pairs:
        found.add(record, offset)
    return found


def test_the_lowest_of_several_offsets_is_a_records_own() -> None:
    found = offsets(("a", 7), ("a", 3), ("a", 7), ("b", 4))
    assert found == {"a": 3, "b": 4}
    assert found.all_of("a") == {3, 7}
    assert [*found.pairs()] == [("a", 3), ("a", 7), ("b", 4)]
    assert found.all() == [3, 7, 4]


def test_an_unknown_offset_gives_way_to_a_known_one() -> None:
    found = offsets(("a", UNKNOWN), ("b", UNKNOWN), ("b", 2), ("b", UNKNOWN))
    assert found == {"a": UNKNOWN, "b": 2}
    assert found.all_of("a") == found.all_of("nowhere") == set()
    assert [*found.pairs()] == [("b", 2)]
    assert (found.all(), found.several) == ([2], {})


def test_several_records_at_one_offset_are_told() -> None:
    assert offsets(("b", 1), ("a", 2), ("c", UNKNOWN), ("d", UNKNOWN)).shared() == {}
    found = offsets(("b", 1), ("a", 2), ("a", 1), ("c", 3))
    assert found.shared() == {1: ["a", "b"]}
    assert by_offset(found.pairs()) == {1: ["a", "b"], 2: ["a"], 3: ["c"]}


def test_a_copy_is_another_one() -> None:
    found = offsets(("a", 1), ("a", 2), ("b", 3))
    copy = found.copy()
    copy.add("a", 9)
    copy.discard("b")
    copy.discard("nowhere")
    assert (found.all(), copy.all()) == ([1, 2, 3], [1, 2, 9])
    copy.discard("a")
    assert copy.all() == []
