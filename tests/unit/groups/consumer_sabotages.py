"""Planted bugs: each breaks consumer groups in one place, in a way that is easy to get wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from consumer_schedules import run, trace_of
from planted.registry import Suite

import minikafka.groups.commits as commits
import minikafka.groups.consumer.admission as admission
import minikafka.groups.consumer.classic_members as classic_members
import minikafka.groups.consumer.conversion as conversion
import minikafka.groups.consumer.heartbeat as heartbeat
import minikafka.groups.consumer.leaving as leaving
import minikafka.groups.consumer.offsets as offsets
import minikafka.groups.consumer.reconciliation as reconciliation
import minikafka.groups.consumer.regexes as regexes
import minikafka.groups.consumer.steps as steps
import minikafka.groups.consumer.target as target
from minikafka.errors import ErrorCode
from minikafka.groups.consumer.assignors.uniform import _Even
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.question import AssignmentQuestion
from minikafka.groups.consumer.reconciliation import Target
from minikafka.groups.consumer.records import ConsumerGroupRecord, CurrentAssignment, Kind, Subscription
from minikafka.groups.group import Group
from minikafka.groups.joins import Caller
from minikafka.groups.records import GroupMetadataRecord
from minikafka.groups.shard import Shard
from minikafka.groups.writes import Done

SUITE = Suite("consumer groups", "consumer groups (KIP-848)", run, 1_000, trace=trace_of)


_sound_reconcile = steps.reconcile


@SUITE.replaces(steps, "reconcile")
def what_is_to_be_given_up_is_free(
    member_id: str, current: Any, towards: Any, told: Any, owner_of: Any, exists: Any, *, is_certain: bool
) -> CurrentAssignment:
    """Partitions that a member is to give up are free at once."""
    return _sound_reconcile(member_id, current, towards, {}, owner_of, exists, is_certain=True)


@SUITE.replaces(steps, "reconcile")
def what_is_of_a_deleted_topic_is_to_be_given_up(
    member_id: str, current: Any, towards: Any, told: Any, owner_of: Any, exists: Any, *, is_certain: bool
) -> CurrentAssignment:
    """The group waits for who has never found the topic, and does not say again that it does not have it."""
    return _sound_reconcile(member_id, current, towards, told, owner_of, lambda topic_id: True, is_certain=is_certain)


@SUITE.replaces(reconciliation, "_difference")
def partitions_of_others_are_free(member_id: str, assigned: Any, wanted: Any, owner_of: Any) -> Any:
    """A partition is assigned while another member still has it."""
    return _sound_difference(member_id, assigned, wanted, lambda topic_id, partition: None)


_sound_difference = reconciliation._difference


_sound_apply_current = ConsumerGroup._apply_current


@SUITE.replaces(ConsumerGroup, "_apply_current")
def pending_partitions_have_no_owner(self: ConsumerGroup, member_id: str, current: CurrentAssignment | None) -> None:
    """Who has to give partitions up counts as owner of the others only."""
    _sound_apply_current(self, member_id, current)
    if current is not None:
        for topic_id, partitions in current.pending_revocation.items():
            for partition in partitions:
                self.owners[topic_id].pop(partition, None)


@SUITE.replaces(admission, "check_epoch")
def any_epoch_is_good(current: CurrentAssignment, epoch: int, told: Any) -> None:
    """A member's epoch is not looked at."""


@SUITE.replaces(admission, "_may_have_only")
def the_epoch_before_is_always_good(current: CurrentAssignment, told: Any) -> bool:
    """A member of the epoch before may have any partitions."""
    return True


@SUITE.replaces(heartbeat, "_has_assignment")
def an_assignment_is_told_once(change: Any, member_id: str, told: Any, had: CurrentAssignment) -> bool:
    """The answer that tells it may be lost."""
    now = change.consumer.current(member_id).assigned
    return now.keys() == had.assigned.keys() and all(now[each].keys() == had.assigned[each].keys() for each in now)


@SUITE.replaces(offsets, "is_stale")
def commits_of_lost_partitions_count(*args: Any) -> bool:
    """A commit in an old epoch is not compared with the epochs of the partitions."""
    return False


@SUITE.replaces(offsets, "commit_error")
def anybody_commits(*args: Any) -> ErrorCode:
    """A commit's member is not looked at."""
    return ErrorCode.NONE


@SUITE.replaces(Shard, "_undo")
def failed_writes_are_kept(self: Shard, failed: Any) -> None:
    """What could not be written stays in memory."""


@SUITE.plants()
def members_are_told_before_the_log_has_it(patch: Any) -> None:
    """An answer does not wait for the commit. Killed coordinators show nothing of it: who was told too early is fenced
    by the next one, which does not know of the epoch, before it can do harm."""
    write = Shard.write

    def write_and_tell(shard: Shard, group: Group, records: Any, done: Done, **how: Any) -> None:
        is_row = any(isinstance(record, ConsumerGroupRecord) for record in records)
        if is_row:
            done(ErrorCode.NONE)
        write(shard, group, records, (lambda error: None) if is_row else done, **how)

    patch.setattr(Shard, "write", write_and_tell)


@SUITE.replaces(Shard, "after_writes")
def an_answer_does_not_wait_for_other_writes(self: Shard, group: Group, done: Done) -> None:
    """A heartbeat that writes nothing is answered at once, with what is not committed."""
    done(ErrorCode.NONE)


@SUITE.replaces(ConsumerGroup, "rebuild")
def other_writes_are_forgotten_with_a_failed_one(self: ConsumerGroup, in_flight: Any) -> None:
    """A group whose write fails is made of what is committed alone."""
    _sound_rebuild(self, [])


_sound_rebuild = ConsumerGroup.rebuild
_sound_remove = leaving.remove_members


@SUITE.replaces(leaving, "remove_members")
def a_member_goes_without_a_new_epoch(shard: Shard, group: Group, member_ids: Any, done: Done) -> None:
    """When a member goes, the others are not assigned what it had."""
    change = Change(shard, group)
    for member_id in member_ids:
        change.remove_member(member_id)
    change.drop_unused_regexes()
    change.finish(done)


@SUITE.replaces(leaving, "on_session_timer")
def sessions_never_end(shard: Shard, group: Group, consumer: ConsumerGroup, member_id: str) -> None:
    """A member without heartbeats stays."""


@SUITE.replaces(Change, "maybe_raise_epoch")
def topics_are_looked_at_once(self: Change) -> None:
    """New, grown and deleted topics change nothing."""


@SUITE.replaces(regexes, "maybe_resolve")
def an_expression_is_resolved_once(shard: Shard, consumer: ConsumerGroup, caller: Caller) -> None:
    """Topics that come later do not match."""
    if consumer.subscribed.regexes.keys() - consumer.regexes.keys():
        _sound_maybe_resolve(shard, consumer, caller)


_sound_maybe_resolve = regexes.maybe_resolve


@SUITE.replaces(heartbeat.Beat, "subscription")
def who_comes_back_wants_what_its_predecessor_wanted(self: heartbeat.Beat, before: Subscription) -> Subscription:
    """Null means "as before" also when a static member joins, which tells all."""
    wanted = _sound_subscription(self, before)
    return replace(wanted, topic_regex=wanted.topic_regex or before.topic_regex)


_sound_subscription = heartbeat.Beat.subscription


@SUITE.replaces(heartbeat, "replace_static_member")
def who_comes_back_keeps_its_predecessor(change: Change, old_id: str, member_id: str) -> None:
    """A static member that is back gets what its predecessor had, which stays a member."""
    consumer = change.consumer
    change.put(Kind.MEMBER, member_id, consumer.subscriptions[old_id])
    current = replace(consumer.current(old_id), member_epoch=0, previous_member_epoch=0)
    change.put(Kind.CURRENT, member_id, current)


@SUITE.replaces(_Even, "_room")
def some_get_more_than_others(self: _Even, member: Any, *, is_first: bool) -> int:
    """The first member gets all that is free."""
    left = sum(len(free) for free in self._free.values())
    return left - sum(self._loads.values()) if is_first and member is self._members[0] else 0


@SUITE.replaces(target, "_question")
def a_target_is_made_of_the_members_that_have_one(shard: Shard, consumer: ConsumerGroup) -> AssignmentQuestion:
    """New members get no target assignment."""
    question = _sound_question(shard, consumer)
    known = [each for each in question.members if each[0] in consumer.targets]
    return question._replace(members=known or question.members)


_sound_question = target._question


@SUITE.replaces(target, "_is_too_soon")
def an_assignment_is_made_with_each_change(shard: Shard, consumer: ConsumerGroup) -> bool:
    """The interval between two target assignments is not looked at."""
    return False


@SUITE.replaces(target, "_is_too_soon")
def an_interval_never_ends(shard: Shard, consumer: ConsumerGroup) -> bool:
    """A group that is to wait between two target assignments waits for ever."""
    return consumer.assigned_at_ms is not None and shard.times_of(consumer.group_id).assignment_interval_ms > 0


@SUITE.replaces(target, "of_member")
def a_member_gets_what_it_wants_no_more(shard: Shard, consumer: ConsumerGroup, member_id: str) -> Target:
    """Until the next target assignment is made, a member is given partitions of topics that it does not want."""
    return Target(consumer.assignment_epoch, consumer.targets.get(member_id, {}))


@SUITE.plants()
def every_answer_fits_the_group(patch: Any) -> None:
    """A target assignment that was asked for before a write failed, or a static member came back, is taken."""
    patch.setattr(ConsumerGroup, "is_asked_in_vain", property(lambda group: False, lambda group, value: None))


@SUITE.replaces(heartbeat, "_same_partitions")
def changes_are_not_told(one: Any, other: Any) -> bool:
    """A member is told its assignment when it joins, and not when that changes."""
    return True


@SUITE.replaces(commits, "stale_partitions")
def the_epochs_of_partitions_are_not_looked_at(*args: Any) -> None:
    """A commit is checked as a whole only."""


@SUITE.plants()
def members_commit_as_tools_do(patch: Any) -> None:
    """A commit in epoch -1 is not checked further: it may come from a member, for a partition of another one."""
    patch.setattr(
        offsets,
        "_is_never_good",
        lambda consumer, member_id, epoch: epoch > 0 and _sound_never(consumer, member_id, epoch),
    )
    patch.setattr(
        commits, "stale_partitions", lambda group, name, epoch: _sound_stale(group, name, epoch) if epoch >= 0 else None
    )


@SUITE.replaces(offsets, "_is_never_good")
def classic_members_commit_in_their_newest_epoch_alone(consumer: ConsumerGroup, member_id: str, epoch: int) -> bool:
    """While a JoinGroup is under way, commits in the epoch before it are refused."""
    is_old = offsets.is_classic(consumer, member_id) and epoch < consumer.current(member_id).member_epoch
    return is_old or _sound_never(consumer, member_id, epoch)


_sound_never = offsets._is_never_good
_sound_stale = commits.stale_partitions
# groups that change their protocol


_sound_add = Change.add


@SUITE.replaces(Change, "add")
def a_classic_group_stays_in_the_log(self: Change, record: GroupMetadataRecord) -> None:
    """The record of a classic group is not removed when it becomes a consumer group."""
    if record.value is not None:
        _sound_add(self, record)


@SUITE.replaces(conversion, "_last_assignments")
def classic_members_begin_with_nothing(topics: Any, group: Group) -> Any:
    """What classic members have is free when their group becomes a consumer group."""
    return ((name, {}) for name in group.members)


@SUITE.replaces(conversion, "_stay_consumer")
def a_failed_downgrade_leaves_both_groups(shard: Shard, group: Group) -> None:
    """When the record of the classic group cannot be written, its members stay beside the rows."""


@SUITE.replaces(ConsumerGroup, "snapshot")
def who_is_behind_is_lost_when_the_group_goes_down(self: ConsumerGroup) -> ConsumerGroup:
    """A classic group does not know of the epochs that its members had as a consumer group."""
    return ConsumerGroup(self.group_id)


@SUITE.replaces(conversion, "_current")
def who_is_behind_is_lost_when_the_group_goes_up_again(
    group: Group, name: str, owned: Any, pending: Any
) -> CurrentAssignment:
    """A group that went down and goes up again takes all its members for those of its last epoch."""
    former, group.former = group.former, None
    current = _sound_current(group, name, owned, pending)
    group.former = former
    return current


_sound_current = conversion._current


@SUITE.replaces(conversion, "is_downgrade_due")
def a_group_never_goes_back(shard: Shard, consumer: ConsumerGroup, becomes: Any = None) -> bool:
    """A consumer group stays one when all its members are classic."""
    return False


@SUITE.replaces(classic_members, "_must_join")
def classic_members_are_not_told_to_join(shard: Shard, consumer: ConsumerGroup, member_id: str) -> bool:
    """A heartbeat does not tell of a newer epoch."""
    return False


@SUITE.replaces(classic_members, "_look_at_topics")
def nobody_looks_at_topics_for_classic_members(shard: Shard, group: Group, consumer: ConsumerGroup) -> None:
    """Classic members alone in a consumer group do not hear of new topics."""


_sound_sync = classic_members.sync_group


@SUITE.replaces(classic_members, "sync_group")
def a_classic_member_gets_its_target(
    shard: Shard, group: Group, consumer: ConsumerGroup, request: Any, token: Any
) -> None:
    """It is told what it is to have in the end, also what others have now."""
    now = consumer.currents
    towards = {
        name: replace(
            each, assigned={at: dict.fromkeys(consumer.targets[name][at], 0) for at in consumer.targets[name]}
        )
        for name, each in now.items()
        if name in consumer.targets
    }
    consumer.currents = now | towards
    _sound_sync(shard, group, consumer, request, token)
    consumer.currents = now


@SUITE.replaces(Shard, "match_revocations")
def what_was_not_written_is_not_tried_again(shard: Shard, group: Group, consumer: ConsumerGroup) -> None:
    """Who is to give partitions up, and was not removed since the log took nothing, has for ever."""
