from __future__ import annotations

import random
from uuid import UUID

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.replication.server_session import Follower, SessionsByPartition
from minikafka.replication.session_cache import FetchSessionCache
from minikafka.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NAMES = 12
IDS = 13
TOPIC_ID = UUID(int=5)
FOLLOWER = Follower(2, 1)


@pytest.fixture
def names():
    return {TOPIC_ID: "t"}


@pytest.fixture
def cache(names):
    return FetchSessionCache(random.Random(1), names.get, SessionsByPartition(), max_slots=2, eviction_ms=1000)


def request(*partitions, session_id=0, epoch=0, forget=(), topic="t", topic_id=TOPIC_ID):
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[FetchPartition(partition=p) for p in partitions])]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, topic_id=topic_id, partitions=list(forget))]
        if forget
        else [],
    )


def open_(cache, *partitions, version=NAMES, follower=None, now_ms=0, **kwargs):
    return cache.open(request(*partitions, **kwargs), version, follower=follower, now_ms=now_ms)


def answer(context, **news):
    """Answer every partition with HW 0, but those in ``news`` (p0=..., p1=...) as given."""
    results = [
        (cached, news.get(f"p{cached.partition}") or PartitionData(partition_index=cached.partition))
        for cached in context.partitions
    ]
    response = context.response(results)
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def indexes(context):
    return [cached.partition for cached in context.partitions]


def code(refusal):
    return refusal.value.code


# -- opening and going on ----------------------------------------------------------------------------------------------


@pytest.mark.spec("R6")
def test_a_full_request_opens_a_session_and_is_answered_in_full(cache):
    context = open_(cache, 0, 1)
    assert context.session_id > 0
    assert answer(context) == [0, 1]
    assert context.session_id in cache


@pytest.mark.spec("R6")
def test_an_incremental_request_is_about_all_partitions_and_answers_news(cache):
    opened = open_(cache, 0, 1)
    answer(opened)
    context = open_(cache, session_id=opened.session_id, epoch=1)
    assert indexes(context) == [0, 1]
    assert answer(context, p1=PartitionData(partition_index=1, high_watermark=4)) == [1]
    again = open_(cache, session_id=opened.session_id, epoch=2)
    assert answer(again, p1=PartitionData(partition_index=1, high_watermark=4)) == []


@pytest.mark.parametrize(
    "news",
    [
        PartitionData(records=b"x"),
        PartitionData(high_watermark=1),
        PartitionData(last_stable_offset=1),
        PartitionData(log_start_offset=1),
        PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)),
        PartitionData(preferred_read_replica=3),
    ],
)
def test_what_is_news(cache, news):
    opened = open_(cache, 0)
    answer(opened)
    assert answer(open_(cache, session_id=opened.session_id, epoch=1), p0=news) == [0]


def test_after_an_error_the_first_good_answer_is_news(cache):
    opened = open_(cache, 0)
    answer(opened, p0=PartitionData(high_watermark=4))
    answer(open_(cache, session_id=opened.session_id, epoch=1), p0=PartitionData(error_code=1, high_watermark=4))
    assert answer(open_(cache, session_id=opened.session_id, epoch=2), p0=PartitionData(high_watermark=4)) == [0]


def test_partitions_are_added_changed_and_forgotten(cache):
    opened = open_(cache, 0, 1)
    context = open_(cache, 2, session_id=opened.session_id, epoch=1, forget=[0])
    assert indexes(context) == [1, 2]
    changed = request(session_id=opened.session_id, epoch=2)
    changed.topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=1, fetch_offset=9)])]
    context = cache.open(changed, NAMES, follower=None, now_ms=0)
    assert [cached.asked.fetch_offset for cached in context.partitions] == [9, 0]


def test_a_session_without_partitions_is_closed(cache):
    opened = open_(cache, 0)
    context = open_(cache, session_id=opened.session_id, epoch=1, forget=[0])
    assert (context.partitions, context.session_id) == ((), 0)
    assert len(cache) == 0


def test_a_full_request_without_partitions_opens_none(cache):
    assert open_(cache).session_id == 0


@pytest.mark.spec("R8")
def test_served_partitions_go_to_the_end(cache):
    opened = open_(cache, 0, 1, 2)
    answer(opened, p0=PartitionData(partition_index=0, records=b"x"))
    context = open_(cache, session_id=opened.session_id, epoch=1)
    assert indexes(context) == [1, 2, 0]


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_an_unknown_session(cache):
    with pytest.raises(KafkaError) as refusal:
        open_(cache, session_id=5, epoch=1)
    assert code(refusal) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 7])
def test_a_wrong_epoch(cache, epoch):
    opened = open_(cache, 0)
    with pytest.raises(KafkaError) as refusal:
        open_(cache, session_id=opened.session_id, epoch=epoch)
    assert code(refusal) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_repeated_epoch(cache):
    opened = open_(cache, 0)
    open_(cache, session_id=opened.session_id, epoch=1)
    with pytest.raises(KafkaError) as refusal:
        open_(cache, session_id=opened.session_id, epoch=1)
    assert code(refusal) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_answer_that_a_later_request_has_overtaken(cache):
    opened = open_(cache, 0)
    waiting = open_(cache, session_id=opened.session_id, epoch=1)
    open_(cache, session_id=opened.session_id, epoch=2)
    assert waiting.response([]).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_names_and_ids_do_not_mix(cache):
    opened = open_(cache, 0)
    with pytest.raises(KafkaError) as refusal:
        open_(cache, session_id=opened.session_id, epoch=1, version=IDS)
    assert code(refusal) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_consumer_cannot_reach_a_followers_session(cache):
    opened = open_(cache, 0, follower=FOLLOWER)
    with pytest.raises(KafkaError) as refusal:
        open_(cache, session_id=opened.session_id, epoch=1)
    assert code(refusal) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    open_(cache, 0, session_id=opened.session_id)
    assert opened.session_id in cache


# -- topic ids ---------------------------------------------------------------------------------------------------------


def test_ids_are_resolved_to_names(cache):
    context = open_(cache, 0, version=IDS)
    assert [cached.tp for cached in context.partitions] == [TopicPartition("t", 0)]
    response = context.response([(context.partitions[0], PartitionData())])
    assert [topic.topic_id for topic in response.responses] == [TOPIC_ID]


def test_an_id_may_become_known_later(cache, names):
    names.clear()
    opened = open_(cache, 0, version=IDS)
    assert opened.partitions[0].tp is None
    names[TOPIC_ID] = "t"
    context = open_(cache, session_id=opened.session_id, epoch=1, version=IDS)
    assert context.partitions[0].tp == TopicPartition("t", 0)


# -- closing and evicting ----------------------------------------------------------------------------------------------


def test_a_full_request_closes_the_session_it_names(cache):
    opened = open_(cache, 0)
    replaced = open_(cache, 0, session_id=opened.session_id)
    assert opened.session_id not in cache
    assert replaced.session_id in cache
    assert open_(cache, 0, session_id=replaced.session_id, epoch=-1).session_id == 0
    assert len(cache) == 0


def test_without_a_slot_there_is_no_session_but_an_answer(cache):
    open_(cache, 0, 1)
    open_(cache, 0, 1)
    context = open_(cache, 0, 1, 2, now_ms=1000)
    assert context.session_id == 0
    assert answer(context) == [0, 1, 2]


def test_the_stale_session_goes_first(cache):
    stale = open_(cache, 0, 1, 2)
    used = open_(cache, 0)
    open_(cache, session_id=used.session_id, epoch=1, now_ms=900)
    context = open_(cache, 0, now_ms=1001)
    assert context.session_id in cache
    assert used.session_id in cache
    assert stale.session_id not in cache


def test_an_old_session_gives_way_to_a_larger_one(cache):
    small, large = open_(cache, 0), open_(cache, 0, 1, 2)
    for opened in (small, large):
        open_(cache, session_id=opened.session_id, epoch=1, now_ms=900)
    assert open_(cache, 0, now_ms=1500).session_id == 0, "not worth more than any"
    assert open_(cache, 0, 1, now_ms=1500).session_id > 0
    assert small.session_id not in cache
    assert large.session_id in cache


def test_a_follower_takes_a_consumers_slot_at_any_time(cache):
    consumer, other = open_(cache, 0, 1, 2), open_(cache, 0, 1, 2, follower=FOLLOWER)
    assert open_(cache, 0, follower=FOLLOWER, now_ms=1).session_id > 0
    assert consumer.session_id not in cache
    assert other.session_id in cache
    assert open_(cache, 0, 1, 2, 3, now_ms=2).session_id == 0, "a consumer never takes a follower's"


def test_the_cache_is_bounded(cache):
    for at in range(50):
        open_(cache, *range(at + 1), now_ms=at * 2000, follower=None if at % 3 else FOLLOWER)
    assert len(cache) <= 2


# -- what clients may hold ---------------------------------------------------------------------------------------------


def test_a_client_cannot_let_a_session_grow_for_ever(cache):
    """Each request brought 10,000 partitions more: the tenth held the loop for half a second."""
    opened = open_(cache, *range(9_000))
    with pytest.raises(KafkaError) as refusal:
        open_(cache, *range(9_000, 10_001), session_id=opened.session_id, epoch=1)
    assert code(refusal) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert opened.session_id not in cache


def test_a_follower_may_have_more(cache):
    opened = open_(cache, *range(9_000), follower=FOLLOWER)
    context = open_(cache, *range(9_000, 18_000), session_id=opened.session_id, epoch=1, follower=FOLLOWER)
    assert len(context.partitions) == 18_000


def test_the_partitions_of_all_clients_are_bounded(names):
    """A hundred sessions of 10,000 partitions each, none of which exists, took 350 MB."""
    cache = FetchSessionCache(random.Random(1), names.get, SessionsByPartition(), eviction_ms=1000, max_partitions=25)
    first, second = open_(cache, *range(10)), open_(cache, *range(10))
    assert open_(cache, *range(10)).session_id == 0
    with pytest.raises(KafkaError):
        open_(cache, *range(10, 20), session_id=second.session_id, epoch=1)
    third = open_(cache, *range(10), follower=FOLLOWER)
    assert open_(cache, *range(10)).session_id > 0, "in the place of the second"
    open_(cache, session_id=0, epoch=-1)
    closing = request(0, session_id=first.session_id, epoch=-1)
    cache.open(closing, NAMES, follower=None, now_ms=0)
    assert open_(cache, *range(5), forget=()).session_id > 0, "in the place of the first"
    assert third.session_id in cache


def test_a_stale_session_gives_its_partitions_up(names):
    cache = FetchSessionCache(random.Random(1), names.get, SessionsByPartition(), eviction_ms=1000, max_partitions=25)
    stale = open_(cache, *range(20))
    assert open_(cache, *range(20), now_ms=500).session_id == 0
    assert open_(cache, *range(20), now_ms=1001).session_id > 0
    assert stale.session_id not in cache


def test_no_session_keeps_names_that_no_topic_can_have(cache):
    """Five thousand names of 32 KiB each are 160 MB."""
    assert open_(cache, 0, topic="x" * 250).session_id == 0
    opened = open_(cache, 0, topic="x" * 249)
    with pytest.raises(KafkaError):
        open_(cache, 0, topic="x" * 250, session_id=opened.session_id, epoch=1)
