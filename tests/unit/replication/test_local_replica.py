"""The rules of one local replica, each by the shortest way to it; local_replica_model.py has the long ways."""

from __future__ import annotations

from uuid import UUID

import pytest
from replication_log import MemoryLog

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import LOST_DIRECTORY, NO_NODE, TopicPartition
from minikafka.replication import replica_effects as do
from minikafka.replication.local_replica import (
    HIGH_WATERMARK_MOVED,
    LOG_END_MOVED,
    NOTHING_MOVED,
    SYNC_DUE,
    LocalReplica,
    Role,
)
from minikafka.replication.replica_condition import Condition
from minikafka.replication.replica_facts import CommittedPartition, ReplicaSettings, Surroundings

ME, OTHER, THIRD = 1, 2, 3
WHERE = TopicPartition("t", 0)
DIRECTORY = UUID(int=77)
NEVER = 1 << 62


class SyncedLog(MemoryLog):
    """A log of which so much is synced."""

    synced = 0

    @property
    def recovery_point(self):
        return self.synced


class Rig:
    def __init__(
        self,
        *,
        records=5,
        flush_messages=NEVER,
        high_watermark=0,
        damage_offset=None,
        min_isr=1,
        anew=False,
        is_cleaned=False,
    ):
        self.log = SyncedLog([(1, value) for value in range(records)])
        self.log.is_cleaned = is_cleaned
        self.is_leaving = False
        self.metadata_until_ms = NEVER
        self.replica = LocalReplica(
            WHERE,
            ME,
            self.log,
            ReplicaSettings(min_isr, flush_messages, 1000),
            Surroundings(
                lambda _replica, _epoch: True,
                lambda: 7,
                lambda: self.is_leaving,
                lambda at_ms: self.metadata_until_ms >= at_ms,
            ),
            high_watermark=high_watermark,
            damage_offset=damage_offset,
            directory_id=DIRECTORY,
            is_made_anew=anew,
        )

    def told(
        self, leader=ME, epoch=2, *, isr=(ME, OTHER), elr=(), version=0, directory=DIRECTORY, unclean=-1, last=NO_NODE
    ):
        committed = CommittedPartition(leader, epoch, version, (ME, OTHER, THIRD), isr, elr, directory, unclean, last)
        return self.replica.on_metadata(committed, 0)

    def fetched(self, offset, replica=OTHER):
        return self.replica.on_follower_fetch(replica, 7, offset, 0, 0)


def kinds(effects):
    return [type(effect) for effect in effects]


# -- roles ------------------------------------------------------------------------------------------------------------


def test_leading_begins_with_its_epoch_and_answers_who_waits():
    rig = Rig()
    assert rig.told() == [do.BeginEpoch(2), do.AnswerWaiting(), do.Leads()]
    assert (rig.replica.role, rig.replica.leader_id, rig.replica.leader_epoch) == (Role.LEADER, ME, 2)
    assert rig.told(version=1, isr=(ME,)) == [], "who was in sync a moment ago may come back"
    assert rig.replica.check_lagging(5000) == [do.HighWatermarkMoved()]
    assert rig.replica.high_watermark == 5


@pytest.mark.spec("R14")
def test_a_leader_steps_down_before_it_follows():
    rig = Rig()
    rig.told(isr=(ME,))
    assert rig.replica.high_watermark == 5
    assert rig.told(OTHER, 3) == [do.AnswerWaiting(), do.LeadsNoMore(), do.Follow(OTHER, 3)]
    assert rig.replica.leader is None
    assert rig.replica.high_watermark == 5, "it stays where it was"
    assert rig.told(OTHER, 3, version=2) == []
    assert rig.told(THIRD, 4) == [do.StopFollowing(), do.AnswerWaiting(), do.Follow(THIRD, 4)]
    assert rig.told(NO_NODE, 5) == [do.StopFollowing(), do.AnswerWaiting()]
    assert rig.told(ME, 6) == [do.BeginEpoch(6), do.AnswerWaiting(), do.Leads()]


@pytest.mark.spec("R14")
def test_whoever_leaves_and_is_out_of_the_isr_follows_nobody():
    rig = Rig()
    rig.is_leaving = True
    assert do.Follow(OTHER, 2) in rig.told(OTHER, 2)
    assert do.Follow not in kinds(rig.told(OTHER, 3, isr=(OTHER,)))


def test_a_failed_directory_ends_every_role_for_good():
    rig = Rig()
    rig.told()
    assert rig.replica.on_storage_failed() == [do.AnswerWaiting(), do.LeadsNoMore()]
    assert rig.replica.on_storage_failed() == []
    assert rig.told(epoch=9) == []
    assert rig.replica.on_damage(0, 0) == []
    assert rig.replica.is_offline
    assert rig.replica.acknowledgement_of(1, 2, needs_all=False) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_removed_replica_is_deleted_after_everything_else_ended():
    rig = Rig()
    rig.told(OTHER)
    assert rig.replica.on_removed() == [do.StopFollowing(), do.AnswerWaiting(), do.Delete()]
    assert rig.replica.role is Role.REMOVED


def with_later_epoch(rig, start=4):
    """A bit flipped in the epoch of a batch, which no checksum covers."""
    rig.log.records[start:] = [(9, value) for _epoch, value in rig.log.records[start:]]
    rig.log.epochs.append((9, start))
    return rig


@pytest.mark.spec("P5")
def test_epochs_later_than_the_clusters_are_damage():
    """Whoever was to lead with them led never, and nobody else did: followers had left the ISR for good."""
    rig = with_later_epoch(Rig())
    beyond = do.Say(do.Saying.EPOCHS_BEYOND_METADATA, 9, 3)
    assert rig.told(epoch=3) == [beyond, do.Claim(LOST_DIRECTORY), do.AnswerWaiting()], "it does not lead"
    assert rig.replica.leader is None
    assert rig.told(epoch=3, version=1) == [do.Claim(LOST_DIRECTORY)], "said once"
    effects = rig.told(OTHER, 4, isr=(OTHER,), directory=LOST_DIRECTORY)
    assert effects[-1] == do.Cut(4, is_refetch=True)
    rig.log.truncate_to(4)
    assert rig.replica.on_cut(0) == [do.Claim(DIRECTORY), do.Follow(OTHER, 4)]
    assert rig.told(OTHER, 5, isr=(OTHER, ME))[-1] == do.Follow(OTHER, 5)
    assert rig.told(OTHER, 5, isr=(OTHER, ME), version=1) == [do.MarkWhole()]
    assert rig.told(epoch=6)[-1] == do.Leads()


@pytest.mark.spec("P5")
def test_a_follower_with_later_epochs_vouches_for_nothing():
    rig = with_later_epoch(Rig())
    effects = rig.told(OTHER, 3)
    assert do.Claim(LOST_DIRECTORY) in effects
    assert do.Follow not in kinds(effects), "it would be told to cut what it still counts for"
    assert rig.told(OTHER, 4, isr=(OTHER,), directory=LOST_DIRECTORY)[-1] == do.Cut(4, is_refetch=True)


@pytest.mark.parametrize("start", [0, 5])
def test_later_epochs_are_cut_where_they_begin(start):
    rig = with_later_epoch(Rig(), start)
    if start == 0:
        rig.log.epochs = [(9, 0)]
    rig.told(epoch=3)
    assert rig.told(OTHER, 4, isr=(OTHER,), directory=LOST_DIRECTORY)[-1] == do.Cut(start, is_refetch=True)


def test_later_epochs_begin_before_damage_that_is_known():
    rig = with_later_epoch(Rig(damage_offset=5))
    assert do.Claim(LOST_DIRECTORY) in rig.told(epoch=3)
    assert rig.told(OTHER, 4, isr=(OTHER,), directory=LOST_DIRECTORY)[-1] == do.Cut(4, is_refetch=True)


def test_the_last_complete_replica_with_later_epochs_is_kept_and_does_not_lead():
    """It may be of another life of the cluster: nothing is cut that nobody else has."""
    rig = with_later_epoch(Rig())
    assert rig.told(epoch=3, isr=(ME,)) == [do.Say(do.Saying.EPOCHS_BEYOND_METADATA, 9, 3), do.AnswerWaiting()]
    assert rig.replica.role is Role.OFFLINE


# -- what counts ------------------------------------------------------------------------------------------------------


def test_a_write_counts_at_once_unless_it_must_be_synced():
    rig = Rig()
    rig.told(isr=(ME,))
    rig.log.append(2, 6)
    assert rig.replica.on_written(0) == LOG_END_MOVED | HIGH_WATERMARK_MOVED
    rig = Rig(flush_messages=3)
    rig.log.synced = 5
    rig.told(isr=(ME,))
    rig.log.append(2, 6, 7)
    assert rig.replica.on_written(0) == LOG_END_MOVED | HIGH_WATERMARK_MOVED, "two may be unsynced"
    rig.log.append(2, 8)
    assert rig.replica.on_written(0) == LOG_END_MOVED | SYNC_DUE
    assert rig.replica.high_watermark == 7
    rig.log.synced = 8
    assert rig.replica.on_synced(0) == HIGH_WATERMARK_MOVED
    assert rig.replica.high_watermark == 8


@pytest.mark.spec("P2")
def test_a_new_leader_counts_what_is_synced_from_its_first_moment():
    rig = Rig(flush_messages=1, high_watermark=2)
    rig.log.synced = 3
    effects = rig.told(isr=(ME,))
    assert effects[-1] == do.Sync()
    assert rig.replica.high_watermark == 3, "not 5: power may take 3 and 4"
    assert rig.replica.acknowledgement_of(5, 2, needs_all=False) is None
    rig.log.synced = 5
    assert rig.replica.on_synced(0) == HIGH_WATERMARK_MOVED
    assert rig.replica.acknowledgement_of(5, 2, needs_all=True) is ErrorCode.NONE


def test_a_sync_that_others_overtook_asks_for_the_next():
    rig = Rig(flush_messages=1)
    rig.told(isr=(ME,))
    rig.log.synced = 3
    assert rig.replica.on_synced(0) == SYNC_DUE | HIGH_WATERMARK_MOVED
    assert rig.replica.high_watermark == 3


def test_settings_that_ask_for_syncs_have_the_log_synced():
    rig = Rig()
    rig.told(isr=(ME,))
    assert rig.replica.configure(ReplicaSettings(1, 1, 1000), 0) == [do.Sync()]
    assert rig.replica.configure(ReplicaSettings(2, NEVER, 1000), 0) == []


def test_a_follower_counts_nothing_of_its_own():
    rig = Rig()
    rig.told(OTHER)
    assert rig.replica.on_written(0) == NOTHING_MOVED
    assert rig.replica.on_synced(0) == NOTHING_MOVED
    assert rig.replica.follow_high_watermark(99)
    assert rig.replica.high_watermark == 5
    with pytest.raises(KafkaError) as refused:
        rig.fetched(5)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.spec("R11")
@pytest.mark.spec("R26")
def test_a_new_leaders_high_watermark_does_not_make_a_follower_forget():
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    assert not rig.replica.follow_high_watermark(2)
    assert rig.replica.high_watermark == 4
    assert rig.replica.follow_high_watermark(9)
    assert rig.replica.high_watermark == 5


@pytest.mark.spec("R23")
def test_who_waits_for_acks_is_answered_by_role_epoch_and_offsets():
    rig = Rig(min_isr=2)
    rig.told()
    assert rig.replica.acknowledgement_of(5, 2, needs_all=True) is None
    assert rig.replica.acknowledgement_of(5, 2, needs_all=False) is ErrorCode.NONE
    assert rig.replica.acknowledgement_of(5, 1, needs_all=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.fetched(5).high_watermark_moved
    assert rig.replica.acknowledgement_of(5, 2, needs_all=True) is ErrorCode.NONE
    rig.told(isr=(ME,), version=1)
    assert rig.replica.acknowledgement_of(5, 2, needs_all=True) is ErrorCode.NONE, "committed while enough were in sync"
    assert rig.replica.acknowledgement_of(6, 2, needs_all=True) is None


# -- cuts -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R26")
@pytest.mark.spec("R4")
@pytest.mark.spec("P5")
def test_who_is_told_to_cut_below_its_high_watermark_is_damaged():
    """It once cut itself at once, while it was in the ISR, and was elected with what was left."""
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    diverges = do.Say(do.Saying.FOLLOWER_DIVERGES, 2, 4)
    assert rig.replica.truncate(2, 0) == [diverges, do.Claim(LOST_DIRECTORY)], "others may count on it until then"
    effects = rig.told(OTHER, isr=(OTHER,), version=1, directory=LOST_DIRECTORY)
    assert effects == [do.StopFollowing(), do.Cut(2, is_refetch=True)]
    rig.log.truncate_to(2)
    assert rig.replica.on_cut(0) == [do.Claim(DIRECTORY), do.Follow(OTHER, 2)]
    assert rig.replica.high_watermark == 2


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_who_follows_from_outside_the_isr_is_damaged_just_so():
    """What it knows of the ISR may be old."""
    rig = Rig(high_watermark=4)
    rig.told(OTHER, isr=(OTHER,))
    assert do.Claim(LOST_DIRECTORY) in rig.replica.truncate(2, 0)


@pytest.mark.spec("T28")
@pytest.mark.spec("R26")
def test_whose_leader_has_cleaned_what_it_lacks_was_not_complete():
    """Apart from one that is said to be: that one has lost its tail."""
    rig = Rig(high_watermark=4)
    rig.told(OTHER, isr=(OTHER,))
    assert rig.replica.fetch_again(2, 0) == [do.Cut(2)]
    assert rig.replica.high_watermark == 2
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    assert do.Claim(LOST_DIRECTORY) in rig.replica.fetch_again(2, 0)


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_nobody_is_cut_below_its_high_watermark_for_an_election_before_its_time():
    rig = Rig(high_watermark=4)
    rig.told(OTHER, isr=(OTHER,), unclean=1)
    assert do.Claim(LOST_DIRECTORY) in rig.replica.truncate(2, 0), "its last record is of that epoch"
    rig = Rig(high_watermark=4)
    rig.told(OTHER, unclean=2)
    assert do.Claim(LOST_DIRECTORY) in rig.replica.truncate(2, 0), "it came into the ISR after it"


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
@pytest.mark.spec("R13")
def test_an_in_sync_replica_does_not_restart_behind_its_end():
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    falls_short = do.Say(do.Saying.FOLLOWER_FALLS_SHORT, 5, 9)
    assert rig.replica.restart(9, 0) == [falls_short, do.Claim(LOST_DIRECTORY)]
    effects = rig.told(OTHER, isr=(OTHER,), version=1, directory=LOST_DIRECTORY)
    assert effects == [do.StopFollowing(), do.Cut(5, is_refetch=True)]
    rig.replica.on_cut(0)
    assert rig.replica.restart(9, 0) == [do.Restart(9)]


@pytest.mark.spec("R13")
@pytest.mark.spec("R26")
def test_a_process_that_was_stopped_judges_by_no_former_isr():
    """Finding: it took its log for damaged as it woke up, though it was out of the ISR long since."""
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    rig.metadata_until_ms = 0
    assert rig.replica.restart(9, 100) == []
    assert rig.replica.restart(9, 200) == []
    assert rig.told(OTHER, isr=(OTHER,), version=1) == []
    assert rig.replica.restart(9, 300) == [do.Restart(9)]


@pytest.mark.spec("R13")
@pytest.mark.spec("R26")
@pytest.mark.parametrize(("known_until_ms", "at_ms"), [(100, 150), (0, 1100)], ids=["metadata", "time"])
def test_a_replica_that_is_in_the_isr_still_says_that_its_tail_is_missing(known_until_ms, at_ms):
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    rig.metadata_until_ms = 99
    assert rig.replica.restart(9, 100) == []
    rig.metadata_until_ms = known_until_ms
    assert do.Claim(LOST_DIRECTORY) in rig.replica.restart(9, at_ms)


@pytest.mark.spec("R13")
def test_the_next_leader_is_judged_anew():
    rig = Rig(high_watermark=4)
    rig.told(OTHER)
    rig.metadata_until_ms = 0
    assert rig.replica.restart(9, 100) == []
    rig.told(THIRD, 3)
    rig.metadata_until_ms = 150
    assert rig.replica.restart(9, 200) == []


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("place", ["isr", "elr"])
def test_a_leader_that_ends_below_what_a_complete_replica_knows_is_damaged(place):
    rig = Rig()
    rig.told(isr=(ME, OTHER) if place == "isr" else (ME,), elr=() if place == "isr" else (OTHER,))
    falls_short = do.Say(do.Saying.LEADER_FALLS_SHORT, 5, 8)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [falls_short, do.Claim(LOST_DIRECTORY)]
    assert rig.replica.refuses_ahead(OTHER, 1)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [], "said once"
    effects = rig.told(OTHER, 3, isr=(OTHER,), directory=LOST_DIRECTORY)
    assert effects[-1] == do.Cut(5, is_refetch=True)


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_what_a_leader_wrote_since_does_not_make_up_for_what_it_lacks():
    rig = Rig()
    rig.told(elr=(OTHER,), isr=(ME,))
    rig.log.begin_epoch(2)
    rig.log.append(2, *range(10))
    assert rig.replica.is_behind(8, 1), "it has nothing of this epoch, and was there when it began"
    assert not rig.replica.is_behind(5, 1)
    assert not rig.replica.is_behind(8, 2)
    assert not rig.replica.is_behind(8, -1), "an empty log that begins there"
    falls_short = do.Say(do.Saying.LEADER_FALLS_SHORT, 5, 8)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [falls_short, do.Claim(LOST_DIRECTORY)]
    assert rig.told(OTHER, 3, isr=(OTHER,), directory=LOST_DIRECTORY)[-1] == do.Cut(5, is_refetch=True)


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_a_leader_goes_on_when_only_replicas_that_are_not_complete_know_more():
    """Nobody has what is missing: they get on, and it is said once."""
    rig = Rig()
    rig.told(isr=(ME,))
    lost = do.Say(do.Saying.LOSS_BY_LEADING, 5, 8)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [lost]
    assert not rig.replica.refuses_ahead(OTHER, 1)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == []
    assert rig.replica.on_follower_ahead(THIRD, 7, 1, 0) == []
    assert rig.replica.condition.now is Condition.WHOLE


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("place", ["isr", "elr"])
def test_a_follower_that_knows_more_waits_until_every_complete_replica_was_heard(place):
    """The one that was not heard may have what is missing, and would count no more once the other is in sync."""
    rig = Rig()
    rig.told(isr=(ME, THIRD) if place == "isr" else (ME,), elr=() if place == "isr" else (THIRD,))
    waits = do.Say(do.Saying.FOLLOWER_WAITS, 5, 8, unheard=(THIRD,))
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [waits], "no loss is said"
    assert rig.replica.refuses_ahead(OTHER, 1)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [], "that was said"
    rig.replica.on_follower_fetch(THIRD, 1, 5, 0, 0)
    assert not rig.replica.refuses_ahead(OTHER, 1), "it knows of no more than the leader has"
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [do.Say(do.Saying.LOSS_BY_LEADING, 5, 8)]


ELECTED = do.Say(do.Saying.LOSS_BY_ELECTION, 5, 4)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ({"leader": OTHER, "isr": (OTHER,)}, [ELECTED]),
        ({"leader": NO_NODE, "isr": (), "elr": (OTHER,), "last": ME}, [ELECTED]),
        ({"leader": NO_NODE, "isr": (), "last": OTHER}, [ELECTED]),
        ({"leader": NO_NODE, "isr": ()}, [ELECTED]),  # the last leader has another disk
        ({"leader": NO_NODE, "isr": (), "last": ME}, []),  # the last leader is back
    ],
)
@pytest.mark.parametrize("epoch", [3, 4])  # a reassignment that is complete by the election begins one more
def test_a_replica_that_is_elected_uncleanly_says_so(before, said, epoch):
    """Whoever had more may never come back, and nobody else would tell."""
    rig = Rig(high_watermark=4)
    rig.told(**before, epoch=2)
    effects = rig.told(epoch=epoch, isr=(ME,), unclean=3)
    assert [effect for effect in effects if isinstance(effect, do.Say)] == said
    assert rig.told(epoch=epoch, isr=(ME, OTHER), unclean=3, version=1) == [], "once"
    assert not [effect for effect in rig.told(epoch=5, unclean=3) if isinstance(effect, do.Say)], "a clean election"


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_a_leader_is_not_damaged_for_what_an_unclean_election_gave_up():
    rig = Rig()
    rig.told(isr=(ME,), unclean=2)
    assert rig.replica.on_follower_ahead(OTHER, 8, 1, 0) == [], "who returns says so itself when it is cut"
    assert rig.replica.on_follower_ahead(9, 8, 2, 0) == [], "no replica"


def test_a_cut_below_the_high_watermark_is_said():
    rig = Rig(high_watermark=4)
    rig.told(OTHER, isr=(OTHER,), unclean=2)
    assert rig.replica.truncate(3, 0) == [do.Say(do.Saying.LOSS_BY_TRUNCATION, 3, 4), do.Cut(3)]
    assert rig.replica.high_watermark == 3, "while it is being cut, too"
    rig.log.truncate_to(3)
    assert rig.replica.on_cut(0) == []
    assert rig.replica.high_watermark == 3
    assert rig.replica.truncate(3, 0) == [do.Cut(3)]


@pytest.mark.spec("R26")
def test_of_a_cleaned_log_nothing_stays_when_it_is_cut_below_its_high_watermark():
    """Its cleaner dropped records for the sake of those that go, and the leader may have them."""
    rig = Rig(high_watermark=4, is_cleaned=True)
    rig.told(OTHER, isr=(OTHER,), unclean=2)
    assert rig.replica.truncate(4, 0) == [do.Cut(4)], "nothing is cleaned above the high watermark"
    rig.replica.on_cut(0)
    loss, in_vain = do.Say(do.Saying.LOSS_BY_TRUNCATION, 3, 4), do.Say(do.Saying.CLEANED_IN_VAIN, 3, 4)
    assert rig.replica.truncate(3, 0) == [loss, in_vain, do.Cut(0)]


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_a_cleaned_log_that_diverges_is_damaged_as_a_whole():
    rig = Rig(high_watermark=4, is_cleaned=True)
    rig.told(OTHER)
    effects = rig.replica.truncate(2, 0)
    assert do.Claim(LOST_DIRECTORY) in effects
    assert do.Say(do.Saying.CLEANED_IN_VAIN, 2, 4) in effects
    assert do.Cut(0, is_refetch=True) in rig.told(OTHER, isr=(OTHER,), version=1, directory=LOST_DIRECTORY)


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
@pytest.mark.parametrize(("unclean", "at"), [(-1, 3), (2, 0)])
def test_a_damaged_cleaned_log_keeps_what_its_leader_can_continue(unclean, at):
    """A leader that was elected uncleanly may not have what follows the damage."""
    rig = Rig(high_watermark=4, is_cleaned=True, damage_offset=3)
    rig.told(OTHER, isr=(OTHER,), unclean=unclean)
    effects = rig.told(OTHER, isr=(OTHER,), unclean=unclean, version=1, directory=LOST_DIRECTORY)
    assert do.Cut(at, is_refetch=True) in effects


def test_the_role_stands_still_while_the_log_is_cut():
    rig = Rig()
    rig.told(OTHER)
    rig.replica.truncate(3, 0)
    assert not rig.replica.is_followed
    assert rig.told(THIRD, 3) == []
    assert rig.told(ME, 4) == []
    assert rig.replica.role is Role.FOLLOWER
    rig.log.truncate_to(3)
    assert rig.replica.on_cut(0) == [do.StopFollowing(), do.BeginEpoch(4), do.AnswerWaiting(), do.Leads()]


def test_only_one_cut_at_a_time_and_none_of_a_leader():
    rig = Rig()
    rig.told(OTHER, isr=(OTHER,))
    rig.replica.restart(9, 0)
    for again in (rig.replica.restart, rig.replica.truncate):
        with pytest.raises(AssertionError):
            again(3, 0)
    rig = Rig()
    rig.told()
    with pytest.raises(AssertionError):
        rig.replica.truncate(3, 0)


def test_a_replica_that_goes_while_it_is_cut_stays_gone():
    rig = Rig()
    rig.told(OTHER)
    rig.replica.truncate(3, 0)
    rig.replica.on_storage_failed()
    assert rig.told(ME, 3) == []
    assert rig.replica.on_cut(0) == []


# -- damage and directories -------------------------------------------------------------------------------------------


@pytest.mark.spec("P5")
def test_a_damaged_leader_gives_up_everything_before_it_is_fetched_again():
    rig = Rig(high_watermark=5)
    rig.told()
    assert rig.replica.on_damage(2, 0) == [do.Claim(LOST_DIRECTORY)]
    assert rig.replica.role is Role.LEADER, "until the controller took it away"
    effects = rig.told(OTHER, 3, isr=(OTHER,), version=1, directory=LOST_DIRECTORY)
    assert effects == [do.AnswerWaiting(), do.LeadsNoMore(), do.Cut(2, is_refetch=True)]
    assert rig.replica.condition.now is Condition.REFETCHING
    rig.log.truncate_to(2)
    assert rig.replica.on_cut(0) == [do.Claim(DIRECTORY), do.Follow(OTHER, 3)]
    assert rig.told(OTHER, 3, isr=(ME, OTHER), version=2) == [do.MarkWhole()]
    assert rig.replica.condition.now is Condition.WHOLE


@pytest.mark.spec("P5")
def test_nothing_is_cut_while_others_may_count_on_the_copy():
    for isr, elr in (((ME, OTHER), ()), ((OTHER,), (ME,))):
        rig = Rig(damage_offset=2)
        effects = rig.told(OTHER, isr=isr, elr=elr)
        assert effects == [do.Claim(LOST_DIRECTORY), do.AnswerWaiting(), do.Follow(OTHER, 2)]


@pytest.mark.spec("P5")
def test_nothing_is_cut_before_metadata_says_that_the_replica_is_lost():
    """What is known here of the ISR may be old: it may have been let in meanwhile, for what it had."""
    rig = Rig(damage_offset=2)
    assert rig.told(OTHER, isr=(OTHER,)) == [do.Claim(LOST_DIRECTORY), do.AnswerWaiting(), do.Follow(OTHER, 2)]
    cut = [do.StopFollowing(), do.Cut(2, is_refetch=True)]
    assert rig.told(OTHER, isr=(OTHER,), version=1, directory=LOST_DIRECTORY) == cut


@pytest.mark.spec("P5")
def test_the_last_complete_replica_claims_nothing_and_goes_on():
    rig = Rig(damage_offset=2)
    assert do.Claim not in kinds(rig.told(isr=(ME,)))
    assert rig.replica.role is Role.LEADER
    assert rig.told(isr=(ME, OTHER), version=1) == [do.Claim(LOST_DIRECTORY)], "now there is another"


@pytest.mark.spec("P5")
def test_leading_with_what_is_left_is_said_once():
    said = do.Say(do.Saying.LOSS_BY_DAMAGE, 2, 5)
    rig = Rig(damage_offset=2, high_watermark=5)
    assert rig.told(NO_NODE, isr=(), elr=(OTHER,)) == [do.Claim(LOST_DIRECTORY), do.AnswerWaiting()]
    assert rig.told(NO_NODE, isr=(), version=1, directory=LOST_DIRECTORY) == [do.Claim(DIRECTORY)]
    assert said in rig.told(ME, 3, isr=(ME,), version=2)
    assert said not in rig.told(ME, 4, isr=(ME,), version=3)


@pytest.mark.spec("P5")
def test_damage_of_the_only_complete_replica_is_said_when_it_is_found():
    rig = Rig(high_watermark=5)
    rig.told(isr=(ME,))
    assert rig.replica.on_damage(2, 0) == [do.Say(do.Saying.LOSS_BY_DAMAGE, 2, 5)]


@pytest.mark.spec("P5")
@pytest.mark.parametrize("damage", [{"damage_offset": 2}, {"anew": True}])
def test_nothing_is_said_to_be_lost_that_another_has(damage):
    rig = Rig(**damage, records=0)
    effects = rig.told(ME, isr=(ME,), elr=(OTHER,))
    assert do.Say not in kinds(effects)


@pytest.mark.spec("P5")
def test_a_missing_log_that_leads_is_a_loss_and_one_that_was_fetched_is_none():
    rig = Rig(anew=True, records=0)
    assert do.Say(do.Saying.LOSS_BY_DAMAGE, 0, 0) in rig.told(isr=(ME,))
    rig = Rig(anew=True, records=0)
    rig.told(OTHER, isr=(OTHER,))
    assert rig.told(OTHER, isr=(OTHER, ME), version=1) == [do.MarkWhole()]
    assert do.Say not in kinds(rig.told(ME, 3, isr=(ME,), version=2))


def test_damage_found_while_refetching_begins_anew():
    rig = Rig(damage_offset=2)
    rig.told(OTHER, isr=(OTHER,), directory=LOST_DIRECTORY)
    rig.log.truncate_to(2)
    rig.replica.on_cut(0)
    rig.told(OTHER, isr=(OTHER,), version=1)
    assert rig.replica.on_damage(1, 0) == [do.Claim(LOST_DIRECTORY)]
    effects = rig.told(OTHER, isr=(OTHER,), version=2, directory=LOST_DIRECTORY)
    assert effects == [do.StopFollowing(), do.Cut(1, is_refetch=True)]


def test_damage_found_during_a_cut_is_acted_on_after_it():
    rig = Rig()
    rig.told(OTHER, isr=(OTHER,))
    rig.replica.truncate(4, 0)
    assert rig.replica.on_damage(1, 0) == []
    assert rig.replica.on_cut(0) == [do.Claim(LOST_DIRECTORY)]


def test_an_unclean_election_ends_a_refetch():
    rig = Rig(damage_offset=2)
    rig.told(OTHER, isr=(OTHER,), directory=LOST_DIRECTORY)
    rig.log.truncate_to(2)
    rig.replica.on_cut(0)
    assert do.MarkWhole() in rig.told(ME, 3, isr=(ME,))
    assert rig.replica.condition.now is Condition.WHOLE


@pytest.mark.spec("A5")
def test_a_moved_replica_says_where_it_is_and_counts_as_synced():
    rig = Rig(flush_messages=1)
    rig.told(isr=(ME,))
    rig.log.synced = 5
    there = UUID(int=78)
    assert rig.replica.on_moved(rig.log, there, 0) == [do.HighWatermarkMoved(), do.Claim(there)]
    assert rig.replica.high_watermark == 5


@pytest.mark.spec("P5")
def test_samples_of_what_consumers_read_are_verified_below_damage():
    rig = Rig()
    rig.told()
    assert rig.replica.on_sample_consumed(4, 100) == [do.Verify(NO_NODE, 4, 100)]
    rig.replica.on_damage(4, 0)
    assert rig.replica.on_sample_consumed(4, 100) == [], "it is known"
    assert rig.replica.on_sample_consumed(3, 100) == [do.Verify(NO_NODE, 3, 100)]
