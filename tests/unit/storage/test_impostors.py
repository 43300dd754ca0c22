"""Finding 5 of the last attack on damage: what cannot be a segment is none, and neither stops nor stalls anything."""

from __future__ import annotations

import pytest
from captured_logs import capture_logs
from storage_batches import OpenLog, all_values, append

from minikafka.storage.disk import OsDisk
from minikafka.storage.log import Log
from minikafka.storage.meta import PARTITION_METADATA_FILE

STOPS = ["stopped", "killed"]
TOO_LARGE = "9" * 20  # 2^63 - 1 has 19 digits


def left(open_log: OpenLog, how: str) -> Log:
    log = open_log(segment_bytes=250)
    for at in range(9):
        append(log, b"%d" % at * 30)
    log.flush()
    if how == "stopped":
        log.close()
    return log


def opened(open_log: OpenLog, how: str, **known: int) -> Log:
    return open_log(clean=how == "stopped", was_killed=how == "killed", segment_bytes=250, **known)


def check(log: Log) -> None:
    assert log.corruption is None
    assert (log.log_start_offset, log.log_end_offset) == (0, 9)
    assert list(all_values(log)) == list(range(9))
    assert append(log, b"more").base_offset == 9


@pytest.mark.spec("P6")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("stem", [TOO_LARGE, f"{2**63:020d}", "12", "²", "١" * 20, "x", "-0000000000000000001"])
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
def test_a_name_that_no_offset_has_is_kept_aside(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, stem: str, suffix: str
) -> None:
    left(open_log, how)
    disk.write_bytes(f"{directory}/{stem}{suffix}", b"")
    with capture_logs() as lines:
        log = opened(open_log, how)
    assert [line["path"] for line in lines] == [f"{directory}/{stem}{suffix}"]
    assert disk.exists(f"{directory}/{stem}{suffix}.corrupt")
    check(log)
    log.close()
    with capture_logs() as lines:
        opened(open_log, "stopped")
    assert not lines


@pytest.mark.spec("P6")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("suffix", [".swap", ".deleted", ".cleaned", ".tmp", ".corrupt"])
@pytest.mark.parametrize("kind", [".log", ".index", ".snapshot"])
def test_what_was_on_its_way_under_such_a_name_does_nothing(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, suffix: str, kind: str
) -> None:
    left(open_log, how)
    disk.write_bytes(f"{directory}/{TOO_LARGE}{kind}{suffix}", b"")
    check(opened(open_log, how))


@pytest.mark.spec("P6")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("base", [11, 99_999_999_999, 2**63 - 1])
def test_an_empty_file_behind_the_log_does_not_move_its_end(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, base: int
) -> None:
    left(open_log, how)
    for stray in (base - 1, base):
        disk.write_bytes(f"{directory}/{stray:020d}.log", b"")
    with capture_logs() as lines:
        log = opened(open_log, how, recovery_point=9)
    assert [line["path"] for line in lines] == [f"{directory}/{stray:020d}.log" for stray in (base, base - 1)]
    check(log)


@pytest.mark.spec("P5")
@pytest.mark.spec("P6")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("has_list", [False, True])
def test_an_empty_file_is_not_the_log_whose_files_are_gone(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, has_list: bool
) -> None:
    """It became the log: one of an end that no record ever had, and with nothing missing."""
    log = left(open_log, how) if has_list else open_log()
    if not has_list:
        append(log, b"a")
        log.flush()
        if how == "stopped":
            log.close()
    disk.write_bytes(f"{directory}/{PARTITION_METADATA_FILE}", b"")
    for name in disk.listdir(directory):
        if name.endswith(".log"):
            disk.unlink(f"{directory}/{name}")
    disk.write_bytes(f"{directory}/{1 << 40:020d}.log", b"")
    with capture_logs() as lines:
        log = opened(open_log, how, recovery_point=9 if has_list else 1)
    assert log.corruption is not None
    if not (has_list and how == "killed"):  # how far it went is told
        assert [line["path"] for line in lines] == [f"{directory}/{1 << 40:020d}.log"]
        assert (log.corruption.offset, log.log_end_offset) == (0, 0)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_nothing_takes_the_place_of_a_segment_that_was_not_compacted(
    open_log: OpenLog, disk: OsDisk, directory: str, how: str, at: int, content: bytes
) -> None:
    log = left(open_log, how)
    base = [segment.base_offset for segment in log.segments][at]
    disk.write_bytes(f"{directory}/{base:020d}.log.swap", content)
    check(opened(open_log, how, recovery_point=9))


@pytest.mark.parametrize("how", STOPS)
def test_an_empty_segment_where_the_log_ends_is_one(open_log: OpenLog, how: str) -> None:
    log = left(open_log, "killed")
    log.roll()
    if how == "stopped":
        log.close()
    log = opened(open_log, how)
    assert (log.active_base_offset, log.log_end_offset) == (9, 9)
    check(log)
