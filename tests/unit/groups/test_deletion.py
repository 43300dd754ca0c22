"""Retention beyond the golden scenarios."""

from __future__ import annotations

from uuid import UUID
from weakref import ref

from groups_driver import Driver

from minikafka.coordination.effects import Write
from minikafka.errors import ErrorCode
from minikafka.groups.timers import RetentionTimer
from minikafka.model import TopicPartition
from minikafka.wire.consumer_protocol import encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription

DAY_MS = 24 * 3_600_000
METADATA = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))


def keep_alive(driver: Driver, member: str, generation: int, for_ms: int) -> None:
    for _ in range(for_ms // 1_000_000):
        driver.advance(1_000_000)
        assert driver.heartbeat(member, generation).error_code == 0


def test_a_stable_group_keeps_what_it_subscribes_to(driver: Driver) -> None:
    (member,) = driver.stable("a", protocols={"range": METADATA}, session_ms=1_800_000)
    driver.commit({("t", 0): 1, ("u", 0): 2}, member, 1)
    keep_alive(driver, member, 1, 8 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_a_group_whose_subscription_is_not_readable_keeps_all(driver: Driver) -> None:
    (member,) = driver.stable("a", protocols={"range": b"?"}, session_ms=1_800_000)
    driver.commit({("t", 0): 1}, member, 1)
    keep_alive(driver, member, 1, 8 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_an_offset_may_bring_its_own_retention(driver: Driver) -> None:
    driver.commit({("t", 0): 1}, retention_ms=DAY_MS, version=4)
    driver.commit({("t", 1): 2}, retention_ms=9 * DAY_MS, version=4)
    driver.advance(DAY_MS + 600_000)
    assert driver.fetch() == {("t", 1): 2}
    driver.failover()
    driver.advance(7 * DAY_MS)
    assert driver.fetch() == {("t", 1): 2}
    driver.advance(DAY_MS + 600_000)
    assert driver.fetch() == {}


def test_a_jump_of_the_wall_clock_expires_nothing(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    driver.wall_ms += 100 * DAY_MS
    driver.advance(DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_ages_survive_a_failover_by_the_wall_clock(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    (member,) = driver.stable("a", group="h")
    driver.commit({("t", 0): 2}, member, 1, group="h")
    driver.advance(2 * DAY_MS)  # "h" is empty from the first seconds on
    driver.failover()
    driver.advance(5 * DAY_MS + 600_000)
    assert driver.fetch() == {}
    driver.advance(600_000)
    assert driver.fetch(group="h") == {}
    assert not list(driver.coordinator.list_groups())


def test_a_new_coordinator_whose_wall_clock_has_jumped_expires_nothing(driver: Driver) -> None:
    """All offsets of groups without members were gone after a failover."""
    driver.commit({("t", 0): 1})
    (member,) = driver.stable("a", group="h")
    driver.commit({("t", 0): 2}, member, 1, group="h")
    driver.leave((member, None), group="h")
    driver.jumped_ms = 100 * DAY_MS
    driver.wall_ms += driver.jumped_ms
    driver.failover()
    driver.advance(DAY_MS)
    assert (driver.fetch(), driver.fetch(group="h")) == ({("t", 0): 1}, {("t", 0): 2})


def test_a_wall_clock_that_went_back_makes_nothing_older(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    driver.wall_ms -= 10 * DAY_MS
    driver.failover()
    driver.advance(6 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_many_offsets_expire_in_several_writes() -> None:
    driver = Driver(tombstones_per_write=10)
    driver.commit({("t", index): 1 for index in range(25)})
    effects = driver.advance(8 * DAY_MS)
    assert [len(effect.records) for effect in effects if isinstance(effect, Write)] == [10, 10, 5]
    assert not list(driver.coordinator.list_groups())


def test_a_commit_after_the_group_became_empty_counts_from_then(driver: Driver) -> None:
    driver.stable("a")
    driver.advance(5 * DAY_MS)
    driver.commit({("t", 0): 1})
    driver.advance(5 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def sweep_step(driver: Driver) -> int:
    """Let time pass up to the next step of a sweep; how many writes it made."""
    driver.advance(driver.timers[RetentionTimer()] - driver.now_ms)
    return sum(isinstance(effect, Write) for effect in driver.effects)


def pause_ms(driver: Driver) -> int:
    return driver.timers[RetentionTimer()] - driver.now_ms


def test_many_groups_expire_in_steps() -> None:
    """However many there are, no step keeps others from the loop for long."""
    driver = Driver(groups_per_step=10, offsets_retention_ms=DAY_MS)
    for number in range(25):
        driver.commit({("t", 0): number}, group=f"g{number}")
    driver.advance(DAY_MS - 1000)
    driver.commit({("t", 0): 2}, group="young")
    while not (first := sweep_step(driver)):
        pass
    steps = [first]
    while pause_ms(driver) == 20:
        driver.commit({("u", 0): 1}, group="between")  # others have their turn
        steps.append(sweep_step(driver))
    assert steps == [10, 10, 5]
    assert driver.fetch(group="g24") == {}
    assert driver.fetch(group="young") == {("t", 0): 2}
    assert driver.fetch(group="between") == {("u", 0): 1}


def test_a_group_that_goes_before_its_turn_is_passed_over() -> None:
    driver = Driver(groups_per_step=1, offsets_retention_ms=DAY_MS)
    for group in "ab":
        driver.commit({("t", 0): 1}, group=group)
    driver.advance(DAY_MS - 1000)
    while not sweep_step(driver):
        pass
    assert driver.delete_group("b").error_code == 0
    assert (sweep_step(driver), pause_ms(driver)) == (0, 600_000 - 20)
    assert not driver.coordinator.shard.groups


def test_many_offsets_of_one_group_count_as_many_groups() -> None:
    driver = Driver(offsets_per_sweep_step=30)
    for group in "abc":
        driver.commit({("t", index): 1 for index in range(25)}, group=group)
    driver.advance(1000)
    driver.delete_topics("t")
    steps = [sweep_step(driver)]
    while pause_ms(driver) == 20:
        steps.append(sweep_step(driver))
    assert steps == [2, 1]


def test_members_count_as_offsets_do() -> None:
    """What they subscribe to is in use, so they are looked at, too."""
    driver = Driver(offsets_per_sweep_step=4, initial_rebalance_delay_ms=0)
    for group in "abc":
        driver.stable("x", "y", group=group)
    driver.delete_topics("t")
    left = []
    while True:
        sweep_step(driver)
        left.append(len(driver.coordinator.shard.unswept))
        if not left[-1]:
            break
    assert left == [1, 0]


def test_offsets_under_way_count_as_others_do() -> None:
    """While a follower hangs there may be a hundred thousand. A step took 2.9 s of them."""
    driver = Driver(offsets_per_sweep_step=30, auto_commit=False)
    for group in "abc":
        driver.commit({("t", index): 1 for index in range(25)}, group=group)
    driver.advance(1000)
    driver.delete_topics("u")
    left = []
    while not left or left[-1]:
        sweep_step(driver)
        left.append(len(driver.coordinator.shard.unswept))
    assert left == [1, 0]


# deleted topics


def test_offsets_of_a_deleted_topic_are_not_shown_before_their_tombstones_are_written() -> None:
    driver = Driver(auto_commit=False)
    driver.commit({("t", 0): 1, ("u", 0): 2})
    driver.committed()
    driver.delete_topics("t")
    assert driver.fetch() == {("u", 0): 2}
    assert driver.fetch(("t", 0)) == {("t", 0): -1}
    driver.advance(0)
    driver.committed()
    assert driver.group().offsets.keys() == {("u", 0)}


def test_ids_of_deleted_topics_are_forgotten(driver: Driver) -> None:
    """Of each topic that ever had an offset one was kept."""
    ids: list[ref[UUID]] = []
    for number in range(3):
        driver.commit({(f"t{number}", 0): 1})
        ids.append(ref(driver.group().offsets[TopicPartition(f"t{number}", 0)].value.topic_id))
        driver.delete_topics(f"t{number}")
        driver.advance(0)
    driver.log.clear()  # what the driver has
    driver.appended.clear()
    driver.effects.clear()
    assert [each() for each in ids] == [None, None, None]


def test_a_topic_made_again_does_not_go_on_from_the_offsets_of_the_one_before(driver: Driver) -> None:
    driver.commit({("t", 0): 1, ("t", 1): 1})
    driver.incarnations["t"] += 1  # nobody leads the shard meanwhile
    driver.commit({("t", 0): 2})
    assert driver.fetch() == {("t", 0): 2}
    driver.failover()
    driver.advance(0)
    assert driver.fetch() == {("t", 0): 2}
    assert driver.group().offsets.keys() == {("t", 0)}


def test_records_without_an_id_are_told_by_the_name_of_their_topic(driver: Driver) -> None:
    driver.commit({("t", 0): 1, ("u", 0): 1}, retention_ms=DAY_MS, version=4)
    driver.delete_topics("t", again=True)
    driver.delete_topics("u")
    driver.advance(0)
    assert driver.fetch() == {("t", 0): 1}


def test_a_topic_deleted_while_nobody_leads_is_found_when_the_shard_is_loaded(driver: Driver) -> None:
    driver.commit({("t", 0): 1, ("u", 0): 2})
    driver.gone.add("t")
    driver.failover()
    driver.advance(0)
    assert [effect for effect in driver.effects if isinstance(effect, Write)]
    assert driver.group().offsets.keys() == {("u", 0)}
    driver.advance(600_000)
    assert not [effect for effect in driver.effects if isinstance(effect, Write)], "once is enough"


def test_a_tombstone_that_could_not_be_written_is_written_with_the_next_sweep() -> None:
    driver = Driver(auto_commit=False)
    driver.commit({("t", 0): 1})
    driver.committed()
    driver.delete_topics("t")
    driver.advance(0)
    driver.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.advance(600_000)
    driver.committed()
    assert driver.group() is None


def test_deletions_do_not_put_retention_off(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    for _ in range(15 * 24):
        driver.advance(1_800_000)
        driver.delete_topics("u")
    assert driver.group() is None


def test_a_sweep_that_begins_anew_comes_to_its_end() -> None:
    """Topics deleted all the time: every group has its turn."""
    driver = Driver(groups_per_step=1)
    for group in "abcd":
        driver.commit({("t", 0): 1}, group=group)
    driver.gone.add("t")
    for _ in range(4):
        driver.delete_topics("u")
        sweep_step(driver)
    assert not driver.coordinator.shard.groups
