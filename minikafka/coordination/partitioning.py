"""The shard of a group or a transactional id: a partition of their topic, whose leader is the coordinator."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """``java.lang.String.hashCode`` of `text` as a signed int32: over its UTF-16 code units, as in Java."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(name: str, num_partitions: int) -> int:
    """The partition that a group's or transactional id hashes to (Kafka: ``Utils.abs(hashCode) % n``).

    ``Utils.abs`` negates, and gives 0 for the one value that has no positive counterpart; it is not the
    ``& 0x7fffffff`` that producers use for keys.
    """
    assert num_partitions > 0, "the topic has no partitions"
    value = java_string_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % num_partitions
