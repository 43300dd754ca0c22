from __future__ import annotations

import random
from uuid import UUID

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.replication.fetch_session import MAX_EPOCH, FetchSessionClient, next_epoch
from minikafka.replication.server_session import SessionsByPartition
from minikafka.replication.session_cache import FetchSessionCache
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": UUID(int=10), "b": UUID(int=11)}


def want(client, tp, offset=0, topic_id=None):
    partition = FetchPartition(partition=tp.partition, fetch_offset=offset)
    client.update(tp, topic_id or IDS[tp.topic], partition)


def named(request):
    return [(topic.topic, each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]


def forgotten(request):
    return [(topic.topic, partition) for topic in request.forgotten_topics_data for partition in topic.partitions]


@pytest.fixture
def client():
    client = FetchSessionClient()
    for tp in (A0, B0, A1):
        want(client, tp)
    return client


@pytest.fixture
def opened(client):
    client.build()
    assert client.on_response(ErrorCode.NONE, 77)
    return client


@pytest.mark.spec("R6")
def test_the_first_request_is_full_and_in_order(client):
    request = client.build()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert named(request) == [("a", 0, 0), ("b", 0, 0), ("a", 1, 0)]


@pytest.mark.spec("R6")
def test_later_requests_name_what_changed(opened):
    want(opened, B0, 5)
    request = opened.build()
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert named(request) == [("b", 0, 5)]
    opened.on_response(ErrorCode.NONE, 77)
    request = opened.build()
    assert (named(request), request.session_epoch) == ([], 2)


@pytest.mark.spec("R6")
def test_who_is_forgotten_is_named_once(opened):
    opened.forget(A0)
    assert forgotten(opened.build()) == [("a", 0)]
    opened.on_response(ErrorCode.NONE, 77)
    assert forgotten(opened.build()) == []


def test_forgotten_and_wanted_again_is_a_change(opened):
    opened.forget(A0)
    want(opened, A0, 9)
    request = opened.build()
    assert (forgotten(request), named(request)) == ([], [("a", 0, 9)])


def test_wanted_and_forgotten_between_requests_is_never_named(opened):
    other = TopicPartition("b", 9)
    want(opened, other)
    opened.forget(other)
    request = opened.build()
    assert (forgotten(request), named(request)) == ([], [])


def test_a_new_topic_of_the_same_name_replaces_the_old(opened):
    want(opened, B0, 3, UUID(int=99))
    request = opened.build()
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [IDS["b"]]
    assert [topic.topic_id for topic in request.topics] == [UUID(int=99)]


def test_changes_while_a_request_is_out_go_into_the_next(opened):
    opened.build()
    want(opened, A1, 4)
    opened.on_response(ErrorCode.NONE, 77)
    assert named(opened.build()) == [("a", 1, 4)]


@pytest.mark.spec("R6")
@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77)],
)
def test_a_lost_session_is_made_again_in_full(opened, error, session_id):
    opened.forget(B0)
    want(opened, A0, 8)
    opened.build()
    assert not opened.on_response(error, 0)
    request = opened.build()
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert named(request) == [("a", 0, 8), ("a", 1, 0)]
    assert forgotten(request) == []


@pytest.mark.spec("R6")
def test_no_answer_starts_the_session_over(opened):
    want(opened, A0, 8)
    opened.build()
    opened.on_failed()
    assert opened._epoch == 0
    assert len(named(opened.build())) == 3


def test_without_a_slot_every_request_is_full(client):
    client.build()
    assert client.on_response(ErrorCode.NONE, 0)
    assert len(named(client.build())) == 3
    assert client.session_id == 0


@pytest.mark.spec("R8")
def test_who_was_served_is_last_in_the_next_full_request(client):
    client.move_to_end(A0)
    client.move_to_end(TopicPartition("unknown", 0))
    assert named(client.build()) == [("b", 0, 0), ("a", 1, 0), ("a", 0, 0)]


def test_closing(opened):
    assert opened.close() == (77, -1, [], [])
    assert opened.close() is None


def test_epochs_wrap_past_zero():
    assert next_epoch(MAX_EPOCH) == 1


@pytest.mark.spec("R6")
@pytest.mark.parametrize("version", [12, 16])
@pytest.mark.parametrize("seed", range(12))
def test_both_sides_remember_the_same(seed, version):
    """Naive twin: after every answered request the server's session holds exactly what the client wants."""
    rng = random.Random(seed)
    client = FetchSessionClient()
    cache = FetchSessionCache(rng, {topic_id: name for name, topic_id in IDS.items()}.get, SessionsByPartition())
    wanted = {}
    for step in range(200):
        for _ in range(rng.randrange(4)):
            tp = TopicPartition(rng.choice("ab"), rng.randrange(4))
            if rng.random() < 0.6:
                wanted[tp] = step
                want(client, tp, step)
            elif wanted.pop(tp, None) is not None:
                client.forget(tp)
        if not len(client):
            continue
        session_id, session_epoch, topics, to_forget = client.build()
        request = FetchRequest(
            session_id=session_id, session_epoch=session_epoch, topics=topics, forgotten_topics_data=to_forget
        )
        request = decode_exactly(FetchRequest, version, encode(request, version))
        fate = rng.random()
        if fate < 0.05:
            client.on_failed()  # the request was lost
            continue
        try:
            context = cache.open(request, version, follower=None, now_ms=step)
        except KafkaError as error:
            is_usable = client.on_response(error.code, 0)
            assert not is_usable  # a refusal is one of the fates, not the point
            continue
        assert {cached.tp: cached.asked.fetch_offset for cached in context.partitions} == wanted
        if fate < 0.1:
            client.on_failed()  # its answer was
        elif fate < 0.15:
            cache = FetchSessionCache(rng, cache._topic_name, SessionsByPartition())  # the server was started anew
            assert client.on_response(ErrorCode.NONE, context.session_id)
        else:
            assert client.on_response(ErrorCode.NONE, context.session_id)
