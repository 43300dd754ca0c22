"""Partitions by key as librdkafka chooses them, in turn, at random."""

from __future__ import annotations

import random

from minikafka.cli.partitioners import Partitioner, choice

PARTITIONS = range(7)


def test_crc32_is_librdkafkas() -> None:
    """The CRC-32 of "123456789" is 0xCBF43926, in every textbook."""
    choose = choice(Partitioner.CRC32, PARTITIONS, random.Random(1))
    assert choose(b"123456789") == 0xCBF43926 % 7
    assert {choose(None) for _ in range(100)} == {choose(b"") for _ in range(100)} == set(PARTITIONS)


def test_in_turn_and_at_random() -> None:
    in_turn = choice(Partitioner.ROUND_ROBIN, PARTITIONS, random.Random(1))
    assert [in_turn(b"k") for _ in range(9)] == [0, 1, 2, 3, 4, 5, 6, 0, 1]
    at_random = choice(Partitioner.RANDOM, PARTITIONS, random.Random(1))
    assert {at_random(b"k") for _ in range(100)} == set(PARTITIONS)


def test_the_client_chooses_otherwise() -> None:
    assert choice(Partitioner.MURMUR2, PARTITIONS, random.Random(1))(b"k") is None
