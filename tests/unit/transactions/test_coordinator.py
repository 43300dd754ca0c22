"""What the coordinator decides, request by request; any order of them is in transactions_schedules.py."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from transactions_driver import FIRST_PRODUCER_ID, Driver

from minikafka.coordination.effects import SetTimer
from minikafka.errors import ErrorCode
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import Effect, Outcome, SendMarkers, TransactionTimer
from minikafka.transactions.limits import ID_BYTES, PARTITION_BYTES
from minikafka.transactions.records import encode_transaction
from minikafka.transactions.shard import PARTITIONS_OF_WEIGHT
from minikafka.transactions.transaction import EPOCH_MAX, Transaction, TransactionState

S = TransactionState
E = ErrorCode
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 4)
FIRST = ProducerIdentity(FIRST_PRODUCER_ID, 0)
NONE = Outcome(E.NONE)


def begun(driver: Driver) -> ProducerIdentity:
    """A producer with a transaction that writes to both partitions."""
    error, *identity = driver.init()
    assert error is E.NONE
    producer = ProducerIdentity(*identity)
    assert driver.add(producer, ORDERS, PAYMENTS) == NONE
    return producer


# -- InitProducerId ---------------------------------------------------------------------------------------------------


def test_a_new_id_gets_a_producer_id_in_epoch_0_and_each_next_producer_the_next_epoch(driver: Driver) -> None:
    assert driver.init() == Outcome(E.NONE, *FIRST)
    assert driver.init() == Outcome(E.NONE, FIRST_PRODUCER_ID, 1)
    assert driver.init("other") == Outcome(E.NONE, FIRST_PRODUCER_ID + 1, 0)


@pytest.mark.parametrize(
    ("name", "timeout_ms", "error"),
    [
        ("", 60_000, E.INVALID_REQUEST),
        ("x" * 32_768, 60_000, E.INVALID_REQUEST),
        ("copier", 0, E.INVALID_TRANSACTION_TIMEOUT),
        ("copier", 900_001, E.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_what_no_producer_may_ask_changes_nothing(driver: Driver, name: str, timeout_ms: int, error: ErrorCode) -> None:
    assert driver.init(name, timeout_ms=timeout_ms) == Outcome(error)
    assert not driver.log
    assert not driver.coordinator.shard.entries


def test_without_a_producer_id_at_hand_the_client_tries_again(driver: Driver) -> None:
    driver.ids_at_hand = False
    assert driver.init() == Outcome(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert not driver.coordinator.shard.entries


@pytest.mark.spec("T3")
def test_a_transaction_that_was_left_open_is_aborted_before_another_producer_begins(driver: Driver) -> None:
    begun(driver)
    assert driver.init() == Outcome(E.CONCURRENT_TRANSACTIONS)
    (markers,) = driver.marking
    assert (markers.commits, markers.partitions, markers.producer_epoch) == (False, {ORDERS, PAYMENTS}, 1)
    assert driver.init() == Outcome(E.CONCURRENT_TRANSACTIONS), "the markers are under way"
    driver.marked()
    assert driver.init() == Outcome(E.NONE, FIRST_PRODUCER_ID, 2)


def test_a_producer_of_another_id_is_fenced(driver: Driver) -> None:
    driver.init()
    assert driver.init(expected=ProducerIdentity(FIRST_PRODUCER_ID + 5, 0)) == Outcome(E.PRODUCER_FENCED)
    assert driver.init(expected=FIRST) == Outcome(E.NONE, FIRST_PRODUCER_ID, 1)
    assert driver.init(expected=FIRST) == Outcome(E.NONE, FIRST_PRODUCER_ID, 1), "its answer was lost"
    driver.init()
    assert driver.init(expected=FIRST) == Outcome(E.PRODUCER_FENCED)


def with_epoch(driver: Driver, epoch: int) -> Driver:
    """The id has that epoch."""
    known = Transaction(
        transactional_id="copier", producer_id=7, producer_epoch=epoch, timeout_ms=60_000, updated_ms=driver.wall_ms
    )
    driver.log.append(encode_transaction(known))
    driver.failover()
    return driver


@pytest.mark.spec("T7")
def test_when_the_epochs_are_used_up_another_producer_id_comes(driver: Driver) -> None:
    with_epoch(driver, EPOCH_MAX - 1)
    last = ProducerIdentity(7, EPOCH_MAX - 1)
    assert driver.init(expected=last) == Outcome(E.NONE, *FIRST)
    assert driver.init(expected=last) == Outcome(E.NONE, *FIRST), "its answer was lost"
    assert driver.init(expected=ProducerIdentity(7, EPOCH_MAX - 2)) == Outcome(E.PRODUCER_FENCED)


# -- AddPartitionsToTxn -----------------------------------------------------------------------------------------------


def test_a_transaction_begins_with_its_first_partition(driver: Driver) -> None:
    driver.init()
    assert driver.described().state is S.EMPTY
    assert driver.add(FIRST, ORDERS) == NONE
    assert (driver.described().state, driver.described().partitions) == (S.ONGOING, {ORDERS})
    before = len(driver.log)
    assert driver.add(FIRST, ORDERS) == NONE
    assert len(driver.log) == before, "nothing new is nothing to write"
    assert driver.add(FIRST, PAYMENTS) == NONE
    assert driver.described().partitions == {ORDERS, PAYMENTS}


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        (ProducerIdentity(99, 0), E.INVALID_PRODUCER_ID_MAPPING),
        (ProducerIdentity(FIRST_PRODUCER_ID, 1), E.PRODUCER_FENCED),
        (ProducerIdentity(FIRST_PRODUCER_ID, -1), E.PRODUCER_FENCED),
    ],
)
def test_only_the_producer_of_now_adds_and_ends(driver: Driver, producer: ProducerIdentity, error: ErrorCode) -> None:
    driver.init()
    assert driver.add(producer, ORDERS) == Outcome(error)
    assert driver.coordinator.verify_partitions("copier", producer, [ORDERS]) == {ORDERS: error}
    driver.add(FIRST, ORDERS)
    assert driver.end(producer, commits=True) == Outcome(error)
    assert driver.end(producer, commits=True, version=2) == Outcome(error)
    assert driver.described().state is S.ONGOING


def test_an_unknown_id_has_no_transactions(driver: Driver) -> None:
    assert driver.add(FIRST, ORDERS) == Outcome(E.INVALID_PRODUCER_ID_MAPPING)
    assert driver.end(FIRST, commits=False) == Outcome(E.INVALID_PRODUCER_ID_MAPPING)
    assert driver.coordinator.verify_partitions("copier", FIRST, [ORDERS]) == {ORDERS: E.INVALID_PRODUCER_ID_MAPPING}


def test_a_leader_is_told_which_partitions_are_in_the_transaction(driver: Driver) -> None:
    driver.init()
    driver.add(FIRST, ORDERS)
    verify = driver.coordinator.verify_partitions
    assert verify("copier", FIRST, [ORDERS, PAYMENTS]) == {ORDERS: E.NONE, PAYMENTS: E.TRANSACTION_ABORTABLE}
    driver.end(FIRST, commits=True)
    assert verify("copier", FIRST, [ORDERS]) == {ORDERS: E.CONCURRENT_TRANSACTIONS}
    driver.marked()
    assert verify("copier", FIRST, [ORDERS]) == {ORDERS: E.TRANSACTION_ABORTABLE}


def test_too_many_partitions_are_refused(driver: Driver) -> None:
    driver.init()
    many = [TopicPartition("t", number) for number in range(driver.settings.partitions_max + 1)]
    assert driver.add(FIRST, *many) == Outcome(E.INVALID_REQUEST)
    assert driver.described().state is S.EMPTY
    assert [each.transactional_id for each in driver.refused] == ["copier"], "the operator is told"


def test_a_partition_that_is_not_known_yet_is_not_added(driver: Driver) -> None:
    """At the end it would count as deleted."""
    driver.init()
    driver.unknown.add(PAYMENTS)
    assert driver.add(FIRST, ORDERS, PAYMENTS) == Outcome(E.COORDINATOR_NOT_AVAILABLE)
    assert driver.described().state is S.EMPTY
    driver.unknown.clear()
    assert driver.add(FIRST, ORDERS, PAYMENTS) == NONE


@pytest.mark.spec("T2")
def test_a_partition_that_was_created_again_is_not_known_yet(driver: Driver) -> None:
    """Finding: leaders wrote to the new one, and the end of the transaction took it for deleted: it hung for ever."""
    driver.init()
    driver.add(FIRST, ORDERS, PAYMENTS)
    driver.unknown.add(PAYMENTS)
    coordinator = driver.coordinator
    answers = {ORDERS: E.NONE, PAYMENTS: E.COORDINATOR_NOT_AVAILABLE}
    assert coordinator.verify_partitions("copier", FIRST, [ORDERS, PAYMENTS]) == answers
    assert driver.add(FIRST, PAYMENTS) == Outcome(E.COORDINATOR_NOT_AVAILABLE)
    assert driver.add(FIRST, ORDERS) == NONE
    driver.unknown.clear()
    assert driver.add(FIRST, PAYMENTS) == NONE


@pytest.mark.spec("T9")
def test_a_transaction_whose_decision_would_not_fit_is_refused(driver: Driver) -> None:
    driver.init()
    names = [TopicPartition("t" * 200, number) for number in range(300)]
    driver.largest_batch = 1_000
    assert driver.add(FIRST, *names) == Outcome(E.RECORD_LIST_TOO_LARGE)
    assert driver.add(FIRST, *names[:100]) == NONE
    assert driver.add(FIRST, TopicPartition("u" * 249, 0)) == Outcome(E.RECORD_LIST_TOO_LARGE)
    assert driver.end(FIRST, commits=True) == NONE, "what was let in goes on"


@pytest.mark.spec("T9")
def test_without_memory_new_ids_and_partitions_wait_and_all_that_is_there_goes_on(driver: Driver) -> None:
    driver.memory.limit_bytes = 3 * (ID_BYTES + 6)
    assert driver.init() == Outcome(E.NONE, *FIRST)
    assert driver.init("other") == Outcome(E.COORDINATOR_NOT_AVAILABLE), "half of it is for transactions"
    assert driver.refused[0].why.endswith("(transaction.memory.max.bytes; half of it is for ids)")
    room = (driver.memory.limit_bytes - driver.memory.held_bytes) // PARTITION_BYTES
    some = [TopicPartition("t", number) for number in range(room)]
    assert driver.add(FIRST, *some) == NONE
    assert driver.add(FIRST, ORDERS) == Outcome(E.COORDINATOR_NOT_AVAILABLE)
    driver.failover()
    assert driver.add(FIRST, ORDERS) == Outcome(E.COORDINATOR_NOT_AVAILABLE), "also after a load"
    assert driver.add(FIRST, some[0]) == NONE, "that is there"
    assert driver.end(FIRST, commits=True) == NONE
    driver.marked()
    assert driver.add(FIRST, ORDERS) == NONE, "there is room again"


def test_writes_under_way_and_writes_that_failed_are_counted(driver: Driver) -> None:
    driver.init()
    at_rest = driver.memory.held_bytes
    driver.auto_commit = False
    driver.add(FIRST, ORDERS, PAYMENTS)
    assert driver.memory.held_bytes == at_rest + 2 * PARTITION_BYTES
    driver.failed(E.NOT_ENOUGH_REPLICAS)
    assert driver.memory.held_bytes == at_rest
    driver.init("other")
    driver.failed(E.NOT_ENOUGH_REPLICAS)
    assert driver.memory.held_bytes == at_rest


def test_an_id_that_expires_leaves_its_memory() -> None:
    driver = Driver(id_expiration_ms=1_000, expiry_interval_ms=500)
    driver.init()
    driver.advance(3_000)
    assert driver.memory.held_bytes == 0


# -- EndTxn -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("T1")
@pytest.mark.parametrize("commits", [False, True])
def test_the_end_is_answered_when_it_is_decided_and_complete_when_all_is_marked(driver: Driver, commits: bool) -> None:
    producer = begun(driver)
    driver.auto_commit = False
    asked = driver.end(producer, commits=commits, token="end")
    assert (asked, driver.marking) == ("end", []), "nothing is decided before it is committed"
    driver.committed()
    assert driver.answers["end"] == NONE
    (markers,) = driver.marking
    assert (markers.commits, markers.partitions) == (commits, {ORDERS, PAYMENTS})
    driver.marked(ORDERS)
    assert driver.described().partitions == {PAYMENTS}
    driver.marked()
    assert driver.described().state is (S.PREPARE_COMMIT if commits else S.PREPARE_ABORT)
    driver.committed()
    assert driver.described().state is (S.COMPLETE_COMMIT if commits else S.COMPLETE_ABORT)


def in_state(driver: Driver, state: TransactionState, version: int) -> ProducerIdentity:
    """A producer whose id is in that state, with what it goes on with."""
    _error, *identity = driver.init()
    producer = ProducerIdentity(*identity)
    if state is not S.EMPTY:
        driver.add(producer, ORDERS, version=version)
        commits = state in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
        driver.end(producer, commits=commits, version=version)
    if state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        driver.marked()
    assert driver.described().state is state
    return producer


@pytest.mark.parametrize(
    ("state", "commits", "expected"),
    [
        (S.EMPTY, True, E.INVALID_TXN_STATE),
        (S.EMPTY, False, E.INVALID_TXN_STATE),
        (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, True, E.NONE),
        (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, E.NONE),
    ],
)
def test_ends_of_version_1(driver: Driver, state: TransactionState, commits: bool, expected: ErrorCode) -> None:
    producer = in_state(driver, state, 1)
    before = len(driver.log)
    assert driver.end(producer, commits=commits) == Outcome(expected)
    assert len(driver.log) == before


def test_who_could_not_add_is_told_when_to_ask_again(driver: Driver) -> None:
    """Also for another refusal: a leader's question waits for the answer, whatever it is."""
    producer = in_state(driver, S.PREPARE_COMMIT, 1)
    assert driver.add(producer, PAYMENTS) == driver.add(producer, ORDERS) == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.auto_commit = False
    driver.marked()
    assert not driver.may_ask_again, "its record is not committed"
    driver.committed()
    assert driver.may_ask_again == ["copier"], "once for all"
    driver.add(producer, PAYMENTS)
    assert driver.add(producer, ORDERS) == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.failed(E.NOT_ENOUGH_REPLICAS)
    assert driver.may_ask_again == ["copier"] * 2, "nothing is under way"
    driver.add(producer, PAYMENTS)
    assert driver.add(producer, ORDERS) == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.failover()
    assert driver.may_ask_again == ["copier"] * 3, "another broker has the answer"


@pytest.mark.spec("T5")
def test_an_abort_of_what_could_not_begin_yet_ends_nothing(driver: Driver) -> None:
    """The producer has asked for the next transaction, so it knows that the last one was committed."""
    producer = in_state(driver, S.PREPARE_COMMIT, 1)
    assert driver.add(producer, PAYMENTS) == Outcome(E.CONCURRENT_TRANSACTIONS)
    before = len(driver.log)
    assert driver.end(producer, commits=False) == NONE
    assert len(driver.log) == before
    driver.marked()
    assert driver.described().state is S.COMPLETE_COMMIT
    assert driver.end(producer, commits=False) == NONE
    assert driver.add(producer, PAYMENTS) == NONE
    assert driver.end(producer, commits=True) == NONE
    assert driver.end(producer, commits=False) == Outcome(E.INVALID_TXN_STATE), "of the transaction that is committed"


@pytest.mark.spec("T5")
@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT])
def test_an_abort_of_what_was_not_let_in_ends_nothing(driver: Driver, state: TransactionState) -> None:
    """Not only the markers of the last transaction keep the next one from beginning."""
    producer = in_state(driver, state, 1)
    driver.unknown.add(PAYMENTS)
    assert driver.add(producer, PAYMENTS) == Outcome(E.COORDINATOR_NOT_AVAILABLE)
    before = len(driver.log)
    assert driver.end(producer, commits=False) == NONE
    driver.unknown.clear()
    driver.auto_commit = False
    adding = driver.add(producer, PAYMENTS)
    driver.failed(E.NOT_ENOUGH_REPLICAS, -1)
    assert driver.answers[adding] == Outcome(E.COORDINATOR_NOT_AVAILABLE)
    assert driver.end(producer, commits=False) == NONE
    assert len(driver.log) == before


@pytest.mark.spec("T5")
@pytest.mark.parametrize(
    ("state", "commits", "repeated", "current"),
    [
        (S.EMPTY, True, E.PRODUCER_FENCED, E.INVALID_TXN_STATE),
        (S.EMPTY, False, E.PRODUCER_FENCED, "bump"),
        (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, True, E.NONE, E.INVALID_TXN_STATE),
        (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE, "bump"),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, E.NONE, "bump"),
    ],
)
def test_ends_of_version_2(
    driver: Driver, state: TransactionState, commits: bool, repeated: ErrorCode, current: ErrorCode | str
) -> None:
    in_state(driver, state, 2)
    now = driver.described().identity
    before = now._replace(epoch=now.epoch - 1)
    told = driver.end(before, commits=commits, version=2)
    assert told == (Outcome(E.NONE, *now) if repeated is E.NONE else Outcome(repeated))
    told = driver.end(now, commits=commits, version=2)
    if current == "bump":
        assert told == Outcome(E.NONE, now.producer_id, now.epoch + 1)
        assert driver.described().state is S.COMPLETE_ABORT, "without a partition there is no marker to wait for"
    else:
        assert told == Outcome(ErrorCode(current))


@pytest.mark.spec("T7")
def test_an_end_with_the_last_epoch_brings_another_producer_id(driver: Driver) -> None:
    with_epoch(driver, EPOCH_MAX - 2)
    last = ProducerIdentity(7, EPOCH_MAX - 1)
    assert driver.init() == Outcome(E.NONE, *last)
    driver.add(last, ORDERS, version=2)
    assert driver.end(last, commits=True, version=2) == Outcome(E.NONE, *FIRST)
    assert driver.marking[0].producer_id == 7, "the markers are for the producer that wrote"
    assert driver.marking[0].producer_epoch == EPOCH_MAX
    assert driver.end(last, commits=True, version=2) == Outcome(E.CONCURRENT_TRANSACTIONS)
    assert driver.add(FIRST, ORDERS, version=2) == Outcome(E.CONCURRENT_TRANSACTIONS), "it was told so already"
    driver.marked()
    assert driver.end(last, commits=True, version=2) == Outcome(E.NONE, *FIRST), "its answer was lost"
    assert driver.add(FIRST, ORDERS, version=2) == NONE


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("T4")
@pytest.mark.parametrize(("version", "epoch"), [(1, 1), (2, 1)])
def test_a_transaction_that_takes_too_long_is_aborted_in_the_next_epoch(version: int, epoch: int) -> None:
    driver = Driver(version=version)
    producer = begun(driver)
    driver.advance(59_000)
    assert driver.described().state is S.ONGOING
    driver.advance(1_000)
    (markers,) = driver.marking
    assert (markers.commits, markers.producer_epoch) == (False, epoch)
    told = driver.end(producer, commits=True, version=version)
    assert told == Outcome(E.PRODUCER_FENCED if version == 1 else E.INVALID_TXN_STATE)


def test_the_time_of_a_transaction_begins_with_it(driver: Driver) -> None:
    driver.init()
    for _ in range(5):
        driver.add(FIRST, ORDERS)
        driver.advance(40_000)
        driver.end(FIRST, commits=True)
        driver.marked()
    assert driver.described().state is S.COMPLETE_COMMIT


@pytest.mark.spec("T4")
def test_the_next_coordinator_goes_on_with_the_time_that_is_left(driver: Driver) -> None:
    begun(driver)
    driver.advance(40_000)
    driver.failover()
    driver.advance(19_000)
    assert driver.described().state is S.ONGOING
    driver.wall_ms -= 3_600_000
    driver.failover()
    driver.advance(60_000)
    assert driver.described().state is S.PREPARE_ABORT, "however the clock was set back"


@pytest.mark.spec("T4")
def test_a_new_coordinator_whose_wall_clock_has_jumped_aborts_nothing(driver: Driver) -> None:
    begun(driver)
    driver.jumped_ms = 3_600_000
    driver.wall_ms += driver.jumped_ms
    driver.failover()
    driver.advance(59_000)
    assert driver.described().state is S.ONGOING


def test_an_abort_that_cannot_be_written_is_tried_again(driver: Driver) -> None:
    begun(driver)
    driver.auto_commit = False
    driver.advance(60_000)
    driver.failed(E.NOT_ENOUGH_REPLICAS)
    assert driver.described().state is S.ONGOING
    driver.advance(driver.settings.retry_ms)
    driver.committed()
    assert driver.described().state is S.PREPARE_ABORT


def test_a_time_out_waits_for_a_producer_id(driver: Driver) -> None:
    with_epoch(driver, EPOCH_MAX - 2)
    driver.init()
    driver.add(ProducerIdentity(7, EPOCH_MAX - 1), ORDERS)
    driver.ids_at_hand = False
    driver.advance(60_000)
    assert driver.described().state is S.ONGOING
    driver.ids_at_hand = True
    driver.advance(driver.settings.retry_ms)
    assert driver.described().state is S.PREPARE_ABORT


def test_a_completion_that_cannot_be_written_is_tried_again(driver: Driver) -> None:
    producer = begun(driver)
    driver.end(producer, commits=True)
    driver.auto_commit = False
    driver.marked()
    driver.failed(E.NOT_ENOUGH_REPLICAS)
    assert driver.end(producer, commits=True) == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.advance(driver.settings.retry_ms)
    driver.committed()
    assert driver.described().state is S.COMPLETE_COMMIT


def test_nobody_waits_for_a_slow_write_and_yet_it_counts(driver: Driver) -> None:
    producer = begun(driver)
    driver.auto_commit = False
    driver.end(producer, commits=True, token="slow")
    driver.advance(driver.settings.write_timeout_ms)
    assert driver.answers["slow"] == Outcome(E.COORDINATOR_NOT_AVAILABLE)
    assert driver.end(producer, commits=True) == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.committed()
    assert len(driver.marking) == 1, "the decision is made"


@pytest.mark.spec("T8")
def test_an_id_that_is_not_used_expires(driver: Driver) -> None:
    driver.init()
    driver.init("busy")
    driver.add(ProducerIdentity(FIRST_PRODUCER_ID + 1, 0), ORDERS, name="busy")
    driver.advance(driver.settings.id_expiration_ms + driver.settings.expiry_interval_ms)
    assert list(driver.coordinator.shard.entries) == ["busy"]
    driver.failover()
    assert list(driver.coordinator.shard.entries) == ["busy"]
    assert driver.init() == Outcome(E.NONE, FIRST_PRODUCER_ID + 2, 0)


def test_an_id_that_is_expiring_is_not_used(driver: Driver) -> None:
    driver.init()
    driver.auto_commit = False
    driver.advance(driver.settings.id_expiration_ms + driver.settings.expiry_interval_ms)
    assert driver.init() == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.committed()
    assert driver.init(token="again") == "again"


def test_a_sweep_looks_at_some_ids_at_a_time() -> None:
    driver = Driver(ids_per_step=3)
    for number in range(10):
        driver.init(f"id-{number}")
    driver.failover()
    driver.advance(driver.settings.id_expiration_ms)
    driver.advance(driver.settings.expiry_interval_ms)
    assert not driver.coordinator.shard.entries


# -- failures and failovers -------------------------------------------------------------------------------------------


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("appending", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_is_not_written_has_not_happened(driver: Driver, appending: ErrorCode, told: ErrorCode) -> None:
    driver.auto_commit = False
    driver.init(token="new")
    driver.failed(appending)
    assert driver.answers["new"] == Outcome(told)
    assert not driver.coordinator.shard.entries
    driver.init(token="again")
    driver.committed()
    driver.add(ProducerIdentity(FIRST_PRODUCER_ID + 1, 0), ORDERS, token="add")
    driver.failed(appending)
    assert (driver.answers["add"], driver.described().state) == (Outcome(told), S.EMPTY)


@pytest.mark.spec("T1")
def test_one_change_at_a_time(driver: Driver) -> None:
    driver.init()
    driver.auto_commit = False
    driver.add(FIRST, ORDERS, token="add")
    for told in (
        driver.init(),
        driver.add(FIRST, PAYMENTS),
        driver.end(FIRST, commits=True),
        driver.end(FIRST, commits=False, version=2),
    ):
        assert told == Outcome(E.CONCURRENT_TRANSACTIONS)
    driver.committed()
    assert driver.answers["add"] == NONE


@pytest.mark.spec("T2")
@pytest.mark.parametrize("commits", [False, True])
def test_the_next_coordinator_writes_the_markers(driver: Driver, commits: bool) -> None:
    producer = begun(driver)
    driver.end(producer, commits=commits)
    driver.marked(ORDERS)
    driver.failover()
    (markers,) = driver.marking
    assert (markers.commits, markers.partitions) == (commits, {ORDERS, PAYMENTS}), "which were written is in no record"
    driver.marked()
    assert driver.described().state is (S.COMPLETE_COMMIT if commits else S.COMPLETE_ABORT)


def test_reports_of_other_markers_say_nothing(driver: Driver) -> None:
    producer = begun(driver)
    driver.end(producer, commits=True, version=2)
    now = driver.coordinator
    for stale in (producer, ProducerIdentity(9, 1), ProducerIdentity(FIRST_PRODUCER_ID, 2)):
        assert now.on_marked("copier", stale, [ORDERS, PAYMENTS], driver.now_ms) == []
    assert now.on_marked("unknown", producer, [ORDERS], driver.now_ms) == []
    assert driver.described().partitions == {ORDERS, PAYMENTS}


def test_markers_of_many_partitions_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each with a copy of those that are left, 20,000 took three seconds of the loop."""
    driver = Driver()
    producer = ProducerIdentity(*driver.init()[1:])
    many = [TopicPartition("orders", index) for index in range(100)]
    driver.add(producer, *many)
    driver.end(producer, commits=True)
    replacements = []
    marked = Transaction.marked
    monkeypatch.setattr(Transaction, "marked", lambda *what: replacements.append(what) or marked(*what))
    driver.marked()
    assert len(replacements) == 1
    assert driver.described().state is S.COMPLETE_COMMIT


def test_a_step_of_loading_takes_up_few_partitions() -> None:
    """Their markers are ordered in one turn of the loop."""
    driver = Driver(partitions_per_step=150)
    for name in "abcdef":
        producer = ProducerIdentity(*driver.init(name)[1:])
        driver.add(producer, *(TopicPartition("orders", index) for index in range(100)), name=name)
        driver.end(producer, commits=True, name=name)
    steps = []
    run = driver.run

    def counted(effects: Iterable[Effect]) -> None:
        effects = list(effects)
        steps.append(sum(isinstance(effect, SendMarkers) for effect in effects))
        run(effects)

    driver.run = counted  # type: ignore[method-assign]
    driver.failover()
    assert steps == [0, 2, 2, 2]


def test_the_end_of_a_large_transaction_weighs_more(driver: Driver) -> None:
    """A turn of the loop has fewer of them."""
    weights: list[int] = []
    do = driver.do

    def noted(effect: Effect) -> None:
        if isinstance(effect, SetTimer) and isinstance(effect.key, TransactionTimer):
            weights.append(effect.weight)
        do(effect)

    driver.do = noted  # type: ignore[method-assign]
    producer = begun(driver)
    driver.add(producer, *(TopicPartition("orders", index) for index in range(1, 1_000)))
    assert weights == [1, 1 + 1_001 // PARTITIONS_OF_WEIGHT]
    (deadline,) = (at for key, at in driver.timers.items() if isinstance(key, TransactionTimer))
    assert deadline == 60_000, "as before"


def test_after_resigning_nothing_is_decided(driver: Driver) -> None:
    producer = begun(driver)
    old = driver.coordinator
    driver.auto_commit = False
    driver.end(producer, commits=True, token="end")
    driver.failover(survive=0)
    assert driver.answers["end"] == Outcome(E.NOT_COORDINATOR)
    assert driver.described().state is S.ONGOING
    assert old.on_committed(0, 0) == []
    assert old.on_marked("copier", producer, [ORDERS], 0) == []
    assert old.verify_partitions("copier", producer, [ORDERS]) == {ORDERS: E.NOT_COORDINATOR}
    assert not list(old.find())


def test_too_many_writes_under_way_are_refused() -> None:
    driver = Driver(auto_commit=False, writes_in_flight_max=2)
    driver.init("a")
    driver.init("b")
    assert driver.init("c") == Outcome(E.COORDINATOR_NOT_AVAILABLE)


# -- queries ----------------------------------------------------------------------------------------------------------


def test_ids_are_found_by_producer_state_and_duration(driver: Driver) -> None:
    for name in ("a", "b", "c"):
        driver.init(name)
    driver.add(ProducerIdentity(FIRST_PRODUCER_ID + 1, 0), ORDERS, name="b")
    driver.advance(5_000)
    driver.add(ProducerIdentity(FIRST_PRODUCER_ID + 2, 0), ORDERS, name="c")
    find = driver.coordinator.find
    names = [
        [each.transactional_id for each in looked_at if each is not None]
        for looked_at in (
            find(),
            find([FIRST_PRODUCER_ID, 5]),
            find(states=[S.EMPTY]),
            find(longer_than_ms=4_000),
            find(longer_than_ms=0),
        )
    ]
    assert names == [["a", "b", "c"], ["a"], ["a"], ["b"], ["b"]]
    assert len(list(find(longer_than_ms=4_000))) == 3, "each look counts"


def test_a_record_of_another_type_is_not_ours(driver: Driver) -> None:
    loading = TransactionCoordinator(
        driver.settings, lambda: 0, driver.take_producer_id, lambda: 2, driver.memory, lambda: 0, lambda _tp: True
    )
    assert not loading.replay(b"\x00\x09\x00\x01x", b"", 0)
