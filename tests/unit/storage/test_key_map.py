"""The map of the cleaner: what it knows, and that it never takes more memory than it says."""

from __future__ import annotations

import sys

from minikafka.records.batch import parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.key_map import MAX_KEYS, KeyMap


def add(keys: KeyMap, base_offset: int, *pairs: tuple[bytes | None, bytes | None]) -> None:
    records = [Record(0, 0, key, value) for key, value in pairs]
    batch = build_batch(records, base_offset=base_offset)
    keys.add(parse_header(batch), batch)


def survivors(keys: KeyMap, first: int, last: int) -> list[tuple[int, bool]]:
    keys.close()
    return [(entry >> 1, bool(entry & 1)) for entry in keys.survivors(first, last)]


def test_the_last_of_each_key_survives() -> None:
    keys = KeyMap(0)
    add(keys, 0, (b"a", b"1"), (b"b", b"1"), (None, b"1"), (b"a", b"2"))
    add(keys, 4, (b"b", None), (b"c", b"1"))
    assert survivors(keys, 0, 5) == [(3, False), (4, True), (5, False)]
    assert survivors(keys, 0, 3) == [(3, False)]
    assert survivors(keys, 4, 4) == [(4, True)]
    assert [keys.is_last(b"a", offset) for offset in (0, 3, 9)] == [False, True, True]
    assert keys.is_last(b"unknown", 0)


def test_long_keys_are_told_apart() -> None:
    keys = KeyMap(0)
    add(keys, 0, (b"k" * 100 + b"1", b"x"), (b"k" * 100 + b"2", b"x"), (b"k" * 100 + b"1", b"y"))
    assert survivors(keys, 0, 2) == [(1, False), (2, False)]
    assert not keys.is_last(b"k" * 100 + b"1", 0)


def test_a_full_map_says_where() -> None:
    keys = KeyMap(0, max_keys=3)
    add(keys, 0, (b"a", b"1"), (b"b", b"1"))
    add(keys, 2, (b"a", b"2"), (b"c", b"1"), (b"b", b"2"), (b"d", b"1"), (b"a", b"3"))
    assert keys.full_at == 5
    assert survivors(keys, 0, 9) == [(2, False), (3, False), (4, False)]


def test_what_an_earlier_pass_saw_does_not_count_again() -> None:
    """So a batch with more keys than there is room for takes several passes, not one for ever."""
    pairs = [(b"%d" % number, b"x") for number in range(10)]
    start, seen = 0, []
    while True:
        keys = KeyMap(start, max_keys=4)
        add(keys, 0, *pairs)
        seen.append([offset for offset, _ in survivors(keys, 0, 9)])
        if keys.full_at is None:
            break
        start = keys.full_at
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_batches_that_are_none_take_room_too() -> None:
    keys = KeyMap(0, max_keys=3)
    for number in range(5):
        batch = build_batch([Record(0, 0, b"k", b"v")], base_offset=number)
        batch[61] = 0xFF
        keys.add(parse_header(batch), batch)
    assert keys.full_at == 3
    assert keys.unreadable >= {0, 1, 2}
    assert survivors(keys, 0, 9) == []


def test_a_full_map_takes_less_than_64_mib() -> None:
    keys, offset = KeyMap(0), 0
    while keys.full_at is None:
        add(keys, offset, *((b"%031d" % (offset + at), b"") for at in range(9_000)))
        offset += 9_000
    keys.close()
    assert len(keys._entries) == MAX_KEYS
    of_entries = sum(rounded(key) + rounded(entry) for key, entry in keys._entries.items())
    table, survivors = sys.getsizeof(keys._entries), sys.getsizeof(keys._survivors) * 3 // 2  # it was sorted
    assert of_entries + table + survivors < 64 << 20
    grown_at = (1 << 19) * 2 // 3  # then there was the former table, too, half as large
    assert of_entries * grown_at // MAX_KEYS + table * 3 // 2 < 64 << 20


def rounded(thing: bytes | int) -> int:
    """As it is allocated."""
    return -(-sys.getsizeof(thing) // 16) * 16
