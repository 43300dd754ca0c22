"""The files of a small partition, byte for byte as Apache Kafka 3.9's ``DumpLogSegments`` read them.

But for the checksum in ``leader-epoch-checkpoint``: see docs/decisions/0014.
"""

from __future__ import annotations

from storage_batches import NOW_MS, OpenLog, append

from minikafka.storage.disk import OsDisk

GOLDEN = {
    "00000000000000000000.index": bytes.fromhex("00000003000000a3"),
    "00000000000000000000.log": bytes.fromhex(
        "00000000000000000000003e000000000220fe5aa50000000000000000018bcfe568000000018bcfe56800ffffffffff"
        "ffffffffffffffffff0000000118000000066b6579066f6e650000000000000000010000004d00000000025811b2b200"
        "00000000010000018bcfe568050000018bcfe5680500000000000000070001000000000000000218000000066b657906"
        "74776f001c000002066b65790a74687265650000000000000000030000003f00000002028d865b600000000000000000"
        "018bcfe568030000018bcfe56803ffffffffffffffffffffffffffff000000011a000000066b657908666f757200"
    ),
    "00000000000000000000.timeindex": bytes.fromhex("0000018bcfe5680500000002"),
    "00000000000000000004.snapshot": bytes.fromhex(
        "0001388cecdb0000000100000000000000070001000000010000000000000002000000010000018bcfe56805ffffffff"
        "ffffffffffffffff"
    ),
    "leader-epoch-checkpoint": b"0\n2\n0 0\n2 3\ncrc32c e90276a4\n",
}


def test_a_partition_directory_is_kafkas_byte_for_byte(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(index_interval_bytes=100)
    append(log, b"one", leader_epoch=0, timestamp=NOW_MS)
    append(log, b"two", b"three", leader_epoch=0, timestamp=NOW_MS + 5, producer=(7, 1, 0))
    append(log, b"four", leader_epoch=2, timestamp=NOW_MS + 3)
    log.close()
    files = {name: disk.read_bytes(f"{directory}/{name}") for name in disk.listdir(directory)}
    assert files == GOLDEN
