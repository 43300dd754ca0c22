from __future__ import annotations

import random

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.replication.progress import ReplicaProgress
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

FOLLOWER = Follower(2, 7)
VERSION = 12
LAG_MS = 30


class Leader:
    """Answers fetches of one follower, which is at the end of every log."""

    def __init__(self):
        self.followers = SessionsByPartition()
        self.cache = FetchSessionCache(random.Random(1), lambda _id: None, self.followers)
        self.progress = {}
        self.news = {}
        self.in_sync = True
        self.session_id = self.epoch = 0

    def open(self, *named, forget=(), now_ms=0, who=FOLLOWER, **asked):
        topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=each, **asked) for each in named])]
        request = FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=topics if named else [],
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forget))] if forget else [],
        )
        fetch = self.cache.open(request, VERSION, follower=who, now_ms=now_ms)
        self.session_id, self.epoch = fetch.session_id, self.epoch + 1
        return fetch

    def look(self, fetch, now_ms=0, end=10):
        results = []
        for cached in fetch.partitions:
            progress = self.progress.setdefault(cached.partition, ReplicaProgress(2))
            progress.on_fetch(7, 10, 0, end, now_ms)
            fetch.on_looked_at(cached)
            results.append((cached, self.news.pop(cached.partition, None) or self.data(cached.partition)))
        return results

    @staticmethod
    def data(partition, **news):
        return PartitionData(partition_index=partition, **{"high_watermark": 10, **news})

    def settle(self, fetch, results):
        fetch.settle(results, lambda cached: self.progress[cached.partition] if self.in_sync else None)

    def fetch(self, *named, now_ms=0, **how):
        """The partitions looked at, and those in the answer."""
        fetch = self.open(*named, now_ms=now_ms, **how)
        results = self.look(fetch, now_ms)
        response = fetch.response(results)
        self.settle(fetch, results)
        told = [data.partition_index for topic in response.responses for data in topic.partitions]
        return [cached.partition for cached, _ in results], told


@pytest.fixture
def leader():
    return Leader()


def where(partition):
    return TopicPartition("t", partition)


@pytest.mark.spec("R6")
def test_a_fetch_looks_only_at_what_is_not_settled(leader):
    assert leader.fetch(0, 1, 2) == ([0, 1, 2], [0, 1, 2])
    assert leader.fetch() == ([], [])
    leader.followers.note(where(1))
    assert leader.fetch() == ([1], [])
    assert leader.fetch() == ([], [])


def test_a_session_with_nothing_to_look_at_is_not_one_about_nothing(leader):
    leader.fetch(0)
    assert not leader.open().is_empty


def test_what_a_request_names_is_looked_at(leader):
    leader.fetch(0, 1)
    assert leader.fetch(1, 2)[0] == [1, 2]


@pytest.mark.spec("R24")
def test_who_may_have_dropped_an_answer_is_told_all_again(leader):
    """It heard of a new leader epoch while one was on its way, and names its high watermark until it takes one."""
    leader.fetch(0, 1)
    assert leader.fetch(0, 1) == ([0, 1], [])
    assert leader.fetch(1, high_watermark=9) == ([1], [1])
    assert leader.fetch() == ([], [])


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"x"},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=2)},
    ],
)
def test_what_is_news_by_itself_is_looked_at_again(leader, news):
    leader.news[0] = leader.data(0, **news)
    leader.fetch(0)
    assert leader.fetch()[0] == [0]


@pytest.mark.spec("R18")
def test_who_may_join_with_each_fetch_is_looked_at_each_time(leader):
    leader.in_sync = False
    leader.fetch(0)
    assert leader.fetch()[0] == [0]
    leader.in_sync = True
    assert leader.fetch()[0] == [0]
    assert leader.fetch()[0] == []


def test_what_was_not_told_yet_is_told(leader):
    """A fetch that waits has looked, and has answered nothing."""
    leader.fetch(0)
    leader.followers.note(where(0))
    waiting = leader.open()
    leader.news[0] = leader.data(0, high_watermark=11)
    leader.settle(waiting, leader.look(waiting))
    waiting.look_again()
    assert [cached.partition for cached in waiting.partitions] == [0]


def test_what_moves_while_a_fetch_waits_is_looked_at_once(leader):
    leader.fetch(0, 1)
    waiting = leader.open()
    assert waiting.take_moved() == []
    leader.followers.note(where(1))
    assert leader.followers.sessions(where(1)) == [waiting.session]
    assert [cached.partition for cached in waiting.take_moved()] == [1]
    assert waiting.take_moved() == []
    waiting.look_again()
    assert [cached.partition for cached in waiting.partitions] == [1]


def test_what_moves_between_the_look_and_the_answer_stays_pending(leader):
    """A fetch of many partitions is looked at in portions."""
    fetch = leader.open(0, 1)
    results = leader.look(fetch)
    leader.followers.note(where(0))
    fetch.response(results)
    leader.settle(fetch, results)
    assert leader.fetch()[0] == [0]


def test_served_partitions_go_to_the_end_of_what_is_pending(leader):
    leader.in_sync = False
    leader.fetch(0, 1, 2)
    leader.news[0] = leader.data(0, records=b"x")
    leader.fetch()
    assert leader.fetch()[0] == [1, 2, 0]


def test_an_answer_that_was_overtaken_settles_nothing(leader):
    leader.fetch(0)
    leader.followers.note(where(0))
    early = leader.open()
    late = leader.open()
    results = leader.look(early)
    assert early.response(results).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    leader.settle(early, results)
    late.look_again()
    assert len(late.partitions) == 1


@pytest.mark.spec("R17")
@pytest.mark.spec("R19")
def test_a_follower_is_caught_up_at_each_fetch_of_a_settled_partition(leader):
    leader.fetch(0, now_ms=100)
    leader.fetch(now_ms=500)
    progress = leader.progress[0]
    assert progress.is_caught_up(11, 500 + LAG_MS, LAG_MS), "also while the leader reads only the session"
    leader.followers.note(where(0))
    assert progress.last_caught_up_time_ms == 500
    assert progress.is_caught_up(11, 500 + LAG_MS, LAG_MS)
    assert not progress.is_caught_up(11, 501 + LAG_MS, LAG_MS)


@pytest.mark.spec("R19")
def test_a_later_fetch_does_not_catch_up_with_what_came_before_it(leader):
    """The log end moved at 600, and the follower fetches from behind it at 700: it had all at 500."""
    leader.fetch(0, now_ms=500)
    leader.followers.note(where(0))
    late = leader.open(now_ms=700)
    leader.look(late, now_ms=700, end=11)
    assert leader.progress[0].last_caught_up_time_ms == 500


@pytest.mark.spec("R19")
def test_a_partition_that_a_session_forgets_is_caught_up_by_it_no_longer(leader):
    leader.fetch(0, 1, now_ms=100)
    leader.fetch(forget=[0], now_ms=500)
    assert leader.progress[0].last_caught_up_time_ms == 100
    assert leader.followers.sessions(where(0)) == []
    assert len(leader.followers) == 1


def test_an_earlier_session_does_not_count_for_a_later_one(leader):
    """Its follower gave its connection up; the request was still on its way."""
    leader.fetch(0, now_ms=100)
    old = leader.session_id, leader.epoch
    leader.session_id = leader.epoch = 0
    leader.fetch(0, now_ms=200)
    leader.session_id, leader.epoch = old
    leader.fetch(now_ms=900)
    leader.followers.note(where(0))
    assert leader.progress[0].last_caught_up_time_ms == 200


@pytest.mark.spec("R18")
def test_who_registers_anew_is_looked_at_everywhere(leader):
    """Its leader refuses the earlier broker epoch, and proposes only the later one."""
    leader.fetch(0, 1)
    assert leader.fetch(who=Follower(2, 8))[0] == [0, 1]
    assert leader.fetch(who=Follower(2, 8))[0] == []


def test_sessions_of_earlier_incarnations_end(leader):
    leader.fetch(0, 1)
    early = leader.session_id
    leader.session_id = leader.epoch = 0
    leader.fetch(0, who=Follower(3, 9))
    other = leader.session_id
    leader.session_id = leader.epoch = 0
    leader.fetch(0, who=Follower(2, 8))
    assert early not in leader.cache
    assert other in leader.cache
    assert len(leader.followers.sessions(where(0))) == 2
    assert leader.followers.sessions(where(1)) == []


def test_sessions_that_a_follower_left_end_with_its_next(leader):
    """Its fetcher ended when all its partitions had other leaders."""
    leader.fetch(0, 1, now_ms=0)
    left = leader.session_id
    leader.session_id = leader.epoch = 0
    leader.fetch(2, now_ms=60_000)
    used = leader.session_id
    leader.session_id = leader.epoch = 0
    leader.fetch(0, who=Follower(3, 9), now_ms=120_001)
    assert left in leader.cache, "another follower does not end it"
    leader.session_id = leader.epoch = 0
    leader.fetch(0, now_ms=120_001)
    assert left not in leader.cache
    assert used in leader.cache
    assert leader.followers.sessions(where(1)) == []


def test_a_session_is_its_brokers_only(leader):
    leader.fetch(0)
    for who in (Follower(3, 7), None):
        with pytest.raises(KafkaError) as refusal:
            leader.open(who=who)
        assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_nothing_is_settled_for_a_client(leader):
    fetch = leader.open(0, 1, who=None)
    results = leader.look(fetch)
    fetch.response(results)
    leader.settle(fetch, results)
    assert len(leader.open(who=None).partitions) == 2
    assert len(leader.followers) == 0


@pytest.mark.spec("R19")
def test_what_waits_in_a_session_that_is_over_settles_nothing(leader):
    """Its follower opened another; else the last fetch of the old one would count as that of the new one, for ever."""
    leader.fetch(0, now_ms=100)
    leader.followers.note(where(0))
    waiting = leader.open(now_ms=200)
    results = leader.look(waiting, 200)
    leader.epoch = 0  # names the old one
    leader.fetch(0, now_ms=300)
    leader.settle(waiting, results)
    leader.fetch(now_ms=900)
    leader.followers.note(where(0))
    assert leader.progress[0].last_caught_up_time_ms == 900


@pytest.mark.spec("R19")
def test_no_progress_refers_to_a_session_that_is_over(leader):
    """It may have had thousands of partitions, and its follower may be gone for good."""
    leader.fetch(0, now_ms=100)
    leader.fetch(now_ms=500)
    leader.epoch = -1
    leader.open()
    assert leader.progress[0].last_caught_up_time_ms == 500
