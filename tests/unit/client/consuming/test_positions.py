"""Where a consumer stands, and how it moves."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.client.consuming.positions import Position, PositionState
from minikafka.client.errors import LogTruncatedError, NoOffsetError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, LATEST, NO_EPOCH, UNDEFINED_OFFSET_AND_EPOCH, OffsetAndEpoch, TopicPartition

WHERE = TopicPartition("t", 0)


def fetching(offset: int = 10, epoch: int = 3, *, policy: int | None = EARLIEST, leader_epoch: int = 3) -> Position:
    position = Position(WHERE, policy)
    position.on_leader_epoch(leader_epoch)
    position.seek(offset, epoch)
    return position


def read_ahead(position: Position, to: int, epoch: int = 3) -> None:
    position.on_fetched(OffsetAndEpoch(to, epoch))


def test_a_position_begins_unknown_and_is_not_read() -> None:
    position = Position(WHERE)
    assert position.state is PositionState.UNKNOWN
    assert not position.may_be_read


def test_a_committed_offset_with_an_epoch_is_validated_first() -> None:
    position = Position(WHERE)
    position.seek(10, 3, validated=False)
    assert position.state is PositionState.VALIDATING
    position.seek(10, NO_EPOCH, validated=False)
    assert position.state is PositionState.FETCHING, "there is nothing to ask by"


def test_seeking_drops_what_was_fetched() -> None:
    position = fetching()
    read_ahead(position, 20)
    generation = position.generation
    position.seek(5)
    assert position.processed == position.consumed == position.fetched == (5, NO_EPOCH)
    assert position.waiting == 0
    assert position.generation > generation


@pytest.mark.spec("R25")
def test_a_follower_that_the_leader_named_is_read_for_a_while() -> None:
    position = fetching()
    assert position.source(1, 0) == 1
    position.read_from(2, 100)
    assert [position.source(1, now_ms) for now_ms in (0, 99, 100, 0)] == [2, 2, 1, 1]
    position.read_from(2, 100)
    position.ask()
    assert position.source(1, 100) == 2, "while an answer is awaited, it is known whose it will be"
    position.read_from_leader()
    assert position.source(1, 0) == 1


@pytest.mark.spec("R25")
def test_a_new_leader_is_asked_before_any_follower() -> None:
    position = fetching(epoch=NO_EPOCH)
    position.read_from(2, 100)
    ticket = position.ask()
    position.on_leader_epoch(4)
    assert position.source(3, 0) == 3
    assert not position.answered(ticket), "what the follower says is not taken for the leader's word"


def test_without_a_policy_the_user_decides() -> None:
    position = Position(WHERE, None)
    position.reset_by_policy(error := NoOffsetError(WHERE))
    assert (position.state, position.error) == (PositionState.FAILED, error)
    position.seek(7)
    assert (position.state, position.error) == (PositionState.FETCHING, None)


def test_with_a_policy_it_is_looked_up() -> None:
    position = Position(WHERE, LATEST)
    position.reset_by_policy(NoOffsetError(WHERE))
    assert (position.state, position.reset_to) == (PositionState.RESETTING, LATEST)


def test_reading_moves_consumed_within_fetched() -> None:
    position = fetching(10)
    read_ahead(position, 20)
    position.advance(OffsetAndEpoch(15, 3))
    assert (position.consumed, position.fetched) == ((15, 3), (20, 3))
    with pytest.raises(AssertionError):
        position.advance(OffsetAndEpoch(21, 3))
    with pytest.raises(AssertionError):
        position.advance(OffsetAndEpoch(14, 3))


# -- new leaders (KIP-320) -----------------------------------------------------------------------------------------


@pytest.mark.spec("E4")
def test_a_newer_leader_is_asked_before_anything_is_fetched() -> None:
    position = fetching()
    ticket = position.ask()
    position.on_leader_epoch(4)
    assert position.state is PositionState.VALIDATING
    assert not position.answered(ticket), "what the old leader answers does not count"
    assert position.is_due(0)


def test_an_older_leader_changes_nothing() -> None:
    position = fetching()
    position.on_leader_epoch(3)
    position.on_leader_epoch(2)
    assert position.state is PositionState.FETCHING
    assert position.leader_epoch == 3


def test_a_new_leader_ends_a_back_off() -> None:
    position = fetching()
    position.back_off(1000)
    assert not position.is_due(999)
    position.on_leader_epoch(4)
    assert position.is_due(0)


def test_without_an_epoch_there_is_nothing_to_validate() -> None:
    position = fetching(epoch=NO_EPOCH)
    position.on_leader_epoch(4)
    assert position.state is PositionState.FETCHING


@pytest.mark.spec("E4")
def test_an_epoch_that_reaches_to_where_we_are_is_fine() -> None:
    position = fetching(10)
    read_ahead(position, 20)
    position.on_leader_epoch(4)
    position.on_epoch_end(OffsetAndEpoch(20, 3))
    assert position.state is PositionState.FETCHING
    assert (position.fetched.offset, position.waiting) == (20, 1)


@pytest.mark.spec("E4")
def test_what_was_lost_before_it_was_seen_is_fetched_again() -> None:
    position = fetching(10, policy=None)
    read_ahead(position, 20)
    generation = position.generation
    position.on_leader_epoch(4)
    position.on_epoch_end(OffsetAndEpoch(15, 3))
    assert position.state is PositionState.FETCHING
    assert position.fetched == position.consumed == (10, 3)
    assert position.generation > generation, "what waits is stale"


@pytest.mark.spec("E4")
def test_what_was_lost_after_it_was_seen_is_told() -> None:
    position = fetching(10, policy=None)
    position.on_leader_epoch(4)
    position.on_epoch_end(OffsetAndEpoch(6, 2))
    assert position.state is PositionState.FAILED
    error = position.error
    assert isinstance(error, LogTruncatedError)
    assert (error.tp, error.offset, error.divergence) == (WHERE, 10, (6, 2))
    assert "diverge at offset 6 (epoch 2)" in error.message


@pytest.mark.spec("E4")
def test_with_a_policy_it_goes_back_to_where_the_logs_agree() -> None:
    position = fetching(10, policy=LATEST)
    position.on_leader_epoch(4)
    position.on_epoch_end(OffsetAndEpoch(6, 2))
    assert position.state is PositionState.FETCHING
    assert position.consumed == (6, 2)


@pytest.mark.parametrize("policy", [None, EARLIEST])
def test_another_topic_of_the_same_name(policy: int | None) -> None:
    position = Position(WHERE, policy)
    position.on_topic_id(UUID(int=1))
    position.on_leader_epoch(7)
    position.seek(10, 7)
    for same in (UUID(int=1), UUID(int=0)):
        assert not position.on_topic_id(same)
        assert position.state is PositionState.FETCHING
    assert position.on_topic_id(UUID(int=2))
    position.on_leader_epoch(0)
    assert position.leader_epoch == 0, "epochs of another topic are not comparable"
    if policy is None:
        assert isinstance(position.error, LogTruncatedError)
    else:
        assert (position.state, position.reset_to) == (PositionState.RESETTING, policy)


@pytest.mark.parametrize("policy", [None, LATEST])
def test_a_leader_that_does_not_know_the_epoch(policy: int | None) -> None:
    position = fetching(10, policy=policy)
    position.on_leader_epoch(4)
    position.on_epoch_end(UNDEFINED_OFFSET_AND_EPOCH)
    if policy is None:
        assert isinstance(position.error, LogTruncatedError)
        assert position.error.divergence is None
    else:
        assert (position.state, position.reset_to) == (PositionState.RESETTING, policy)


def test_while_it_validates_damage_does_not_let_it_fetch() -> None:
    position = fetching(10)
    read_ahead(position, 20)
    position.on_leader_epoch(4)
    position.rewind()
    assert position.state is PositionState.VALIDATING


# -- questions -----------------------------------------------------------------------------------------------------


def test_a_question_that_was_withdrawn_has_no_answer() -> None:
    position = Position(WHERE)
    ticket = position.ask()
    assert not position.is_due(0)
    position.reset(LATEST)
    assert position.is_due(0)
    newer = position.ask()
    assert not position.answered(ticket)
    assert position.answered(newer)
    assert not position.answered(newer)


def test_a_position_that_was_dropped_wants_nothing() -> None:
    position = fetching()
    ticket = position.ask()
    position.drop()
    assert not position.answered(ticket)
    assert not position.may_be_read


def test_an_error_is_kept_for_the_user() -> None:
    position = fetching()
    position.back_off(5, error := KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert position.error is error
    assert position.state is PositionState.FETCHING
    position.back_off(5)
    assert (position.error, position.failures) == (None, 2)


class Machine(RuleBasedStateMachine):
    """A consumer reads a log whose leader may lose its end, and sees every record that stays, in order, once."""

    policy: int | None

    @initialize(policy=st.sampled_from([EARLIEST, None]))
    def begin(self, policy: int | None) -> None:
        self.epoch = 0
        self.log: list[tuple[int, int]] = []  # (epoch, serial) by offset
        self.serial = 0
        self.seen: list[tuple[int, int]] = []
        self.buffer: list[tuple[int, list[tuple[int, int]]]] = []  # (generation, records)
        self.position = Position(WHERE, policy)
        self.position.on_leader_epoch(0)
        self.position.seek(0)

    @rule(count=st.integers(1, 5))
    def write(self, count: int) -> None:
        for _ in range(count):
            self.log.append((self.epoch, self.serial))
            self.serial += 1

    @rule(keep=st.floats(0, 1))
    def elect(self, keep: float) -> None:
        """Uncleanly, as a rule: records are lost."""
        del self.log[int(len(self.log) * keep) :]
        self.epoch += 1

    @rule()
    def learn(self) -> None:
        self.position.on_leader_epoch(self.epoch)

    @precondition(lambda self: self.position.may_be_read and self.position.leader_epoch == self.epoch)
    @rule(count=st.integers(1, 4))
    def fetch(self, count: int) -> None:
        start = self.position.fetched.offset
        records = self.log[start : start + count]
        if records:
            self.position.on_fetched(OffsetAndEpoch(start + len(records), records[-1][0]))
            self.buffer.append((self.position.generation, records))

    @precondition(
        lambda self: self.position.state is PositionState.VALIDATING and self.position.leader_epoch == self.epoch
    )
    @rule()
    def validate(self) -> None:
        asked = self.position.fetched.epoch
        later = [offset for offset, (epoch, _) in enumerate(self.log) if epoch > asked]
        earlier = [epoch for epoch, _ in self.log if epoch <= asked]
        end = OffsetAndEpoch(later[0] if later else len(self.log), earlier[-1] if earlier else asked)
        consumed = self.position.consumed.offset
        self.position.on_epoch_end(end)
        if self.position.state is PositionState.FAILED:
            assert isinstance(self.position.error, LogTruncatedError)
            assert self.position.error.offset == consumed
            self.position.seek(end.offset, end.epoch)
        del self.seen[self.position.consumed.offset :]

    @precondition(lambda self: self.position.may_be_read and self.buffer)
    @rule()
    def take(self) -> None:
        generation, records = self.buffer.pop(0)
        if generation == self.position.generation:
            self.position.waiting -= 1
            end = self.position.consumed.offset + len(records)
            self.position.advance(OffsetAndEpoch(end, records[-1][0]))
            self.seen += records

    @invariant()
    def saw_the_log(self) -> None:
        """As far as leaders are known to have it."""
        if self.position.state is PositionState.FETCHING and self.position.leader_epoch == self.epoch:
            assert self.seen == self.log[: len(self.seen)]
            assert len(self.seen) == self.position.consumed.offset


Machine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase
