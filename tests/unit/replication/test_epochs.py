from __future__ import annotations

import random

import pytest
from replication_log import MemoryLog

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.replication.epochs import check_leader_epoch, diverging_epoch, truncation_offset

WHERE = TopicPartition("t", 0)
UNDEFINED = OffsetAndEpoch(-1, -1)


def log_of(*epochs, high_watermark=0, log_start_offset=0):
    """A log whose records have these epochs; the values are the offsets, so equal epochs mean equal records."""
    return MemoryLog(
        [(epoch, offset) for offset, epoch in enumerate(epochs)],
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
    )


def answer(leader, asked):
    return leader.end_offset_for_epoch(asked)


@pytest.mark.spec("E5")
def test_the_leader_ends_the_epoch_before_us():
    follower = log_of(1, 1, 1, 1, 1, 1)
    assert truncation_offset(1, OffsetAndEpoch(4, 1), follower) == (4, True)


@pytest.mark.spec("E5")
def test_the_leader_ends_the_epoch_after_us():
    assert truncation_offset(1, OffsetAndEpoch(9, 1), log_of(1, 1)) == (2, True)


@pytest.mark.spec("E5")
def test_our_own_end_of_the_epoch_bounds_the_cut():
    follower = log_of(1, 1, 3, 3)
    assert truncation_offset(3, OffsetAndEpoch(3, 1), follower) == (2, True)


@pytest.mark.spec("E5")
def test_an_epoch_that_is_unknown_here_asks_again_from_the_epoch_before():
    follower = log_of(1, 1, 3, 3)
    assert truncation_offset(3, OffsetAndEpoch(7, 2), follower) == (2, False)


@pytest.mark.spec("E5")
def test_an_undefined_answer_drops_the_epoch_and_asks_for_the_one_before():
    assert truncation_offset(3, UNDEFINED, log_of(1, 1, 3, 3, high_watermark=1)) == (2, False)


@pytest.mark.spec("R4")
def test_an_undefined_answer_cuts_to_the_high_watermark_rather_than_below_it():
    assert truncation_offset(3, UNDEFINED, log_of(1, 1, 3, 3, high_watermark=3)) == (3, True)
    assert truncation_offset(3, UNDEFINED, log_of(3, 3, 3, high_watermark=1)) == (1, True)


def test_a_log_without_epochs_is_cut_to_the_answer():
    follower = MemoryLog()
    assert truncation_offset(3, OffsetAndEpoch(0, 2), follower) == (0, True)


@pytest.mark.spec("E5")
@pytest.mark.parametrize("seed", range(300))
def test_repeated_lookups_find_the_common_prefix(seed):
    """Naive twin: compare the logs record by record. Every epoch has one leader, who alone adds records of it."""
    rng = random.Random(seed)
    logs = [MemoryLog(), MemoryLog(), MemoryLog()]
    for epoch in range(1, rng.randrange(2, 9)):
        leader = rng.choice(logs)
        if rng.random() < 0.8:
            leader.begin_epoch(epoch)
        leader.append(epoch, *[(epoch, n) for n in range(rng.randrange(4))])
        for log in logs:
            if log is not leader and rng.random() < 0.6:
                agree = common_prefix(log, leader)
                if rng.random() < 0.5 or agree == log.log_end_offset:
                    log.truncate_to(agree)
                    log.extend(leader.records[agree : agree + rng.randrange(5)])
    leader, follower = rng.sample(logs, 2)
    expected = common_prefix(leader, follower)
    assert resolved(leader, follower) == expected


def common_prefix(one, other):
    pairs = zip(one.records, other.records, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(one.log_end_offset, other.log_end_offset))


def resolved(leader, follower):
    """Look up and cut until both agree, as a fetcher does."""
    while follower.latest_epoch >= 0:
        asked = follower.latest_epoch
        truncation = truncation_offset(asked, answer(leader, asked), follower)
        follower.truncate_to(truncation.offset)
        if truncation.is_complete:
            break
        assert follower.latest_epoch < asked
    return follower.log_end_offset


@pytest.mark.parametrize(
    ("fetch_offset", "last_fetched_epoch", "expected"),
    [
        (4, -1, None),
        (2, 1, None),
        (3, 1, (2, 1)),
        (4, 3, None),
        (5, 3, (4, 3)),
        (3, 2, (2, 1)),
    ],
)
def test_diverging_epoch(fetch_offset, last_fetched_epoch, expected):
    assert diverging_epoch(log_of(1, 1, 3, 3), fetch_offset, last_fetched_epoch) == expected


@pytest.mark.parametrize(("log_start_offset", "fetch_offset", "last_fetched_epoch"), [(0, 4, 4), (3, 2, 3)])
def test_what_no_lookup_settles_is_out_of_range(log_start_offset, fetch_offset, last_fetched_epoch):
    log = log_of(1, 1, 3, 3, log_start_offset=log_start_offset)
    with pytest.raises(KafkaError) as refusal:
        diverging_epoch(log, fetch_offset, last_fetched_epoch)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.spec("E3")
@pytest.mark.spec("E6")
def test_callers_are_fenced_by_the_epoch_they_name():
    check_leader_epoch(WHERE, 5, 5)
    check_leader_epoch(WHERE, 5, -1)
    for named, code in ((4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as refusal:
            check_leader_epoch(WHERE, 5, named)
        assert refusal.value.code is code
