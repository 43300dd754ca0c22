from __future__ import annotations

from uuid import UUID

import pytest
from replication_log import MemoryLog

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.effects import (
    Append,
    Delayed,
    Fenced,
    FetchAgain,
    FollowOffsets,
    MarkFailed,
    RestartAt,
    SendFetch,
    SendListOffsets,
    SendOffsetsForLeaderEpoch,
    TruncateTo,
    Wait,
)
from minikafka.replication.fetch_state import UNKNOWN_HIGH_WATERMARK, FetchPhase, FollowedPartition
from minikafka.replication.fetch_states import FIRST_BACKOFF_MS
from minikafka.replication.fetcher import FetcherSettings, ReplicaFetcher
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.wire.messages.offset_for_leader_epoch import EpochEndOffset as EpochAnswer
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = UUID(int=9)
SESSION = 7


class Follower:
    """A fetcher with its driver, whose leader is the test."""

    def __init__(self, **logs):
        self.logs = {A: logs.get("a"), B: logs.get("b")}
        self.fetcher = ReplicaFetcher(1, 2, broker_epoch=22, settings=FetcherSettings(backoff_ms=1000))
        self.now_ms = 0
        self.puts_off = False
        for tp, log in self.logs.items():
            if log is not None:
                self.follow(tp)

    def follow(self, tp, leader_epoch=3):
        self.fetcher.add_partitions([FollowedPartition(tp, leader_epoch, self.logs[tp], TOPIC_ID)])

    def next(self, after_ms=0):
        self.now_ms += after_ms
        return self.carry_out(self.fetcher.next(self.now_ms))

    def carry_out(self, effects):
        done = []
        for effect in effects:
            done.append(effect)
            match effect:
                case Append(tp, records, high_watermark, log_start_offset):
                    log = self.logs[tp]
                    log.extend(records)
                    log.follow(high_watermark, log_start_offset)
                    self.fetcher.on_appended(tp, log.log_end_offset, log.latest_epoch)
                case FollowOffsets(tp, high_watermark, log_start_offset):
                    self.logs[tp].follow(high_watermark, log_start_offset)
                case TruncateTo(tp, offset) | FetchAgain(tp, offset):
                    self.logs[tp].truncate_to(offset)
                    self.fetcher.on_cut(tp)
                case RestartAt(tp, _) if self.puts_off:
                    return done + self.fetcher.on_cut_put_off(tp, self.now_ms)
                case RestartAt(tp, offset):
                    self.logs[tp].restart_at(offset)
                    self.fetcher.on_cut(tp)
        return done

    def answer_epochs(self, *answers):
        """(partition, epoch, end) or (partition, error)."""
        data = [
            EpochAnswer(partition=tp.partition, error_code=rest[0])
            if len(rest) == 1
            else EpochAnswer(partition=tp.partition, leader_epoch=rest[0], end_offset=rest[1])
            for tp, *rest in answers
        ]
        response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=data)])
        return self.carry_out(self.fetcher.on_epoch_end_offsets(response, self.now_ms))

    def answer_ends(self, tp, earliest, latest, error=0):
        responses = [
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name="t",
                        partitions=[
                            ListOffsetsPartitionResponse(partition_index=tp.partition, error_code=error, offset=offset)
                        ],
                    )
                ]
            )
            for offset in (earliest, latest)
        ]
        return self.carry_out(self.fetcher.on_list_offsets(*responses, self.now_ms))

    def answer_fetch(self, *partitions, error_code=0):
        response = FetchResponse(
            error_code=error_code,
            session_id=SESSION,
            responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))],
        )
        return self.carry_out(self.fetcher.on_fetch_response(response, self.now_ms))


def data(tp, records=(), *, high_watermark=0, log_start_offset=0, error=0, diverging=None):
    return PartitionData(
        partition_index=tp.partition,
        records=list(records),
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        error_code=error,
        diverging_epoch=None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
    )


def records(epoch, *values):
    return [(epoch, value) for value in values]


def empty():
    return MemoryLog()


def asked(effects):
    """What a fetch asks for, through the wire: {partition: (offset, last epoch, current epoch, log start)}."""
    (send,) = effects
    assert isinstance(send, SendFetch)
    request = decode_exactly(FetchRequest, 16, encode(send.request, 16))
    return {
        each.partition: (each.fetch_offset, each.last_fetched_epoch, each.current_leader_epoch, each.log_start_offset)
        for topic in request.topics
        for each in topic.partitions
    }


def fetching(**logs):
    """A follower whose logs agree with the leader's, with its first fetch out."""
    follower = Follower(**logs)
    effects = follower.next()
    if isinstance(effects[-1], SendOffsetsForLeaderEpoch):
        ends = [(tp, log.latest_epoch, 99) for tp, log in follower.logs.items() if log and log.epochs]
        follower.answer_epochs(*ends)
        effects = follower.next()
    if not isinstance(effects[-1], SendFetch):
        effects = follower.next()
    assert isinstance(effects[-1], SendFetch)
    return follower


# -- truncating first --------------------------------------------------------------------------------------------------


@pytest.mark.spec("R3")
@pytest.mark.spec("R4")
def test_a_log_with_epochs_asks_before_it_fetches():
    follower = Follower(a=MemoryLog(records(1, "a", "b") + records(2, "c"), high_watermark=1))
    (question,) = follower.next()
    partition = question.request.topics[0].partitions[0]
    assert (partition.current_leader_epoch, partition.leader_epoch) == (3, 2)
    assert question.request.replica_id == 2
    assert follower.next() == [], "an answer is awaited"
    assert follower.answer_epochs((A, 1, 2)) == [TruncateTo(A, 2)]
    assert asked(follower.next()) == {0: (2, 1, 3, 0)}


@pytest.mark.spec("R4")
def test_a_log_without_epochs_is_cut_to_its_high_watermark():
    log = MemoryLog(records(1, "a", "b", "c"), high_watermark=2)
    log.epochs.clear()
    follower = Follower(a=log)
    assert follower.next() == [TruncateTo(A, 2)]
    assert asked(follower.next()) == {0: (2, -1, 3, 0)}


@pytest.mark.spec("R26")
@pytest.mark.spec("R4")
@pytest.mark.spec("P5")
def test_a_look_up_alone_never_cuts_below_the_high_watermark():
    """Whose log is damaged then, the leader finds out from a fetch: it refuses, or says again where to cut."""
    follower = Follower(a=MemoryLog(records(1, "a", "b", "c"), high_watermark=3))
    follower.next()
    assert follower.answer_epochs((A, 1, 2)) == []
    (fetch,) = follower.next()
    assert asked([fetch]) == {0: (3, 1, 3, 0)}
    assert [one.high_watermark for one in fetch.request.topics[0].partitions] == [3]
    (backoff,) = follower.answer_fetch(data(A, error=ErrorCode.KAFKA_STORAGE_ERROR))
    follower.now_ms = backoff.until_ms
    assert asked(follower.next()) == {0: (3, 1, 3, 0)}, "not looked up again: the leader has not changed"
    assert follower.answer_fetch(data(A, diverging=(1, 2))) == [TruncateTo(A, 2)]


@pytest.mark.spec("R26")
def test_the_high_watermark_is_told_until_the_leader_has_served():
    follower = Follower(a=MemoryLog(records(1, "a", "b", "c"), high_watermark=3))
    follower.next()
    follower.answer_epochs((A, 1, 3))

    def told(effects):
        return [one.high_watermark for topic in effects[0].request.topics for one in topic.partitions]

    assert told(follower.next()) == [3]
    (backoff,) = follower.answer_fetch(data(A, error=ErrorCode.KAFKA_STORAGE_ERROR))
    follower.now_ms = backoff.until_ms
    assert told(follower.next()) == [3]
    follower.answer_fetch(data(A, records(1, "d"), high_watermark=3))
    assert told(follower.next()) == [UNKNOWN_HIGH_WATERMARK]


@pytest.mark.spec("E5")
def test_lookups_repeat_until_both_logs_agree():
    log = MemoryLog(records(1, "a") + records(3, "b") + records(5, "c"))
    follower = Follower(a=log)
    follower.next()
    assert follower.answer_epochs((A, 4, 9)) == [TruncateTo(A, 2)], "4 is unknown here: back to the end of 3"
    (question,) = follower.next()
    assert question.request.topics[0].partitions[0].leader_epoch == 3
    assert follower.answer_epochs((A, 2, 8)) == [TruncateTo(A, 1)], "2 is unknown too"
    follower.next()
    assert follower.answer_epochs((A, 1, 5)) == [TruncateTo(A, 1)]
    assert asked(follower.next()) == {0: (1, 1, 3, 0)}
    assert log.records == records(1, "a")


def test_a_truncation_that_changes_nothing_is_given_up():
    follower = Follower(a=MemoryLog(records(1, "a") + records(3, "b")))
    follower.next()
    follower.logs[A].truncate_to = lambda _offset: None
    follower.answer_epochs((A, 2, 9))
    (failed,) = follower.next()
    assert isinstance(failed, MarkFailed)
    assert follower.fetcher.state(A) is None


@pytest.mark.spec("R12")
def test_errors_of_a_lookup():
    follower = Follower(a=MemoryLog(records(1, "a")), b=MemoryLog(records(1, "b")))
    follower.next()
    effects = follower.answer_epochs((A, ErrorCode.UNKNOWN_LEADER_EPOCH), (B, ErrorCode.FENCED_LEADER_EPOCH))
    assert effects == [Delayed(A, ErrorCode.UNKNOWN_LEADER_EPOCH, FIRST_BACKOFF_MS), Fenced(B, 3)]
    assert follower.next() == [Wait(FIRST_BACKOFF_MS)]
    assert isinstance(follower.next(FIRST_BACKOFF_MS)[0], SendOffsetsForLeaderEpoch)


def test_a_partition_that_a_lookup_leaves_out_is_put_off():
    follower = Follower(a=MemoryLog(records(1, "a")))
    follower.next()
    assert follower.answer_epochs() == [Delayed(A, ErrorCode.UNKNOWN_SERVER_ERROR, FIRST_BACKOFF_MS)]


def test_a_lookup_without_an_answer_is_made_again():
    follower = Follower(a=MemoryLog(records(1, "a")))
    (first,) = follower.next()
    follower.fetcher.on_request_failed(follower.now_ms)
    assert follower.next() == [Wait(1000)]
    (second,) = follower.next(1000)
    assert second.request == first.request


@pytest.mark.spec("R10")
def test_an_answer_for_an_earlier_epoch_of_the_partition_is_dropped():
    follower = Follower(a=MemoryLog(records(1, "a", "b")))
    follower.next()
    follower.follow(A, leader_epoch=4)
    assert follower.answer_epochs((A, 1, 1)) == []
    (question,) = follower.next()
    assert question.request.topics[0].partitions[0].current_leader_epoch == 4


# -- fetching ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R5")
def test_a_fetch_carries_the_settings_and_who_asks():
    follower = Follower(a=empty())
    follower.fetcher._settings = FetcherSettings(1, 2, 3, 4)
    follower.next()
    (send,) = follower.next()
    request = send.request
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (1, 2, 3)
    assert request.topics[0].partitions[0].partition_max_bytes == 4
    assert (request.replica_id, request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 2, 22)


def test_the_default_settings_are_kafkas():
    assert FetcherSettings() == FetcherSettings(500, 1, 10 * 1024 * 1024, 1024 * 1024, 1000)


@pytest.mark.spec("R11")
def test_records_are_appended_and_the_high_watermark_follows():
    follower = fetching(a=empty())
    effects = follower.answer_fetch(data(A, records(3, "a", "b"), high_watermark=1))
    assert effects == [Append(A, records(3, "a", "b"), 1, 0)]
    assert follower.logs[A].high_watermark == 1
    assert asked(follower.next()) == {0: (2, 3, 3, 0)}


@pytest.mark.spec("R11")
def test_news_of_offsets_without_records():
    follower = fetching(a=MemoryLog(records(3, "a", "b")))
    assert follower.answer_fetch(data(A, high_watermark=2)) == [FollowOffsets(A, 2, 0)]
    assert asked(follower.next()) == {}, "the leader knows the offset already"


@pytest.mark.spec("R11")
def test_the_leader_is_told_when_the_log_start_followed_its_own():
    follower = fetching(a=MemoryLog(records(3, "a", "b")))
    follower.answer_fetch(data(A, high_watermark=2, log_start_offset=1))
    assert asked(follower.next()) == {0: (2, 3, 3, 1)}


@pytest.mark.spec("R11")
def test_lag_is_what_is_committed_at_the_leader_and_missing_here():
    follower = fetching(a=empty())
    follower.answer_fetch(data(A, records(3, "a"), high_watermark=5))
    assert follower.fetcher.state(A).lag == 4


@pytest.mark.spec("R11")
@pytest.mark.spec("R12")
def test_a_log_that_grew_by_itself_is_an_illegal_state():
    follower = fetching(a=empty())
    follower.logs[A].append(3, "intruder")
    (failed,) = follower.answer_fetch(data(A, records(3, "a")))
    assert isinstance(failed, MarkFailed)
    assert follower.fetcher.is_idle


@pytest.mark.spec("R6")
def test_only_what_changed_is_named():
    follower = fetching(a=empty(), b=empty())
    follower.answer_fetch(data(A, records(3, "a")))
    assert asked(follower.next()) == {0: (1, 3, 3, 0)}
    follower.answer_fetch()
    assert asked(follower.next()) == {}


@pytest.mark.spec("R6")
def test_a_lost_session_is_made_again_at_once():
    follower = fetching(a=empty(), b=empty())
    follower.answer_fetch()
    follower.next()
    follower.answer_fetch(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert len(asked(follower.next())) == 2


@pytest.mark.spec("R8")
def test_the_order_of_a_full_request_is_least_recently_served_first():
    follower = fetching(a=empty(), b=empty())
    follower.answer_fetch(data(A, records(3, "a")))
    follower.next()
    follower.fetcher.on_request_failed(follower.now_ms)
    assert list(asked(follower.next(1000))) == [1, 0]


@pytest.mark.spec("R8")
def test_after_a_failed_request_everything_waits():
    follower = fetching(a=empty())
    follower.fetcher.on_request_failed(follower.now_ms)
    assert follower.next() == [Wait(1000)]
    assert follower.next(999) == [Wait(1000)]
    assert isinstance(follower.next(1)[0], SendFetch)


@pytest.mark.spec("R8")
def test_an_error_of_the_whole_response_waits():
    follower = fetching(a=empty())
    assert follower.answer_fetch(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED) == []
    assert follower.next() == [Wait(1000)]


@pytest.mark.spec("R8")
def test_with_nothing_to_do_it_waits_for_ever():
    follower = Follower()
    assert follower.next() == [Wait(None)]


@pytest.mark.spec("R10")
def test_an_answer_for_what_is_not_followed_is_dropped():
    follower = fetching(a=empty(), b=empty())
    follower.fetcher.remove_partitions([A])
    stranger = TopicPartition("t", 9)
    effects = follower.answer_fetch(data(A, records(3, "a")), data(B, records(3, "b")), data(stranger))
    assert effects == [Append(B, records(3, "b"), 0, 0)]


@pytest.mark.spec("R10")
def test_an_answer_is_dropped_while_the_partition_truncates_again():
    follower = fetching(a=MemoryLog(records(3, "a")))
    follower.follow(A, leader_epoch=4)
    assert follower.answer_fetch(data(A, records(3, "b"))) == []
    assert isinstance(follower.next()[0], SendOffsetsForLeaderEpoch)


# -- divergence --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E5")
def test_a_divergence_in_a_fetch_is_cut_and_fetched_on():
    follower = fetching(a=MemoryLog(records(1, "a", "b") + records(2, "c")))
    assert follower.answer_fetch(data(A, diverging=(1, 1))) == [TruncateTo(A, 1)]
    assert asked(follower.next()) == {0: (1, 1, 3, 0)}


@pytest.mark.spec("E5")
def test_a_divergence_in_an_epoch_that_is_unknown_here_steps_back():
    follower = fetching(a=MemoryLog(records(1, "a") + records(3, "b")))
    assert follower.answer_fetch(data(A, diverging=(2, 5))) == [TruncateTo(A, 1)]
    assert asked(follower.next()) == {0: (1, 1, 3, 0)}


# -- out of range ------------------------------------------------------------------------------------------------------


def out_of_range(log):
    follower = fetching(a=log)
    assert follower.answer_fetch(data(A, error=ErrorCode.OFFSET_OUT_OF_RANGE)) == []
    (send,) = follower.next()
    assert isinstance(send, SendListOffsets)
    assert [each.topics[0].partitions[0].timestamp for each in (send.earliest, send.latest)] == [-2, -1]
    return follower


@pytest.mark.spec("R13")
def test_beyond_the_leaders_end_the_log_is_cut_to_it_and_compared_again():
    follower = out_of_range(MemoryLog(records(3, "a", "b", "c"), high_watermark=1))
    assert follower.answer_ends(A, 0, 2) == [TruncateTo(A, 2)]
    assert isinstance(follower.next()[0], SendOffsetsForLeaderEpoch)


@pytest.mark.spec("R13")
def test_below_the_leaders_start_the_log_starts_over():
    follower = out_of_range(MemoryLog(records(3, "a", "b")))
    assert follower.answer_ends(A, 5, 9) == [RestartAt(A, 5)]
    assert asked(follower.next()) == {0: (5, -1, 3, 5)}


@pytest.mark.spec("R13")
def test_inside_a_batch_the_log_starts_with_the_batch_after_a_pause():
    follower = out_of_range(MemoryLog(records(3, "a", "b")))
    follower.answer_ends(A, 5, 9)
    assert asked(follower.next()) == {0: (5, -1, 3, 5)}
    pause = Delayed(A, ErrorCode.OFFSET_OUT_OF_RANGE, FIRST_BACKOFF_MS)
    effects = follower.fetcher.on_starts_inside_batch(A, 4, follower.now_ms)
    assert follower.carry_out(effects) == [pause, RestartAt(A, 4)]
    assert follower.fetcher.on_starts_inside_batch(B, 4, follower.now_ms) == [], "not followed"
    follower.answer_fetch()
    assert isinstance(follower.next()[0], Wait)
    assert asked(follower.next(FIRST_BACKOFF_MS)) == {0: (4, -1, 3, 4)}


@pytest.mark.spec("R13")
def test_where_a_log_may_not_start_over_yet_the_leader_is_asked_again():
    follower = out_of_range(MemoryLog(records(3, "a", "b")))
    follower.puts_off = True
    put_off = Delayed(A, ErrorCode.OFFSET_OUT_OF_RANGE, FIRST_BACKOFF_MS)
    assert follower.answer_ends(A, 5, 9) == [RestartAt(A, 5), put_off]
    assert isinstance(follower.next()[0], Wait)
    assert asked(follower.next(FIRST_BACKOFF_MS)) == {0: (2, 3, 3, 0)}
    assert follower.fetcher.on_cut_put_off(B, 0) == []
    assert follower.fetcher.on_cut_put_off(A, 0) == [], "no cut is awaited"
    follower.answer_fetch(data(A, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    follower.next()
    follower.puts_off = False
    assert follower.answer_ends(A, 5, 9) == [RestartAt(A, 5)]
    assert asked(follower.next()) == {0: (5, -1, 3, 5)}


@pytest.mark.spec("R13")
def test_within_the_leaders_range_it_is_divergence_and_there_is_a_pause():
    follower = out_of_range(MemoryLog(records(3, "a", "b")))
    assert follower.answer_ends(A, 0, 9) == [Delayed(A, ErrorCode.OFFSET_OUT_OF_RANGE, FIRST_BACKOFF_MS)]
    assert follower.fetcher.state(A).phase is FetchPhase.TRUNCATING
    assert isinstance(follower.next(1000)[0], SendOffsetsForLeaderEpoch)


@pytest.mark.spec("R12")
def test_errors_of_looking_up_the_ends():
    follower = out_of_range(MemoryLog(records(3, "a")))
    effects = follower.answer_ends(A, 0, 0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert effects == [Delayed(A, ErrorCode.NOT_LEADER_OR_FOLLOWER, FIRST_BACKOFF_MS)]
    assert isinstance(follower.next(1000)[0], SendListOffsets)


def test_ends_without_an_answer_are_looked_up_again():
    follower = out_of_range(MemoryLog(records(3, "a")))
    follower.fetcher.on_request_failed(follower.now_ms)
    assert isinstance(follower.next(1000)[0], SendListOffsets)


# -- errors and delays -------------------------------------------------------------------------------------------------


@pytest.mark.spec("R2")
@pytest.mark.spec("R8")
@pytest.mark.spec("R12")
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        9999,
    ],
)
def test_a_partition_in_error_is_put_off_while_others_go_on(error):
    follower = fetching(a=empty(), b=empty())
    (backoff,) = follower.answer_fetch(data(A, error=error))
    assert (backoff.topic_partition, backoff.until_ms) == (A, FIRST_BACKOFF_MS)
    assert not follower.fetcher.state(A).is_ready_for_fetch
    (send,) = follower.next()
    assert [topic.partitions for topic in send.request.forgotten_topics_data] == [[0]]
    follower.answer_fetch()
    assert asked(follower.next(1000)) == {0: (0, -1, 3, 0)}


@pytest.mark.spec("R8")
def test_the_backoff_doubles_up_to_its_setting_until_something_is_appended():
    follower = fetching(a=empty())
    waits = []
    for _ in range(8):
        (backoff,) = follower.answer_fetch(data(A, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        waits.append(backoff.until_ms - follower.now_ms)
        follower.next(waits[-1])
    assert waits == [20, 40, 80, 160, 320, 640, 1000, 1000]
    follower.answer_fetch(data(A, records(3, "a")))
    follower.next()
    (backoff,) = follower.answer_fetch(data(A, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert backoff.until_ms - follower.now_ms == FIRST_BACKOFF_MS


@pytest.mark.spec("R10")
def test_what_an_answer_has_of_a_partition_is_looked_at_when_it_is_its_turn():
    """Others have turns in between: the partition may follow another leader by then."""
    follower = fetching(a=empty(), b=empty())
    partitions = [data(A, records(3, "a")), data(B, records(3, "b"))]
    answer = FetchResponse(
        session_id=SESSION, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    )
    effects = follower.fetcher.on_fetch_response(answer, 0)
    assert next(effects).topic_partition == A
    follower.fetcher.remove_partitions([B])
    follower.follow(B, leader_epoch=4)
    assert list(effects) == []


@pytest.mark.spec("R8")
def test_damage_that_stays_backs_off_further_each_time():
    follower = fetching(a=empty())
    follower.fetcher._states.get(A).failures = 3
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data(A, records(3, "a"))])])
    list(follower.fetcher.on_fetch_response(response, 0))
    (backoff,) = follower.fetcher.on_append_failed(A, ErrorCode.CORRUPT_MESSAGE, 0)
    assert backoff.until_ms == 8 * FIRST_BACKOFF_MS


@pytest.mark.spec("R8")
def test_a_long_poll_ends_when_a_delay_does():
    follower = fetching(a=empty(), b=empty())
    follower.answer_fetch(data(A, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    (send,) = follower.next(5)
    assert send.request.max_wait_ms == FIRST_BACKOFF_MS - 5


@pytest.mark.spec("R12")
def test_a_fenced_partition_is_dropped_until_metadata_adds_it():
    follower = fetching(a=empty())
    assert follower.answer_fetch(data(A, error=ErrorCode.FENCED_LEADER_EPOCH)) == [Fenced(A, 3)]
    assert follower.fetcher.is_idle
    follower.follow(A, leader_epoch=4)
    follower.next()
    assert asked(follower.next()) == {0: (0, -1, 4, 0)}


@pytest.mark.spec("T28")
def test_from_a_transaction_on_whose_end_may_be_gone_the_log_is_fetched_again():
    follower = fetching(a=MemoryLog(records(3, "a", "b", "c")))
    follower.answer_fetch(data(A))
    assert follower.carry_out(follower.fetcher.on_ends_gone(A, 1)) == [FetchAgain(A, 1)]
    assert follower.fetcher.on_ends_gone(B, 1) == [], "not followed"
    assert asked(follower.next()) == {0: (1, 3, 3, 0)}


@pytest.mark.spec("R12")
def test_damaged_records_are_fetched_again():
    follower = fetching(a=empty())
    effects = follower.fetcher.on_append_failed(A, ErrorCode.CORRUPT_MESSAGE, 0)
    assert effects == [Delayed(A, ErrorCode.CORRUPT_MESSAGE, FIRST_BACKOFF_MS)]


def contradicted(*, high_watermark=0):
    """A follower whose last record has a wrong epoch, 2, and to which the leader sent more of epoch 1."""
    log = MemoryLog(records(1, "a", "b", "c") + records(2, "d"), high_watermark=high_watermark)
    follower = fetching(a=log)
    assert follower.answer_fetch(data(A)) != []
    assert follower.fetcher.on_epochs_fall(A, 1, 0) == [Delayed(A, ErrorCode.INVALID_RECORD, FIRST_BACKOFF_MS)]
    (question,) = follower.next(FIRST_BACKOFF_MS)
    assert [each.leader_epoch for each in question.request.topics[0].partitions] == [1]
    return follower


@pytest.mark.spec("R12", "R26")
@pytest.mark.parametrize("high_watermark", [0, 4])
def test_an_epoch_that_the_leader_has_later_on_is_cut_off(high_watermark):
    """The replica was fetching for ever: the leader has epoch 2, so it saw no divergence."""
    follower = contradicted(high_watermark=high_watermark)
    assert follower.answer_epochs((A, 1, 6)) == [TruncateTo(A, 3)], "the replica judges a cut below its high watermark"
    assert asked(follower.next()) == {0: (3, 1, 3, 0)}


@pytest.mark.spec("R12", "R26")
@pytest.mark.parametrize("end", [(1, 3), (1, 2), (0, 3), (-1, -1)])
def test_epochs_that_agree_cut_nothing(end):
    """The sent batch has a wrong epoch: the leader has to find out."""
    follower = contradicted()
    assert follower.answer_epochs((A, *end)) == []
    assert asked(follower.next()) == {0: (4, 2, 3, 0)}


@pytest.mark.spec("R12")
def test_a_log_of_later_epochs_only_is_cut_at_its_start():
    follower = fetching(a=MemoryLog(records(2, "a", "b")))
    follower.answer_fetch(data(A))
    follower.fetcher.on_epochs_fall(A, 1, 0)
    follower.next(FIRST_BACKOFF_MS)
    assert follower.answer_epochs((A, 1, 6)) == [TruncateTo(A, 0)]


@pytest.mark.spec("R12")
def test_a_contradiction_that_comes_late_is_ignored():
    follower = fetching(a=empty())
    follower.answer_fetch(data(A))
    assert follower.fetcher.on_epochs_fall(B, 1, 0) == []
    follower.fetcher.on_epochs_fall(A, 1, 0)
    follower.follow(A, leader_epoch=4)
    (question,) = follower.next()
    assert isinstance(question, TruncateTo), "it begins anew"


@pytest.mark.spec("R8", "R12")
def test_a_shortage_here_puts_following_off():
    """Row 7 of issue 11: a follower that could not open its next segment followed that leader no more."""
    follower = fetching(a=empty())
    effects = follower.fetcher.on_append_put_off(A, 2, 3, 0)
    assert effects == [Delayed(A, ErrorCode.KAFKA_STORAGE_ERROR, FIRST_BACKOFF_MS)]
    state = follower.fetcher.state(A)
    assert state is not None
    assert (state.fetch_offset, state.last_fetched_epoch) == (2, 3), "what is in the log is not fetched again"
    assert follower.fetcher.on_append_put_off(B, 2, 3, 0) == []


@pytest.mark.spec("R12")
def test_a_storage_error_gives_the_partition_up_until_the_next_epoch():
    follower = fetching(a=empty(), b=empty())
    (failed,) = follower.fetcher.on_append_failed(A, ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert isinstance(failed, MarkFailed)
    assert follower.fetcher.state(A) is None
    assert follower.fetcher.on_append_failed(A, ErrorCode.KAFKA_STORAGE_ERROR, 0) == []
    follower.follow(A, leader_epoch=4)
    assert follower.fetcher.state(A) is not None


# -- which partitions --------------------------------------------------------------------------------------------------


def test_adding_in_the_same_epoch_disturbs_nothing():
    follower = fetching(a=MemoryLog(records(3, "a")))
    follower.follow(A)
    assert follower.answer_fetch(data(A, records(3, "b"))) == [Append(A, records(3, "b"), 0, 0)]


def test_adding_while_a_fetch_is_out_waits_for_its_answer():
    follower = fetching(a=empty())
    follower.logs[B] = MemoryLog(records(1, "b"))
    follower.follow(B)
    assert follower.next() == []
    follower.answer_fetch()
    assert isinstance(follower.next()[0], SendOffsetsForLeaderEpoch)


@pytest.mark.spec("R9")
def test_removing_the_last_partition_makes_it_idle():
    follower = fetching(a=empty())
    follower.fetcher.remove_partitions([A, B])
    assert follower.fetcher.is_idle
    follower.answer_fetch(data(A, records(3, "a")))
    assert follower.next() == [Wait(None)]


def test_removing_a_delayed_partition_ends_its_delay():
    follower = fetching(a=empty())
    follower.answer_fetch(data(A, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    follower.fetcher.remove_partitions([A])
    assert follower.next(1000) == [Wait(None)]


@pytest.mark.spec("R7")
def test_a_throttled_partition_is_left_out():
    follower = fetching(a=empty(), b=empty())
    follower.fetcher.throttle([A])
    assert follower.answer_fetch(data(A, records(3, "a"))) == [], "it is not ready for what was on its way"
    (send,) = follower.next()
    assert [topic.partitions for topic in send.request.forgotten_topics_data] == [[0]]
    follower.answer_fetch()
    follower.fetcher.unthrottle([A, B])
    assert asked(follower.next()) == {0: (0, -1, 3, 0)}


def test_answers_to_questions_nobody_asked_are_a_mistake_of_the_driver():
    follower = Follower(a=MemoryLog(records(1, "a")))
    with pytest.raises(AssertionError):
        follower.answer_fetch()
    with pytest.raises(AssertionError):
        follower.fetcher.on_request_failed(0)
