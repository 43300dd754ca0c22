"""The transitions of a transactional id."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.transactions.records import UNRECORDED, decode_record, encode_transaction
from minikafka.transactions.transaction import EPOCH_MAX, TRANSITIONS, Transaction, TransactionState

S = TransactionState
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 4)
COMMIT: dict[str, Any] = {"commits": True, "wall_ms": 30, "client_version": 1}
ABORT: dict[str, Any] = {**COMMIT, "commits": False}


@pytest.fixture
def new() -> Transaction:
    """An id that was never used: it has a producer id, and no epoch yet."""
    return Transaction(transactional_id="copier", producer_id=7, timeout_ms=60_000, updated_ms=0)


@pytest.fixture
def begun(new: Transaction) -> Transaction:
    return new.initialised(60_000, None, 10)


@pytest.fixture
def ongoing(begun: Transaction) -> Transaction:
    return begun.extended([ORDERS], 20, 1)


def test_states_have_kafkas_names_and_ids() -> None:
    assert [(state.value, state.camel_name) for state in TransactionState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def test_a_state_is_entered_from_where_kafka_allows_it() -> None:
    allowed = {to: {state for state in S if to in TRANSITIONS[state]} for to in S}
    at_rest = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
    assert allowed == {
        S.EMPTY: at_rest,
        S.ONGOING: at_rest | {S.ONGOING},
        S.PREPARE_COMMIT: {S.ONGOING},
        S.PREPARE_ABORT: at_rest | {S.ONGOING, S.PREPARE_EPOCH_FENCE},
        S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
        S.COMPLETE_ABORT: {S.PREPARE_ABORT},
        S.DEAD: at_rest,
        S.PREPARE_EPOCH_FENCE: {S.ONGOING},
    }


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(S, S) if pair[1] not in TRANSITIONS[pair[0]]])
def test_any_other_transition_is_a_bug(new: Transaction, before: TransactionState, after: TransactionState) -> None:
    with pytest.raises(AssertionError):
        replace(new, state=before)._to(after)


# -- InitProducerId ---------------------------------------------------------------------------------------------------


def test_a_new_id_begins_with_epoch_0(begun: Transaction) -> None:
    assert (begun.state, begun.producer_id, begun.producer_epoch, begun.last_producer_epoch) == (S.EMPTY, 7, 0, -1)


def test_a_producer_that_knows_no_epoch_fences_the_one_before(begun: Transaction) -> None:
    other = begun.initialised(5_000, None, 40)
    assert (other.producer_epoch, other.last_producer_epoch, other.timeout_ms, other.updated_ms) == (1, -1, 5_000, 40)
    with pytest.raises(KafkaError) as fenced:
        other.initialised(60_000, 0, 50)
    assert fenced.value.code == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_goes_on_may_repeat_its_request(begun: Transaction) -> None:
    """KIP-360: the answer was lost, and the repetition is no other producer."""
    on = begun.initialised(60_000, 0, 40)
    assert (on.producer_epoch, on.last_producer_epoch) == (1, 0)
    assert on.initialised(60_000, 0, 50) == replace(on, updated_ms=50, previous_producer_id=7)
    assert on.initialised(60_000, 1, 50).producer_epoch == 2


def test_an_id_without_an_epoch_takes_any_expected_one(new: Transaction) -> None:
    assert new.initialised(60_000, 12, 10).producer_epoch == 0


@pytest.mark.parametrize("keeps_last_epoch", [False, True])
def test_with_the_last_epoch_comes_another_producer_id(begun: Transaction, keeps_last_epoch: bool) -> None:
    last = replace(begun, producer_epoch=EPOCH_MAX - 1)
    assert last.is_epoch_exhausted
    with pytest.raises(AssertionError):
        last.initialised(60_000, None, 40)
    repeated = replace(last, last_producer_epoch=EPOCH_MAX - 2).initialised(60_000, EPOCH_MAX - 2, 40)
    assert repeated.producer_epoch == EPOCH_MAX - 1, "nothing is used up by a repetition"
    renewed = last.renewed(8, 60_000, 40, keeps_last_epoch=keeps_last_epoch)
    assert (renewed.producer_id, renewed.previous_producer_id, renewed.producer_epoch) == (8, 7, 0)
    assert renewed.last_producer_epoch == (EPOCH_MAX - 1 if keeps_last_epoch else -1)


# -- a transaction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "prepared", "complete"),
    [
        (COMMIT, S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
        (ABORT, S.PREPARE_ABORT, S.COMPLETE_ABORT),
    ],
)
def test_a_transaction_from_its_beginning_to_its_end(
    ongoing: Transaction, ends: dict[str, Any], prepared: TransactionState, complete: TransactionState
) -> None:
    more = ongoing.extended([PAYMENTS], 25, 1)
    assert (more.started_ms, more.updated_ms, more.partitions) == (20, 25, {ORDERS, PAYMENTS})
    ending = more.prepared(**ends)
    assert (ending.state, ending.partitions, ending.started_ms) == (prepared, {ORDERS, PAYMENTS}, 20)
    marked = ending.marked([ORDERS]).marked([ORDERS])
    assert marked.partitions == {PAYMENTS}
    done = marked.marked([PAYMENTS]).completed(40)
    assert (done.state, done.partitions, done.producer_epoch) == (complete, set(), 0)
    assert done.extended([PAYMENTS], 50, 1).started_ms == 50, "the next one begins"


def test_the_end_of_a_transaction_is_the_end_of_its_epoch_in_version_2(ongoing: Transaction) -> None:
    ending = ongoing.prepared(**COMMIT | {"client_version": 2})
    assert (ending.producer_epoch, ending.last_producer_epoch) == (1, 0)
    assert ending.completed(40).producer_epoch == 1


def test_the_last_epoch_is_for_the_markers_and_the_producer_goes_on_with_its_next_id(ongoing: Transaction) -> None:
    last = replace(ongoing, producer_epoch=EPOCH_MAX - 1)
    ending = last.prepared(**COMMIT | {"client_version": 2}, next_producer_id=8)
    assert (ending.producer_id, ending.producer_epoch, ending.next_producer_id) == (7, EPOCH_MAX, 8)
    assert ending.identity == (8, 0)
    assert last.identity == (7, EPOCH_MAX - 1)
    done = ending.completed(40)
    assert (done.producer_id, done.previous_producer_id, done.producer_epoch) == (8, 7, 0)
    assert (done.last_producer_epoch, done.next_producer_id) == (EPOCH_MAX - 1, -1)
    with pytest.raises(AssertionError):
        last.prepared(**COMMIT, next_producer_id=8)


@pytest.mark.parametrize("client_version", [1, 2])
def test_an_abort_at_the_very_last_epoch_goes_through(ongoing: Transaction, client_version: int) -> None:
    fenced = replace(ongoing, producer_epoch=EPOCH_MAX).fenced()
    assert fenced.prepared(**ABORT | {"client_version": client_version}).producer_epoch == EPOCH_MAX


def test_a_producer_is_fenced_before_its_transaction_is_aborted(ongoing: Transaction) -> None:
    fenced = ongoing.fenced()
    assert (fenced.state, fenced.producer_epoch, fenced.partitions) == (S.PREPARE_EPOCH_FENCE, 0, {ORDERS})
    ending = fenced.prepared(**ABORT)
    assert (ending.producer_epoch, ending.last_producer_epoch) == (1, -1)


def test_a_fenced_producer_of_version_2_may_repeat_its_request(ongoing: Transaction) -> None:
    aborted = ongoing.fenced().prepared(**ABORT | {"client_version": 2}).completed(40)
    assert (aborted.producer_epoch, aborted.last_producer_epoch) == (1, 0), "one epoch for the fence and the markers"
    assert aborted.initialised(60_000, 0, 50).producer_epoch == 1


def test_nothing_is_aborted_in_version_2_when_no_partition_was_added(begun: Transaction) -> None:
    ending = begun.prepared(**ABORT | {"client_version": 2})
    assert (ending.state, ending.started_ms, ending.partitions) == (S.PREPARE_ABORT, 30, set())


def test_partitions_are_marked_once_the_end_is_decided(ongoing: Transaction) -> None:
    with pytest.raises(AssertionError):
        ongoing.marked([ORDERS])


def test_an_id_at_rest_may_expire(begun: Transaction, ongoing: Transaction) -> None:
    assert begun.is_at_rest
    assert begun.dead().state is S.DEAD
    for busy in (ongoing, ongoing.fenced(), ongoing.prepared(**COMMIT)):
        assert not busy.is_at_rest
    assert ongoing.prepared(**COMMIT).completed(40).is_at_rest


# -- any sequence -----------------------------------------------------------------------------------------------------


class AnyTransactions(RuleBasedStateMachine):
    """What a coordinator may do, in any order, with its records read back by another one at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Transaction(transactional_id="copier", producer_id=0, timeout_ms=1, updated_ms=0, producer_epoch=0)
        self.wall_ms, self.next_id = 0, 1
        self.used = (0, 0)

    def become(self, new: Transaction) -> None:
        self.wall_ms += 1
        self.now = new

    @precondition(lambda self: self.now.is_at_rest)
    @rule(goes_on=st.booleans())
    def init(self, goes_on: bool) -> None:
        if self.now.is_epoch_exhausted:
            self.become(self.now.renewed(self.next_id, 1, self.wall_ms, keeps_last_epoch=goes_on))
            self.next_id += 1
        else:
            self.become(self.now.initialised(1, self.now.producer_epoch if goes_on else None, self.wall_ms))
        assert self.now.producer_epoch < EPOCH_MAX, "no producer has the epoch that is kept for fencing"

    @precondition(lambda self: self.now.is_at_rest or self.now.state is S.ONGOING)
    @rule(partition=st.sampled_from([ORDERS, PAYMENTS]), version=st.sampled_from([1, 2]))
    def add(self, partition: TopicPartition, version: int) -> None:
        self.become(self.now.extended([partition], self.wall_ms, version))

    @precondition(lambda self: self.now.state is S.ONGOING)
    @rule(commits=st.booleans())
    def end(self, commits: bool) -> None:
        next_id = -1
        if self.now.client_version == 2 and self.now.is_epoch_exhausted:
            next_id, self.next_id = self.next_id, self.next_id + 1
        self.become(
            self.now.prepared(
                commits=commits, wall_ms=self.wall_ms, client_version=self.now.client_version, next_producer_id=next_id
            )
        )

    @precondition(lambda self: self.now.state is S.ONGOING)
    @rule()
    def time_out(self) -> None:
        self.become(
            self.now.fenced().prepared(commits=False, wall_ms=self.wall_ms, client_version=self.now.client_version)
        )

    @precondition(lambda self: self.now.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT))
    @rule()
    def complete(self) -> None:
        self.become(self.now.completed(self.wall_ms))

    @rule()
    def near_the_last_epoch(self) -> None:
        if self.now.is_at_rest and self.now.producer_epoch < EPOCH_MAX - 5:
            self.now = replace(self.now, producer_epoch=EPOCH_MAX - 5)

    @invariant()
    def nobody_writes_in_an_epoch_before(self) -> None:
        before, self.used = self.used, (self.now.producer_id, self.now.producer_epoch)
        assert self.used >= before

    @invariant()
    def only_what_is_under_way_has_partitions(self) -> None:
        assert not (self.now.is_at_rest and self.now.partitions)
        assert (self.now.state is S.EMPTY) == (self.now.started_ms == -1)

    @invariant()
    def another_coordinator_reads_the_same(self) -> None:
        assert self.now.state not in UNRECORDED
        record = encode_transaction(self.now)
        assert decode_record(record.key, record.value) == ("copier", replace(self.now, last_producer_epoch=-1))


TestAnyTransactions = AnyTransactions.TestCase
TestAnyTransactions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
