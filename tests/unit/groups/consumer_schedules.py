"""Random schedules of consumer groups (KIP-848): members that join, tell what they have, commit, pause, crash, leave
and restart; topics that come, grow and go; expressions that are matched late; a network that loses requests and
answers; a log whose writes linger or fail; coordinators that move. In half of the schedules members of the classic
protocol are among them, and come back with the other protocol: the group changes its own, up and down. What must hold
whatever happens:

- owners: of the members that the group has, no two use a partition at the same time;
- stale members: nobody commits an offset of a partition once another member was given that;
- owners' commits: a member that still has a partition, by all that it was told, may commit an offset of it;
- epochs: the epochs that a member is told never fall, until it has to join again;
- answers: every request is answered once (the driver checks), and in time;
- wishes: nobody is given partitions of a topic that it does not want;
- intervals: two target assignments are as far apart as the group is set to have them;
- deadlines: who is to give partitions up is removed some time if it does not;
- liveness: when faults end, the members share out all partitions of their topics, evenly where all want the same, and
  the group is Stable, and of the protocol that its members make it; after a rebalance timeout where one has nothing to
  say (:meth:`World.has_nothing_to_say`).

And from inside, after every step: :meth:`ConsumerGroup.check`; a naive reader of the log, a dictionary by key, has the
same rows as the group's committed ones, and with the records under way the same as the group's own. It has the same
record of a classic group, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from classic_client import ASSIGNORS, Classic, assigned
from consumer_client import Client
from consumer_driver import ConsumerDriver, Owned, given

from minikafka.coordination.effects import Write
from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from minikafka.groups.consumer.records import (
    ConsumerGroupRecord,
    CurrentAssignment,
    Kind,
    MemberState,
    TargetMetadata,
    Value,
    decode_consumer_record,
)
from minikafka.groups.group import GroupState
from minikafka.groups.records import GroupMetadataRecord, GroupMetadataValue, decode_record
from minikafka.groups.settings import MigrationPolicy
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.sync_group import SyncGroupResponse
from minikafka.wire.versioned import Record

STEPS = 150
HEARTBEAT_MS = 5_000
WRITE_MS = 5_000
ROUNDS = 30
"""Without faults."""
ROUNDS_TO_JOIN = 6
ROUNDS_MAX = 100
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"names": ["t"]},
    {"names": ["t"]},
    {"names": ["t", "u"]},
    {"names": ["u"]},
    {"regex": "[tu]"},
    {"names": ["v"], "regex": "t.*"},
)
REBALANCE_MS = 320_000
"""The longest that a JoinGroup or a SyncGroup may wait."""
AGAIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)

FENCED = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class ViolationError(AssertionError):
    """Something that must hold did not."""


@dataclass(eq=False)
class World:
    """Clients, a network, a driver; `step` does one random thing."""

    seed: int
    trace: list[str] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    network: dict[str, Callable[[], None]] = field(default_factory=dict)
    waiting: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    sent_ms: dict[str, int] = field(default_factory=dict)
    holders: dict[tuple[UUID, int], str] = field(default_factory=dict)  # who was given a partition last
    lives: list[tuple[str, str | None, int, Owned]] = field(default_factory=list)  # member, instance, epoch, partitions
    rows: dict[tuple[Kind, str], Any] = field(default_factory=dict)  # what a naive reader of the log has
    assigned_ms: int | None = None  # when the target assignment was made, by the log
    is_upgrade: bool = False  # the next one in the log is that of a classic group
    ever: set[tuple[str, UUID, int, int]] = field(default_factory=set)  # members, with what they were given, and when
    newest: dict[str, int] = field(default_factory=dict)  # the highest committed epoch of each member
    generation: GroupMetadataValue | None = None  # what it has of the classic group
    behind: set[tuple[str, int]] = field(default_factory=set)  # members and epochs that the next coordinator forgot
    read: int = 0
    requests: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        assignors = self.random.choice([("uniform", "range"), ("range", "uniform")])
        self.is_mixed = self.random.random() < 0.5
        self.assignor = self.random.choice(list(ASSIGNORS))
        self.policy = self.random.choice([*3 * [MigrationPolicy.BIDIRECTIONAL], *MigrationPolicy])
        # No draw: that would move every schedule.
        self.interval_ms = (0, 0, 0, 0, 1_000, 15_000)[self.seed % 6]
        self.driver = ConsumerDriver(
            auto_commit=False,
            consumer_assignment_interval_ms=self.interval_ms,
            consumer_migration_policy=self.policy,
            topics={"t": self.random.randint(1, 6), "u": 3},
            consumer_assignors=assignors,
            consumer_max_size=self.random.choice([3, 100]),
            writes_in_flight_max=max(self.random.choice([3, 100]), min(self.interval_ms, 100)),
            assigned_at_once_max=self.random.choice([0, 5, 5_000]),
        )
        self.log_speed = self.random.choice([5, 20, 60])
        self.same = self.random.choice([None, 0, 2])  # all members want the same
        for _ in range(self.random.randint(2, 4)):
            self.add_client()

    # steps

    def run(self, steps: int = STEPS) -> None:
        """Random steps, and then the end of all faults."""
        weighted: list[tuple[int, Callable[[], None]]] = [
            (40, self.deliver),
            (40, self.beat),
            (self.log_speed, self.commit_write),
            (25, self.take_up),
            (8, self.begin_to_take_up),
            (15, self.commit_offset),
            (12, self.pass_time),
            (6, self.round),
            (5, self.stale_commit),
            (5, self.stale_beat),
            (4, self.resolve),
            (10, self.assign),
            (3, self.lose_request),
            (3, self.lose_answer),
            (3, self.fail_next_write),
            (3, self.crash),
            (3, self.restart),
            (3, self.leave),
            (8 if self.is_mixed else 0, self.roll),
            (4 if self.is_mixed else 0, self.bounce),
            (2, self.resubscribe),
            (2, self.fail_over),
            (2, self.change_topics),
            (1, self.delete_group),
            (1, self.add_client),
        ]
        for _ in range(steps):
            self.random.choices([act for _, act in weighted], [weight for weight, _ in weighted])[0]()
            self.check()
        if self.random.random() < 0.5:
            self.fail_over()
        self.check()
        self.settle()

    def note(self, text: str) -> None:
        """Remember what happened, for whoever reads the trace of a failure."""
        self.trace.append(f"{self.driver.now_ms:>8} {text}")

    def add_client(self) -> None:
        """One more consumer, static or dynamic."""
        self.made += 1
        which = self.random.randrange(len(SUBSCRIPTIONS)) if self.same is None else self.same
        instance = f"i{self.made}" if self.random.random() < 0.3 else None
        self.clients.append(
            self.client(f"m{self.made}", instance, SUBSCRIPTIONS[which], self.random.choice([10_000, 300_000]))
        )

    def client(
        self,
        name: str,
        instance: str | None,
        subscription: dict[str, Any],
        rebalance_ms: int,
        *,
        is_classic: bool | None = None,
    ) -> Client:
        """A consumer of this protocol, or of any."""
        client = Client(name, instance, subscription, rebalance_ms, asks_again=self.made % 2 == 0)
        if self.is_mixed and (self.random.random() < 0.5 if is_classic is None else is_classic):
            topics = tuple(subscription.get("names", ())) or ("t", "u")
            client.classic = Classic(name, instance, topics, rebalance_ms, self.assignor)
        return client

    def some(self, *, alive: bool = True) -> Client | None:
        """A client that is alive, or one that is not."""
        return self.random.choice([each for each in self.clients if each.alive is alive] or [None])

    def send(self, what: str, request: Callable[[str], Any], heard: Callable[[Any], None]) -> str:
        """Put a request on the network; returns its token."""
        self.requests += 1
        token = f"{what} #{self.requests}"

        def deliver() -> None:
            self.waiting[token] = heard
            self.sent_ms[token] = self.driver.now_ms
            request(token)
            self.answers()

        self.network[token] = deliver
        return token

    def answers(self) -> None:
        """Hand out what was answered."""
        for token in [token for token in self.waiting if token in self.driver.answers]:
            self.waiting.pop(token)(self.driver.answers[token])

    def deliver(self) -> None:
        """A request arrives."""
        if self.network:
            token = self.random.choice(list(self.network))
            self.note(f"deliver {token}")
            self.network.pop(token)()

    def lose_request(self) -> None:
        """A client gives up what has not arrived; it never will."""
        client = self.some()
        if client is not None and client.waits_for in self.network:
            self.note(f"lost {client.waits_for}")
            del self.network[client.waits_for]
            client.give_up()

    def lose_answer(self) -> None:
        """A client gives up what has arrived; it will not hear the answer."""
        client = self.some()
        if client is not None and client.waits_for is not None and client.waits_for not in self.network:
            self.note(f"deaf for {client.waits_for}")
            client.give_up()

    def commit_write(self) -> None:
        """The oldest write is committed."""
        if self.driver.appended:
            self.note("committed")
            self.driver.committed()
            self.answers()

    def fail_next_write(self) -> None:
        """The next write is refused by the log."""
        self.driver.fails = self.random.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.RECORD_LIST_TOO_LARGE])

    def pass_time(self) -> None:
        """Time passes, mostly a little."""
        ms = self.random.choice([100, 1_000, 3_000, 6_000, 12_000, 50_000])
        self.note(f"advance {ms}")
        self.driver.advance(ms)
        self.answers()

    def resolve(self) -> None:
        """A question about expressions is answered."""
        if self.driver.questions:
            self.note(f"resolved {self.driver.questions[0]}")
            self.driver.resolve()

    def assign(self) -> None:
        """A target assignment comes out of its thread."""
        if self.driver.assignments:
            self.note(f"assigned for epoch {self.driver.assignments[0].question.epoch}")
            self.driver.assign()
            self.answers()

    def round(self, fails: ErrorCode | None = None, *, loses: bool = False) -> None:
        """A while without faults: every client heartbeats, hears the answer and takes up its partitions.

        ``loses``: they do not hear it.
        """
        self.driver.fails = fails
        for client in list(self.clients):
            if client.alive:
                for _ in range(1 if client.classic is None else 3):
                    self.deliver_all()
                    self.beat(client)
                    if loses and client.classic is None:
                        client.give_up()
                    self.deliver_all()
                    self.take_up(client)
        self.driver.advance(HEARTBEAT_MS)
        self.answers()

    def deliver_all(self) -> None:
        """Everything arrives, is written, and is answered."""
        while self.network or self.driver.appended or self.driver.questions or self.driver.assignments:
            while self.network:
                self.network.pop(next(iter(self.network)))()
            while self.driver.questions:
                self.driver.resolve()
            while self.driver.assignments:
                self.driver.assign()
            while self.driver.appended:
                self.driver.committed()
                self.answers()

    def crash(self) -> None:
        """A client is gone without a word; what it has sent still arrives."""
        client = self.some()
        if client is not None:
            self.note(f"crash {client.name}")
            client.alive, client.waits_for = False, None
            client.lose_all()

    def restart(self, client: Client | None = None, *, is_classic: bool | None = None) -> None:
        """A client that is gone starts again, under another member id."""
        client = client or self.some(alive=False)
        if client is not None:
            self.clients.remove(client)
            self.made += 1
            # No draw: that would move every schedule.
            is_other = self.same is None and self.made % 4 == 0
            subscription = SUBSCRIPTIONS[self.made % len(SUBSCRIPTIONS)] if is_other else client.subscription
            how = client.instance, subscription, client.rebalance_ms
            again = self.client(f"m{self.made}", *how, is_classic=is_classic)
            self.note(f"restart {client.name} as {again.name}{' (classic)' if again.classic else ''}")
            self.clients.append(again)

    def roll(self) -> None:
        """A client stops in order, and starts again, mostly with the other protocol than before."""
        client = self.some()
        if client is not None:
            self.leave(client)
        if client is not None and not client.alive:
            self.restart(client, is_classic=(client.classic is None) is (self.random.random() < 0.8))

    def bounce(self) -> None:
        """All members of the newer protocol stop, and one is back before the others have heard of that."""
        newer = [each for each in self.clients if each.alive and each.classic is None]
        for client in newer:
            self.leave(client)
        gone = [each for each in newer if not each.alive]
        if gone:
            self.restart(gone[0], is_classic=False)
            self.beat(self.clients[-1])
            self.deliver_all()

    def leave(self, client: Client | None = None) -> None:
        """A client stops in order; a static one may come back."""
        client = client or self.some()
        if client is None or client.epoch <= 0 or client.waits_for is not None:
            return
        epoch = -2 if client.instance is not None and self.random.random() < 0.7 else -1
        client.alive = False
        client.lose_all()
        if client.classic is not None:
            member_id = client.classic.member_id
            if epoch == -1:  # a static one is away without a word
                self.send(
                    f"leave {member_id}",
                    lambda token: self.driver.leave((member_id, client.instance), token=token),
                    lambda answer: None,
                )
            return
        self.send(
            f"leave {client.name} {epoch}",
            lambda token: self.driver.beat(client.name, epoch, instance=client.instance, token=token),
            lambda answer: None,
        )

    def resubscribe(self) -> None:
        """A client wants other topics; it says so with its next heartbeat."""
        client = self.some()
        if client is not None and self.same is None and client.classic is None:
            client.subscription = {"names": [], "regex": ""} | self.random.choice(SUBSCRIPTIONS)
            client.wishes = True
            self.note(f"{client.name} wants {client.subscription}")

    def fail_over(self) -> None:
        """The coordinator moves; some of the last writes are lost."""
        survive = self.random.randint(0, len(self.driver.appended))
        self.note(f"failover, {survive} of {len(self.driver.appended)} survive")
        self.driver.failover(survive)
        self.answers()
        group = self.driver.coordinator.shard.groups.get("g")
        if group is not None and not group.is_consumer:
            # That they were behind when the group went down was in memory only (decision 0028).
            self.behind |= {(each.member_id, each.epoch) for each in self.clients if each.epoch < group.generation_id}

    def change_topics(self) -> None:
        """A topic comes, grows, or goes."""
        name = self.random.choice("tuv")
        before = self.driver.some.named(name)
        count = self.random.choice([0, 2]) if before is None else self.random.choice([0, before.partitions + 1])
        self.note(f"topic {name}: {count}")
        self.driver.change_topics(**{name: count})

    def delete_group(self) -> None:
        """Somebody deletes the group, which works only without members."""
        self.send("delete", lambda token: self.driver.delete_group("g", token=token), lambda answer: None)

    # heartbeats

    def beat(self, client: Client | None = None) -> None:
        """A client sends its heartbeat, with what has changed, or with everything."""
        client = client or self.some()
        if client is None or not client.alive or client.waits_for is not None:
            return
        if client.classic is not None:
            self.ask_as_classic(client, client.classic)
            return
        epoch, told = client.epoch, client.owned if client.acks or client.told != client.owned else None
        everything = client.tells_everything
        if everything:
            told = client.owned
        client.tells_wishes, client.wishes = client.wishes or everything, False
        client.told, client.acks, client.tells = client.owned, False, told is not None
        if client.tells:
            client.tell()
        fields = dict(client.subscription) if client.tells_wishes else {}
        client.waits_for = self.send(
            f"beat {client.name} {epoch} {sorted(index for _, index in told) if told is not None else '-'}",
            lambda token: self.driver.beat(
                client.name,
                epoch,
                owned=told,
                instance=client.instance,
                rebalance_ms=client.rebalance_ms if everything else -1,
                token=token,
                **fields,
            ),
            lambda answer: self.hear(client, token, answer),
        )
        token = client.waits_for

    def hear(self, client: Client, token: str, answer: Any) -> None:
        """An answer; who is given a partition has it, whether it hears of that or not."""
        partitions = given(answer)
        for at in partitions or ():
            if at not in client.owned:
                self.holders[at] = client.name
        self.read_log()
        if not answer.error_code and answer.member_epoch > self.newest.get(client.name, 0):
            raise ViolationError(f"{client.name} is told epoch {answer.member_epoch}, which is not committed")
        if client.waits_for != token:
            return
        client.waits_for = None
        self.note(f"answer {token}: {ErrorCode(answer.error_code).name} {answer.member_epoch}")
        if answer.error_code in AGAIN:
            self.remember(client)
            client.lose_all()
            client.epoch, client.told, client.heard, client.has_begun = 0, None, -1, False
        elif answer.error_code:
            client.told = None
        else:
            if answer.member_epoch < client.heard:
                raise ViolationError(f"{client.name} falls from epoch {client.heard} to {answer.member_epoch}")
            client.epoch = client.heard = answer.member_epoch
            if partitions is not None:
                client.target = partitions
            self.remember(client)

    def ask_as_classic(self, client: Client, classic: Classic) -> None:
        """A classic member joins, fetches its assignment, or sends its heartbeat."""
        self.take_up(client)
        client.target = None  # it goes by names, and looks for no topic
        if classic.notices_topics(self.driver.some):
            classic.phase = "join"
        if classic.phase == "join" and classic.is_eager:
            self.remember(client)
            client.owned = frozenset()
        owned, what = client.owned, classic.phase
        token = client.waits_for = self.send(
            f"{what} {client.name} {classic.generation}",
            lambda token: classic.ask(self.driver, owned, token) if client.alive else self.waiting.pop(token),
            lambda answer: self.hear_as_classic(client, classic, what, token, answer),
        )

    def hear_as_classic(self, client: Client, classic: Classic, what: str, token: str, answer: Any) -> None:
        """An answer; who is given a partition has it, whether it hears of that or not."""
        partitions = assigned(self.driver.some, answer) if what == "sync" and not answer.error_code else None
        for at in partitions or ():
            if at not in client.owned:
                self.holders[at] = classic.member_id
        if client.waits_for != token:
            return
        client.waits_for = None
        self.note(f"answer {token}: {ErrorCode(answer.error_code).name}")
        if answer.error_code == ErrorCode.FENCED_INSTANCE_ID:
            client.alive = False
            client.lose_all()
            return
        self.remember(client)
        hear = {"join": classic.hear_join, "sync": classic.hear_sync, "heartbeat": classic.hear_heartbeat}[what]
        if not hear(answer):
            client.lose_all()
        elif partitions is not None:
            client.target = partitions
            if not classic.is_eager and client.owned - partitions:
                classic.phase = "join"
        client.epoch = max(classic.generation, 0)

    def stale_beat(self) -> None:
        """A heartbeat of a former time arrives; it is good only where the rows of the group say so."""
        if not self.lives:
            return
        name, instance, epoch, owned = self.random.choice(self.lives)
        told = self.random.choice([owned, None])
        right: list[bool] = []

        def ask(token: str) -> None:
            consumer = self.consumer()
            current = None if consumer is None else consumer.currents.get(name)
            right.append(current is not None and is_good(current, epoch, told))
            self.driver.beat(name, epoch, owned=told, instance=instance, token=token)

        def heard(answer: Any) -> None:
            if not answer.error_code and not right[0]:
                raise ViolationError(f"{name} heartbeats in epoch {epoch}, which is over")

        if all(client.name != name for client in self.clients):  # what a live one has it tells itself
            self.send(f"stale beat {name} {epoch}", ask, heard)

    def remember(self, client: Client) -> None:
        """What somebody once was: a zombie may speak as it."""
        if client.epoch > 0 and client.owned:
            self.lives.append((client.member_id, client.instance, client.epoch, client.owned))

    def take_up(self, client: Client | None = None) -> None:
        """A client gives up what it was told to, and begins with what is new."""
        client = client or self.some()
        if client is not None and client.taking is None:
            client.begin(self.driver.some)
        if client is not None and client.taking is not None:
            self.remember(client)
            client.end()
            self.note(f"{client.name} has {sorted(index for _, index in client.owned)}")

    def begin_to_take_up(self) -> None:
        """A client of the newer protocol begins to, and is not done when it hears the next answer."""
        client = self.some()
        if client is not None and client.classic is None and client.taking is None:
            client.begin(self.driver.some)

    # offsets

    def commit_offset(self) -> None:
        """A client commits the offset of a partition that it has."""
        able = [each for each in self.clients if each.alive and each.owned and each.epoch > 0]
        if able:
            client = self.random.choice(able)
            at, epoch = self.random.choice(sorted(client.owned)), client.epoch
            self.commit_as(client.member_id, client.instance, epoch, at, lambda: self.may_commit(client, epoch, at))

    def may_commit(self, client: Client, epoch: int, at: tuple[UUID, int]) -> bool:
        """True when nothing may refuse that: it has the partition still, and knows of no newer epoch."""
        if client.epoch != epoch or at not in client.owned or self.holders.get(at) != client.member_id:
            return False
        if (client.member_id, epoch) in self.behind:
            return False
        group = self.driver.coordinator.shard.groups.get("g")
        if group is None or client.member_id not in self.members():
            return False
        if group.consumer is not None and group.is_consumer:
            is_known = epoch <= group.consumer.current(client.member_id).member_epoch  # as below
            return is_known and group.consumer.owner_of(*at) == client.member_id
        # Between JoinGroup and SyncGroup a classic group takes no commits, and a coordinator that moves then does not
        # know of the generation.
        if group.is_in(GroupState.COMPLETING_REBALANCE) or epoch > group.generation_id:
            return False
        # A static member that misses a rebalance stays one; its epoch is over. Who was behind when the group went down
        # is not of those, until the first rebalance is over.
        last = self.generation
        went_down = last is not None and last.leader is None and last.generation == group.generation_id
        if epoch < group.generation_id and not went_down:
            return False
        member = group.members[client.member_id]
        return at in assigned(self.driver.some, SyncGroupResponse(assignment=member.assignment))

    def stale_commit(self) -> None:
        """A commit of a former time arrives, or one of a member that is gone."""
        if self.lives:
            name, instance, epoch, owned = self.random.choice(self.lives)
            epoch = self.random.choice((epoch, epoch, epoch, -1))  # a tool without a group, as it seems
            self.commit_as(name, instance, epoch, self.random.choice(sorted(owned)))

    def commit_as(
        self,
        name: str,
        instance: str | None,
        epoch: int,
        at: tuple[UUID, int],
        may_commit: Callable[[], bool] = lambda: False,
    ) -> None:
        """It may be accepted only while nobody else was given the partition, and must be from who ``may_commit``."""
        topic = self.driver.some.with_id(at[0])
        if topic is None:
            return
        holder: list[str | None] = []
        is_due: list[bool] = []
        request = OffsetCommitRequest(
            group_id="g",
            member_id=name,
            group_instance_id=instance,
            generation_id_or_member_epoch=epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic.name,
                    partitions=[OffsetCommitRequestPartition(partition_index=at[1], committed_offset=self.requests)],
                )
            ],
        )

        def ask(token: str) -> None:
            if self.driver.some.with_id(at[0]) is None:
                del self.waiting[token]  # the handler refuses it
                return
            self.read_log()
            members = self.members()
            holder.append(self.holders.get(at) if self.holders.get(at) in members else None)
            if members and name not in members:
                holder[0] = "nobody but members"
            elif self.is_of_former_life(name, epoch, at):
                holder[0] = None
            is_due.append(may_commit())
            self.driver.ask(lambda token: self.driver.coordinator.offset_commit(request, 9, token, self.now), token)

        def heard(answer: Any) -> None:
            code = answer.topics[0].partitions[0].error_code
            if not code and holder[0] not in (None, name):
                raise ViolationError(f"{name} commits {at[1]} of {topic.name} in epoch {epoch}; {holder[0]} has it")
            if code in FENCED and is_due[0]:
                told = ErrorCode(code).name
                raise ViolationError(f"{name} has {at[1]} of {topic.name}, and its commit in epoch {epoch} gets {told}")

        self.send(f"commit {name} {epoch}", ask, heard)

    def is_of_former_life(self, name: str, epoch: int, at: tuple[UUID, int]) -> bool:
        """True for a commit that overtook the end of its sender's life, and the beginning of the next in the epoch of a
        target assignment that is not made anew yet: that may be the same. On one connection nothing overtakes."""
        consumer = self.consumer()
        if consumer is None or name not in consumer.subscriptions:
            return False
        current = consumer.current(name)
        return (current.member_epoch, current.previous_member_epoch) == (epoch, 0) and at[0] not in current.assigned

    @property
    def now(self) -> int:
        """The time."""
        return self.driver.now_ms

    # what must hold

    def consumer(self) -> ConsumerGroup | None:
        """The group, if there is one."""
        group = self.driver.coordinator.shard.groups.get("g")
        return None if group is None else group.consumer

    def members(self) -> Collection[str]:
        """Of the group, whatever its protocol."""
        group = self.driver.coordinator.shard.groups.get("g")
        if group is None:
            return ()
        return group.consumer.subscriptions if group.consumer is not None and group.is_consumer else group.members

    def check(self) -> None:
        """After every step."""
        consumer = self.consumer()
        members = self.members()
        users: dict[tuple[UUID, int], str] = {}
        for client in self.clients:
            if client.member_id in members and client.epoch > 0:
                for at in client.owned:
                    other = users.setdefault(at, client.name)
                    if other != client.name:
                        raise ViolationError(f"{other} and {client.name} both have partition {at[1]}")
        if consumer is not None:
            check_deadlines(consumer)
            self.check_wanted(consumer)
        for token in self.waiting:
            waits_ms = self.now - self.sent_ms[token]
            if waits_ms > (REBALANCE_MS if token.startswith(("join", "sync")) else WRITE_MS):
                raise ViolationError(f"{token} waits for {waits_ms} ms")
        self.check_rows(consumer)
        shard = self.driver.coordinator.shard
        if shard.memory.held_bytes != sum(group.members_bytes for group in shard.groups.values()):
            raise ViolationError(f"{shard.memory.held_bytes} bytes are counted of what the members take")

    def check_wanted(self, consumer: ConsumerGroup) -> None:
        """Nobody is given partitions of a topic that it does not want. What its expression matches is known late."""
        for name, current in consumer.currents.items():
            wanted = consumer.subscriptions[name]
            for topic_id, indexes in current.assigned.items():
                topic = self.driver.some.with_id(topic_id)
                new = {(name, topic_id, index, epoch) for index, epoch in indexes.items()} - self.ever
                self.ever |= new
                if not new or topic is None or topic.name in wanted.topic_names or wanted.topic_regex:
                    continue
                if not wanted.classic:  # that may have changed its mind before the group went up
                    raise ViolationError(f"{name} is given {topic.name}, and wants {wanted.topic_names}")

    def check_interval(self, made_ms: int) -> None:
        """Two target assignments are so far apart. A coordinator that begins, and a group that is made anew since a
        write has failed, know of none before."""
        gives_nothing = not any(targets for (kind, _), targets in self.rows.items() if kind is Kind.TARGET)
        if self.is_upgrade or gives_nothing:  # the first of a large group is only an epoch
            self.is_upgrade, self.assigned_ms = False, None
            return
        before, self.assigned_ms = self.assigned_ms, made_ms
        if before is None or made_ms >= before + self.interval_ms:
            return
        if not any(before <= at <= made_ms for at in self.driver.breaks):
            raise ViolationError(f"a target assignment {made_ms - before} ms after the one before")

    def begin_anew(self) -> None:
        """There is no group: the epochs of the next one are told from those of this one by nothing."""
        self.holders.clear()
        self.lives.clear()
        for token in [token for token in self.network if token.startswith(("commit", "stale"))]:
            del self.network[token]

    def check_rows(self, consumer: ConsumerGroup | None) -> None:
        """The group is what a naive reader makes of the log."""
        self.read_log()
        group = self.driver.coordinator.shard.groups.get("g")
        if (None if group is None else group.persisted) != self.generation:
            raise ViolationError(f"the classic group is {group and group.persisted}; the log has {self.generation}")
        if self.rows and self.generation is not None:
            raise ViolationError("the log has a group of both protocols")
        rows = dict(self.rows)
        committed = {} if consumer is None else {key: record.value for key, record in consumer.committed.items()}
        if committed != rows:
            raise ViolationError(f"committed: {committed}; the log has {rows}")
        for write in self.driver.appended:
            if isinstance(write, Write):
                add_rows(rows, write.records)
        live = {} if consumer is None else live_rows(consumer)
        epochs = [rows.pop((kind, ""), (0, 0))[0] for kind in (Kind.GROUP, Kind.TARGET_METADATA)]
        if live != rows or epochs != ([0, 0] if consumer is None else [consumer.epoch, consumer.assignment_epoch]):
            raise ViolationError(f"the group has {live}; the log will have {rows}, {epochs}")

    def read_log(self) -> None:
        """The naive reader reads on."""
        is_new_group = False
        for entry in self.driver.log[self.read :]:
            if isinstance(entry, Record):
                add_rows(self.rows, [entry])
                record = decode_record(entry.key, entry.value)
                if isinstance(record, GroupMetadataRecord):
                    self.is_upgrade = record.value is None
                    had_members = self.generation is not None and self.generation.members
                    is_new_group = record.value is None and not had_members
                    self.generation = record.value
                if not isinstance(record, ConsumerGroupRecord):
                    continue
                if record.kind is Kind.GROUP and record.value is None:
                    is_new_group = True
                    self.assigned_ms = None
                if isinstance(record.value, TargetMetadata):
                    self.check_interval(record.value.timestamp_ms)
                if isinstance(record.value, CurrentAssignment):
                    newest = max(self.newest.get(record.name, 0), record.value.member_epoch)
                    self.newest[record.name] = newest
        self.read = len(self.driver.log)
        if is_new_group:
            self.begin_anew()

    def settle(self) -> None:
        """Without faults, every partition has one owner in the end."""
        self.note("settle")
        for client in [each for each in self.clients if not each.alive]:
            self.clients.remove(client)
        while len(self.clients) > self.driver.settings.consumer_max_size:
            self.clients.pop()
        if self.policy in (MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE) and self.clients:
            kept = self.clients[0].classic is None  # the others would not be let in
            self.clients = [each for each in self.clients if (each.classic is None) is kept]
        # Others may join first after the session of who is gone.
        number = joined = 0
        rounds_to_join = ROUNDS_TO_JOIN + 2 * self.interval_ms // HEARTBEAT_MS
        while number < ROUNDS or number < joined + rounds_to_join:
            self.round(ErrorCode.NOT_ENOUGH_REPLICAS if number in (17, 18) else None, loses=number == 16)
            self.check()
            if number == 15:
                self.change_topics()
            number += 1
            others = set(self.members()) - {client.member_id for client in self.clients}
            if (others or any(map(self.has_nothing_to_say, self.clients))) and number < ROUNDS_MAX:
                joined = number
        self.clients = [client for client in self.clients if client.alive]  # others were fenced
        if not self.clients:
            return
        self.check_stable()
        group = self.driver.coordinator.shard.groups.get("g")
        leader = None if group is None or group.is_consumer else group.leader_id
        if any(each.classic.is_back_unknowing for each in self.clients if each.classic and each.member_id == leader):
            return
        wanted = {
            (topic.topic_id, index)
            for topic in self.driver.some.by_name.values()
            if any(client.wants(topic.name) for client in self.clients)
            for index in range(topic.partitions)
        }
        had = Counter(at for client in self.clients for at in client.owned)
        if had != Counter(wanted):
            raise ViolationError(f"of {len(wanted)} partitions {len(had)} have an owner")
        self.check_even()

    def has_nothing_to_say(self, client: Client) -> bool:
        """True for a client as librdkafka that is to give up what it was told and did not begin with, and has all else:
        nothing has changed for it. It may as well be about to begin, and says just as much then: so the coordinator has
        to wait for its rebalance timeout, as Apache Kafka does. What is of a deleted topic need not be waited for."""
        consumer = self.consumer()
        is_on_its_way = client.target is not None or client.taking is not None
        if client.asks_again or not client.has_begun or consumer is None or is_on_its_way:
            return False
        revoked = consumer.current(client.member_id).pending_revocation
        pending = {(at, index) for at in revoked if self.driver.some.with_id(at) for index in revoked[at]}
        return bool(pending) and client.told == client.owned and pending.isdisjoint(client.owned)

    def check_stable(self) -> None:
        """The group is stable, in the protocol of its members."""
        group = self.driver.coordinator.shard.groups["g"]
        assert group.consumer is not None or not group.is_consumer
        has_consumers = any(client.classic is None for client in self.clients)
        if has_consumers and not group.is_consumer:
            raise ViolationError("the group is classic, and has members of the newer protocol")
        if not has_consumers and group.is_consumer and self.policy.allows_downgrade:
            raise ViolationError("all members are classic, and the group is not")
        if group.consumer is not None and group.is_consumer:
            if group.consumer.state is not ConsumerGroupState.STABLE:
                raise ViolationError(f"the group is {group.consumer.state.value}: {group.consumer.currents}")
        elif group.state is not GroupState.STABLE:
            raise ViolationError(f"the group is {group.state.value}")

    def check_even(self) -> None:
        """Who wants the same gets as much, with the uniform assignor."""
        sizes = [len(client.owned) for client in self.clients]
        group = self.driver.coordinator.shard.groups["g"]
        if (
            group.is_consumer
            and self.same is not None
            and self.driver.settings.consumer_assignors[0] == "uniform"
            and max(sizes) > min(sizes) + 1
        ):
            raise ViolationError(f"uneven: {sizes}")


def check_deadlines(consumer: ConsumerGroup) -> None:
    """Who is to give partitions up has not for ever; that of a classic member begins with its heartbeat."""
    for name, current in consumer.currents.items():
        is_classic = consumer.subscriptions[name].classic is not None
        must_revoke = current.state is MemberState.UNREVOKED_PARTITIONS and not is_classic
        if must_revoke and consumer.sessions[name].rebalance_deadline_ms is None:
            raise ViolationError(f"{name} may keep for ever what it is to give up")


def is_good(current: CurrentAssignment, epoch: int, told: Owned | None) -> bool:
    """May a member in this epoch be served, if it tells that? Written apart from the code that decides."""
    if epoch == current.member_epoch:
        return True
    if not epoch == current.previous_member_epoch < current.member_epoch:
        return False
    return all(index in current.assigned.get(topic_id, {}) for topic_id, index in told or ())


def add_rows(rows: dict[tuple[Kind, str], Any], records: Iterable[Record]) -> None:
    """What these say, by key."""
    for key, value in records:
        record = decode_consumer_record(key, value)
        if record is not None and record.value is not None:
            rows[record.kind, record.name] = record.value
        elif record is not None:
            rows.pop((record.kind, record.name), None)


def live_rows(consumer: ConsumerGroup) -> dict[tuple[Kind, str], Value]:
    """The tables of the group, without the two rows of epochs, which are compared by number."""
    rows: dict[tuple[Kind, str], Value] = {}
    tables = (
        (Kind.MEMBER, consumer.subscriptions),
        (Kind.TARGET, consumer.targets),
        (Kind.CURRENT, consumer.currents),
        (Kind.REGULAR_EXPRESSION, consumer.regexes),
    )
    for kind, table in tables:
        rows |= {(kind, name): value for name, value in table.items()}  # type: ignore[attr-defined]
    return rows


def run(seed: int) -> World:
    """One schedule."""
    world = World(seed)
    try:
        world.run(STEPS if seed % 5 else 3 * STEPS)
    except AssertionError as error:
        error.add_note("\n".join(world.trace[-60:]))
        raise
    return world


def trace_of(seed: int) -> str:
    """Every step of a schedule, until it fails."""
    world = World(seed)
    try:
        world.run(STEPS if seed % 5 else 3 * STEPS)
    except AssertionError as error:
        world.note(f"{type(error).__name__}: {error}")
    return "\n".join(world.trace)
