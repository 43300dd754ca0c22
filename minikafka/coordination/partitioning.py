"""The shard of a group or a transactional id: a partition of their topic, whose leader is the coordinator."""

from __future__ import annotations

from typing import Final

_INT32: Final = 0xFFFFFFFF
_CHUNK: Final = 128  # code units that are hashed at once
_LANE: Final = 64  # bits for each of them


def java_string_hash(text: str) -> int:
    """``java.lang.String.hashCode`` of `text` as a signed int32: over its UTF-16 code units, as in Java.

    Names may have 32,767 characters, and a request thousands of names: unit by unit, 66 MB of them took ten seconds.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    rest = len(units) - len(units) % (2 * _CHUNK)
    for at in range(0, rest, 2 * _CHUNK):
        value = (_POWER * value + _hash_of_chunk(units[at : at + 2 * _CHUNK])) & _INT32
    for high, low in zip(units[rest::2], units[rest + 1 :: 2], strict=True):
        value = (31 * value + (high << 8 | low)) & _INT32
    return value - (1 << 32) if value & 0x80000000 else value


def _hash_of_chunk(units: bytes) -> int:
    """That of _CHUNK code units, unsigned: each has a lane of one large integer, of which one half after the other is
    multiplied and added to the other half."""
    spread = bytearray(_CHUNK * _LANE // 8)
    spread[0::8], spread[1::8] = units[::-2], units[-2::-2]
    value = int.from_bytes(spread, "little")
    for half_bits, power, mask in _FOLDS:
        value = (value & mask) + (value >> half_bits) * power & mask
    return value


def _folds() -> list[tuple[int, int, int]]:
    """For each halving: bits of a half, the power of 31 that its lanes are apart, and a mask of int32 in its lanes."""
    halves = [1 << at for at in reversed(range(_CHUNK.bit_length() - 1))]
    masks = (_INT32 * (((1 << _LANE * half) - 1) // ((1 << _LANE) - 1)) for half in halves)
    return [(_LANE * half, pow(31, half, 1 << 32), mask) for half, mask in zip(halves, masks, strict=True)]


_FOLDS: Final = _folds()
_POWER: Final = pow(31, _CHUNK, 1 << 32)


def partition_for(name: str, num_partitions: int) -> int:
    """The partition that a group's or transactional id hashes to (Kafka: ``Utils.abs(hashCode) % n``).

    ``Utils.abs`` negates, and gives 0 for the one value that has no positive counterpart; it is not the
    ``& 0x7fffffff`` that producers use for keys.
    """
    assert num_partitions > 0, "the topic has no partitions"
    value = java_string_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % num_partitions
