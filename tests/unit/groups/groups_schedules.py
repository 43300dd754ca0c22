"""Random schedules: clients that join, sync, commit, pause, crash and restart, producers that commit in transactions, a
network that delays their requests, a log whose writes fail or linger, coordinators that move, and what must hold
whatever happens.

Checked from outside, by what clients were told:

- owners: in one generation of a group a partition is never given to two members;
- zombies: once a generation was given out, no heartbeat and no commit of an older one succeeds;
- calm: while only time passes and nobody's session ends, a stable group keeps its generation;
- order: when an assignment is given out, the leader is the first to get it;
- durability: a fetch shows the last acknowledged offset or a newer one, and nothing that a deletion has taken;
- transactions: a fetch shows offsets of committed transactions only, and after the marker all of them; a stable fetch
  shows no offset while a commit of the partition is under way or its transaction is open, and all others;
- answers: every request is answered exactly once (the driver checks), and in time: the rebalance timeout and the time
  that a write may take bound the wait;
- liveness: when faults end, the clients that are left share out all partitions.

And from inside, after every step: :meth:`Group.check`; a naive reader of the log, who numbers its records, finds
the same committed and pending offsets; a coordinator that replays the log has the same persisted
state as the live one, and the same members and assignments where the group is stable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from groups_driver import UNSTABLE, Driver, InTransaction, Marker

from minikafka.coordination.effects import Respond, Write
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.group import Group, GroupState
from minikafka.groups.records import OffsetCommitRecord, decode_record
from minikafka.groups.timers import RetentionTimer
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.wire.consumer_protocol import encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription

GROUPS = ("g", "h")
PARTITIONS = 4
STEPS = 150
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))
REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class ViolationError(AssertionError):
    """Something that must hold did not."""


@dataclass(eq=False)
class Client:
    """A consumer: joins, syncs, heartbeats and commits, one request at a time."""

    name: str
    group: str
    instance: str | None
    version: int
    alive: bool = True
    member_id: str = ""
    generation: int = -1
    state: str = "outside"  # outside, joined, active
    members: list[str] = field(default_factory=list)  # not empty: it has to assign
    owned: list[int] = field(default_factory=list)
    waits_for: str | None = None  # the token of its request


@dataclass(eq=False)
class Transaction:
    """Of one producer; each has an epoch of its own."""

    producer: ProducerIdentity
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # acknowledged, by group and partition
    waiting: int = 0  # requests without an answer
    commits: bool | None = None  # once that is decided
    is_over: bool = False  # its marker is committed


class World:
    """Clients, a network, a driver; `step` does one random thing."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        retention_ms = self.random.choice([20_000, 10**9])
        self.driver = Driver(
            auto_commit=False,
            initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
            max_size=self.random.choice([3, 100]),
            offsets_retention_ms=retention_ms,
            offsets_retention_check_interval_ms=retention_ms // 3,
            writes_in_flight_max=self.random.choice([3, 100]),
        )
        self.log_speed = self.random.choice([4, 20, 40])
        self.rebalance_ms = self.random.choice([5_000, 20_000])
        self.slowness = self.random.choice([0.0, 0.5])
        self.trace: list[str] = []
        self.clients: list[Client] = []
        self.network: list[tuple[str, Callable[[], None]]] = []
        self.waiting: dict[str, Callable[[Any], None]] = {}
        self.arrived: dict[str, int] = {}
        self.requests = 0
        self.steps = 0
        self.owners: dict[tuple[str, int, int], str] = {}
        self.newest: dict[str, int] = defaultdict(lambda: -1)  # generation given out last, by group
        self.lives: list[tuple[Client, str, int]] = []  # client, member id, generation: what somebody once was
        self.next_offset = 0
        self.acked: dict[tuple[str, int], int] = {}
        self.forgotten: dict[str, int] = defaultdict(int)  # offsets of the group up to this may be deleted,
        self.deleted: dict[str, int] = {}  # and up to this are
        self.transactions: dict[int, Transaction] = {}  # the last of each producer
        self.transaction_of: dict[int, Transaction] = {}  # of an offset
        for _ in range(self.random.randint(2, 5)):
            self.add_client()

    def add_client(self) -> None:
        """One more consumer, static or dynamic, of an old or a new version."""
        name = f"c{len(self.clients)}"
        group, version = self.random.choice(GROUPS[:1] * 4 + GROUPS), self.random.choice([2, 3, 5, 9])
        instance = f"i{len(self.clients)}" if version >= 5 and self.random.random() < 0.4 else None
        self.clients.append(Client(name, group, instance, version))

    def run(self, steps: int = STEPS) -> None:
        """Random steps, and then the end of all faults."""
        for _ in range(steps):
            self.step()
        self.fail_over()
        self.check()
        self.settle()
        self.check_bounded()

    # steps

    def step(self) -> None:
        """One random event."""
        choices: list[tuple[int, Callable[[], None]]] = [
            (40, self.deliver),
            (40, self.act),
            (self.log_speed, self.commit_write),
            (3, self.fail_write),
            (12, self.pass_time),
            (self.log_speed // 4, self.round),
            (2, self.crash),
            (4, self.restart),
            (2, self.fail_over),
            (6, self.zombie),
            (3, self.tool_commit),
            (2, self.delete_group),
            (1, self.forget_topic),
            (12, self.txn_commit),
            (5, self.end_transaction),
            (5, self.send_markers),
        ]
        act = self.random.choices([act for _, act in choices], [weight for weight, _ in choices])[0]
        act()
        self.check()

    def note(self, text: str) -> None:
        """Remember what happened, for whoever reads the trace of a failure."""
        self.trace.append(f"{self.driver.now_ms:>8} {text}")

    def answers(self) -> None:
        """Hand out what was answered."""
        for token in [token for token in self.waiting if token in self.driver.answers]:
            self.waiting.pop(token)(self.driver.answers[token])

    def send(self, what: str, request: Callable[[str], Any], heard: Callable[[Any], None]) -> str:
        """Put a request on the network; returns its token."""
        self.requests += 1
        token = f"{what} #{self.requests}"

        def deliver() -> None:
            self.waiting[token] = heard
            self.arrived[token] = self.driver.now_ms
            request(token)
            self.answers()

        self.network.append((token, deliver))
        return token

    def deliver(self) -> None:
        """One request arrives, in no particular order."""
        if self.network:
            token, deliver = self.network.pop(self.random.randrange(len(self.network)))
            self.note(f"deliver {token}")
            deliver()

    def commit_write(self) -> None:
        """The oldest write is committed."""
        if self.driver.appended:
            entry = self.driver.appended[0]
            self.note(f"committed {entry if isinstance(entry, Marker) else entry.write_id}")
            leaders = {token: group for group in GROUPS for token in self.sync_of_leader(group)}
            self.driver.committed()
            answered = [effect.token for effect in self.driver.effects if isinstance(effect, Respond)]
            if len(answered) > 1 and answered[0] not in leaders and not leaders.keys().isdisjoint(answered):
                raise ViolationError(f"the leader's answer is not the first of {answered}")
            self.answers()
            self.marked(entry)

    def sync_of_leader(self, name: str) -> list[Any]:
        """The parked SyncGroup of the group's leader, if there is one."""
        group = self.driver.group(name)
        return [token for member, token in group.awaiting_sync.items() if member == group.leader_id] if group else []

    def fail_write(self) -> None:
        """Some write is refused by the log."""
        if self.driver.appended:
            which = self.random.randrange(len(self.driver.appended))
            entry = self.driver.appended[which]
            if isinstance(entry, Marker):
                self.note(f"failed {entry}")
                del self.driver.appended[which]  # nobody was told of it
                return
            error = self.random.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE])
            self.note(f"failed {entry.write_id}")
            self.driver.failed(error, which)
            self.answers()

    def pass_time(self) -> None:
        """Time passes, mostly a little; the wall clock may jump."""
        ms = self.random.choice([100, 1_000, 1_000, 3_000, 6_000, 11_000])
        self.note(f"advance {ms}")
        stable = {name: calm for name in GROUPS if (calm := self.calm(name))}
        self.driver.advance(ms)
        for name, before in stable.items():
            after = self.driver.group(name)
            if after is None or list(after.members) != before[1]:
                continue
            if not after.is_in(GroupState.STABLE) or after.generation_id != before[0]:
                raise ViolationError(f"{name} left generation {before[0]} although all its members are there")
        if self.random.random() < 0.05:
            self.driver.wall_ms += 50_000_000
        self.answers()

    def calm(self, name: str) -> tuple[int, list[str]] | None:
        """Generation and members of a stable group of which nothing is on its way to the log."""
        group = self.driver.group(name)
        if group is None or not group.is_in(GroupState.STABLE) or group.writes_in_flight:
            return None
        return group.generation_id, list(group.members)

    def round(self) -> None:
        """A while without faults: what is sent arrives, what is written is committed, every client does something."""
        for client in list(self.clients):
            self.deliver_all()
            if client.alive:
                self.act_as(client)
        self.deliver_all()
        self.driver.advance(500)
        self.answers()

    def crash(self) -> None:
        """A client is gone without a word; what it has sent still arrives."""
        client = self.random.choice(self.clients)
        self.note(f"crash {client.name}")
        client.alive, client.waits_for = False, None

    def restart(self) -> None:
        """A client that is gone starts again; a static one as a copy beside the old, which may still be running."""
        client = self.random.choice(self.clients)
        self.note(f"restart {client.name}")
        if client.instance is not None or not client.alive:
            self.clients.append(Client(f"{client.name}'", client.group, client.instance, client.version))
            if not client.alive:
                self.clients.remove(client)

    def fail_over(self) -> None:
        """The coordinator moves; some of the last writes are lost."""
        survive = self.random.randint(0, len(self.driver.appended))
        self.note(f"failover, {survive} of {len(self.driver.appended)} survive")
        survivors = self.driver.appended[:survive]
        self.driver.failover(survive)
        self.answers()
        for entry in survivors:
            self.marked(entry)

    def delete_group(self) -> None:
        """Somebody deletes a group; offsets committed before are not to be seen after."""
        group = self.random.choice(GROUPS)

        def request(token: str) -> None:
            limit = self.next_offset

            def heard(answer: Any) -> None:
                if answer.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
                    self.forget(group, limit, certainly=answer.error_code == 0)

            self.waiting[token] = heard
            self.driver.delete_group(group, token=token)

        self.send(f"delete {group}", request, lambda answer: None)

    def forget_topic(self) -> None:
        """The topic is deleted and made again."""
        self.note("topic deleted")
        for group in GROUPS:
            self.forget(group, self.next_offset, certainly=True)
        self.driver.delete_topics("t", again=True)

    def forget(self, group: str, limit: int, *, certainly: bool) -> None:
        """Offsets of `group` up to `limit` are deleted, or may be."""
        self.forgotten[group] = max(limit, self.forgotten[group])
        self.acked = {key: offset for key, offset in self.acked.items() if key[0] != group or offset > limit}
        if certainly:
            self.deleted[group] = max(limit, self.deleted.get(group, 0))

    # clients

    def act(self) -> None:
        """Some client does the next thing; mostly it waits for its answer first, sometimes it has given that up."""
        client = self.random.choice(self.clients)
        patience = 0.5 if client.state == "joined" else 0.8
        if client.alive and (client.waits_for is None or self.random.random() > patience):
            self.act_as(client)

    def act_as(self, client: Client) -> None:
        """The next thing that `client` does."""
        if self.random.random() < 0.03 and client.member_id:
            self.leave(client)
        elif client.waits_for is not None and client.state == "outside":
            return  # it has asked to join
        elif client.state == "outside":
            self.join(client)
        elif client.state == "joined":
            self.sync(client)
        else:
            self.random.choices([self.heartbeat, self.commit, self.rejoin], [10, 10, 2])[0](client)

    def ask(
        self, client: Client, verb: str, request: Callable[[str], Any], heard: Callable[[Client, Any], None]
    ) -> None:
        """Send a request whose answer `client` listens for, unless it has given up on it."""

        def listen(answer: Any) -> None:
            if client.alive and client.waits_for == token:
                client.waits_for = None
                heard(client, answer)

        token = self.send(f"{verb} {client.name} {client.member_id} {client.generation}", request, listen)
        client.waits_for = token

    def join(self, client: Client) -> None:
        member, instance = client.member_id, client.instance
        protocols = {"range": SUBSCRIPTION, self.random.choice(["roundrobin", "sticky"]): SUBSCRIPTION}

        def request(token: str) -> None:
            self.driver.join(
                client.name,
                group=client.group,
                member=member,
                instance=instance,
                protocols=protocols,
                rebalance_ms=self.rebalance_ms,
                version=client.version,
                token=token,
            )

        self.ask(client, "join", request, self.heard_join)

    def heard_join(self, client: Client, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            client.member_id, client.generation, client.state = answer.member_id, answer.generation_id, "joined"
            client.members = [] if answer.skip_assignment else [member.member_id for member in answer.members]
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        else:
            self.heard_error(client, answer.error_code)

    def sync(self, client: Client) -> None:
        member, generation, members = client.member_id, client.generation, client.members
        shares: dict[str, list[str]] = {member: [] for member in members}
        for partition in range(PARTITIONS if members else 0):
            shares[self.random.choice(members)].append(str(partition))
        assignments = {member: ",".join(share).encode() for member, share in shares.items()}

        def request(token: str) -> None:
            self.driver.sync(member, generation, assignments, group=client.group, instance=client.instance, token=token)

        self.ask(client, "sync", request, self.heard_sync)

    def heard_sync(self, client: Client, answer: Any) -> None:
        if answer.error_code != ErrorCode.NONE:
            self.heard_error(client, answer.error_code)
            return
        client.state = "active"
        self.lives = [*self.lives[-9:], (client, client.member_id, client.generation)]
        client.owned = [int(part) for part in answer.assignment.decode().split(",") if part]
        if client.generation < self.newest[client.group]:
            raise ViolationError(f"{client.name} is given generation {client.generation} of {client.group}: it is over")
        self.newest[client.group] = client.generation
        self.note(f"{client.name} {client.member_id} owns {client.owned} in generation {client.generation}")
        who = client.instance or client.member_id
        for partition in client.owned:
            owner = self.owners.setdefault((client.group, client.generation, partition), who)
            if owner != who:
                raise ViolationError(
                    f"{client.group} generation {client.generation}: {owner} and {who} own {partition}"
                )

    def heartbeat(self, client: Client) -> None:
        def heard(client: Client, answer: Any) -> None:
            if answer.error_code:
                self.heard_error(client, answer.error_code)

        self.ask(client, "heartbeat", self.heartbeat_of(client, client.member_id, client.generation), heard)

    def heartbeat_of(self, client: Client, member: str, generation: int) -> Callable[[str], None]:
        """The request; it must not succeed when a newer generation was given out."""

        def request(token: str) -> None:
            newest = self.newest[client.group]
            self.driver.heartbeat(member, generation, group=client.group, instance=client.instance, token=token)
            if self.driver.answers[token].error_code == 0 and generation < newest:
                raise ViolationError(f"a heartbeat of generation {generation} succeeds in {newest}")

        return request

    def commit(self, client: Client) -> None:
        def heard(client: Client, answer: Any) -> None:
            error = answer.topics[0].partitions[0].error_code
            if error:
                self.heard_error(client, error)

        partition = self.random.choice(client.owned or [0])
        request = self.commit_of(client.group, client.instance, client.member_id, client.generation, partition)
        self.ask(client, f"commit {partition}", request, heard)

    def commit_of(
        self, group: str, instance: str | None, member: str, generation: int, partition: int
    ) -> Callable[[str], None]:
        """The request; offsets grow in the order of arrival, which is that of the log."""

        def request(token: str) -> None:
            newest = self.newest[group]
            self.next_offset += 1
            offset = self.next_offset

            def heard(answer: Any) -> None:
                listen(answer)
                if answer.topics[0].partitions[0].error_code:
                    return
                if offset > self.forgotten[group]:
                    self.acked[group, partition] = max(self.acked.get((group, partition), -1), offset)
                if 0 <= generation < newest:
                    raise ViolationError(f"a commit of generation {generation} is acknowledged in {newest}")

            listen, self.waiting[token] = self.waiting[token], heard
            offsets = {("t", partition): offset}
            who = {"group": group, "instance": instance, "metadata": _metadata(offset)}
            self.driver.commit(offsets, member, generation, **who, token=token)

        return request

    def tool_commit(self) -> None:
        """Somebody without membership commits, which works while the group is empty."""
        group, partition = self.random.choice(GROUPS), self.random.randrange(PARTITIONS)
        self.send(f"tool commits {group} {partition}", self.commit_of(group, None, "", -1, partition), lambda _: None)

    # transactions

    def txn_commit(self) -> None:
        """A producer commits offsets in its transaction: for a consumer, for what one once was, or for nobody."""
        producer_id = self.random.randrange(1, 4)
        transaction = self.transactions.get(producer_id)
        if transaction is None or transaction.is_over:
            epoch = 0 if transaction is None else transaction.producer.epoch + 1
            transaction = self.transactions[producer_id] = Transaction(ProducerIdentity(producer_id, epoch))
        if transaction.commits is not None:
            return  # its coordinator is busy with the markers
        consumers = [(each, each.member_id, each.generation) for each in self.clients if each.state == "active"]
        client, member, generation = self.random.choice([*consumers, *self.lives, (None, "", -1)])
        group = self.random.choice(GROUPS) if client is None else client.group
        instance = None if client is None else client.instance
        partitions = self.random.sample(range(PARTITIONS), self.random.randint(1, 3))
        request = self.txn_commit_of(transaction, group, instance, member, generation, partitions)
        transaction.waiting += 1
        name = "nobody" if client is None else client.name
        self.send(f"{transaction.producer} for {name} {group} {partitions}", request, lambda _: None)

    def txn_commit_of(
        self,
        transaction: Transaction,
        group: str,
        instance: str | None,
        member: str,
        generation: int,
        partitions: list[int],
    ) -> Callable[[str], None]:
        """The request, if the transaction's coordinator still admits it, or the log knows of the end."""

        def request(token: str) -> None:
            producer = transaction.producer
            if transaction.commits is not None and self.driver.epoch_of(producer.producer_id) <= producer.epoch:
                del self.waiting[token]
                transaction.waiting -= 1
                return
            newest, is_late = self.newest[group], transaction.commits is not None
            self.next_offset += 1
            offset = self.next_offset
            self.transaction_of[offset] = transaction

            def heard(answer: Any) -> None:
                transaction.waiting -= 1
                if answer.topics[0].partitions[0].error_code:
                    return
                if is_late:
                    raise ViolationError(f"{producer} commits {offset} after the end of its transaction")
                if 0 <= generation < newest:
                    raise ViolationError(f"a commit in a transaction for generation {generation} passes in {newest}")
                transaction.offsets |= {(group, partition): offset for partition in partitions}

            self.waiting[token] = heard
            offsets = {("t", partition): offset for partition in partitions}
            who = {"group": group, "instance": instance, "metadata": _metadata(offset)}
            self.driver.txn_commit(offsets, producer, member, generation, **who, token=token)

        return request

    def end_transaction(self) -> None:
        """Some transaction is decided. One whose requests have no answer is aborted, as after its timeout."""
        going_on = [each for each in self.transactions.values() if each.commits is None]
        if going_on:
            transaction = self.random.choice(going_on)
            transaction.commits = not transaction.waiting and self.random.random() < 0.7
            self.note(f"{transaction.producer} {'commits' if transaction.commits else 'aborts'}")
            if self.random.random() < 0.8:
                self.send_marker(transaction)

    def send_markers(self) -> None:
        """Coordinators of transactions repeat themselves until the markers are there."""
        for transaction in self.transactions.values():
            if transaction.commits is not None and not transaction.is_over:
                self.send_marker(transaction)

    def send_marker(self, transaction: Transaction) -> None:
        """Unless the log has it."""
        if self.driver.epoch_of(transaction.producer.producer_id) <= transaction.producer.epoch:
            assert transaction.commits is not None
            producer_id, epoch = transaction.producer
            self.driver.appended.append(Marker(ProducerIdentity(producer_id, epoch + 1), transaction.commits))

    def marked(self, entry: Write | Marker) -> None:
        """A marker is committed: from now on its transaction's offsets are visible, or never."""
        if not isinstance(entry, Marker):
            return
        transaction = self.transactions[entry.producer.producer_id]
        transaction.is_over = True
        for (group, partition), offset in transaction.offsets.items() if entry.commits else ():
            if offset > self.forgotten[group]:
                self.acked[group, partition] = max(self.acked.get((group, partition), -1), offset)

    def zombie(self) -> None:
        """A request of an earlier life comes late: from before a rejoin, a crash, or a restart."""
        if not self.lives:
            return
        client, member, generation = self.random.choice(self.lives)
        if self.random.random() < 0.5:
            request = self.heartbeat_of(client, member, generation)
        else:
            request = self.commit_of(client.group, client.instance, member, generation, 0)
        self.send(f"late {client.name} {member} {generation}", request, lambda answer: None)

    def leave(self, client: Client) -> None:
        member, version = client.member_id, 3

        def request(token: str) -> None:
            self.driver.leave((member, client.instance), group=client.group, version=version, token=token)

        def heard(client: Client, answer: Any) -> None:
            client.state, client.member_id = "outside", ""

        self.ask(client, "leave", request, heard)

    def rejoin(self, client: Client) -> None:
        client.state = "outside"
        self.join(client)

    def heard_error(self, client: Client, error: int) -> None:
        """What a consumer does about an error."""
        if error == ErrorCode.FENCED_INSTANCE_ID:
            client.alive = False
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            client.state, client.member_id = "outside", ""
        elif error in REJOIN or client.state == "joined":
            busy = client.state == "active" and self.random.random() < self.slowness
            client.state = "active" if busy else "outside"  # a busy one heartbeats, and rejoins when it is done

    def check_transactions(self) -> None:
        """What is fetched, and what a stable fetch does not tell."""
        committed, pending = read_naively(self.driver)
        for name in GROUPS:
            fetched = self.driver.fetch(group=name)
            for at, offset in fetched.items():
                transaction = self.transaction_of.get(offset)
                if transaction is not None and not (transaction.is_over and transaction.commits):
                    raise ViolationError(f"{name} {at}: {offset} of {transaction} is fetched")
            under_way = {at for group, at in (*pending, *in_flight(self.driver)) if group == name}
            stable = self.driver.fetch(group=name, stable=True)
            unstable = {TopicPartition(*at) for at, offset in stable.items() if offset == UNSTABLE}
            if unstable != under_way:
                raise ViolationError(f"{name}: {unstable} are told unstable, {under_way} are")
            if any(stable[at] != offset for at, offset in fetched.items() if at not in unstable):
                raise ViolationError(f"{name}: a stable fetch tells {stable}, another one {fetched}")
            for partition, pending_offset in self.open_offsets(name):
                if ("t", partition) not in unstable:
                    raise ViolationError(f"{name} t-{partition} is told stable, though {pending_offset} is pending")
        live = {
            (name, at): committed.value.offset
            for name, group in self.driver.coordinator.shard.groups.items()
            for at, committed in group.offsets.items()
        }
        if live != committed:
            raise ViolationError(f"the coordinator has {live}, the log {committed}")

    def open_offsets(self, name: str) -> Iterator[tuple[int, int]]:
        """By partition, acknowledged offsets of the group in transactions without a marker; not what was deleted."""
        for transaction in self.transactions.values():
            for (group, partition), offset in transaction.offsets.items():
                if group == name and not transaction.is_over and offset > self.forgotten[group]:
                    yield partition, offset

    # what must hold

    def check(self) -> None:
        """After every step."""
        self.steps += 1
        for name in GROUPS:
            group = self.driver.group(name)
            if group is None or group.generation_id == 0:  # it was deleted: its generations begin anew
                self.newest.pop(name, None)
                self.owners = {key: owner for key, owner in self.owners.items() if key[0] != name}
        if self.driver.settings.offsets_retention_ms < 10**9:  # then offsets of groups without members may expire
            self.acked = {key: offset for key, offset in self.acked.items() if self.has_members(key[0])}
        for (group, partition), acked in self.acked.items():
            fetched = self.driver.fetch(("t", partition), group=group)["t", partition]
            if fetched < acked:
                raise ViolationError(f"{group} t-{partition}: {acked} was acknowledged, {fetched} is fetched")
        for group, limit in self.deleted.items():
            for partition, fetched in self.driver.fetch(group=group).items():
                if fetched <= limit:
                    raise ViolationError(f"{group} {partition}: {fetched} is fetched, up to {limit} was deleted")
        patience_ms = self.rebalance_ms + self.driver.settings.offsets_commit_timeout_ms + 3_000
        for token in self.driver.parked:
            if self.driver.now_ms - self.arrived[token] > patience_ms:
                raise ViolationError(f"{token} waits since {self.arrived[token]}")
        if self.steps % 3 == 0:
            self.check_replay()
            self.check_transactions()

    def has_members(self, group: str) -> bool:
        state = self.driver.group(group)
        return state is not None and bool(state.members)

    def check_replay(self) -> None:
        """A coordinator that replays the committed log knows what the live one does."""
        live = self.driver.coordinator.shard.groups
        replayed = replay(self.driver)
        for name in {*live, *replayed}:
            one, two = live.get(name), replayed.get(name)
            if persisted(one) != persisted(two):
                raise ViolationError(f"{name}: live {persisted(one)}, replayed {persisted(two)}")
            stable = one is not None and one.is_in(GroupState.STABLE) and not one.writes_in_flight
            if stable and membership(one) != membership(two):
                raise ViolationError(f"{name}: live {membership(one)}, replayed {membership(two)}")

    # coming to rest

    def settle(self) -> None:
        """No more faults: everything is delivered and committed, the clients go on until nothing changes."""
        self.slowness = 0.0
        for transaction in self.transactions.values():
            transaction.commits = bool(transaction.commits)
        for _ in range(60):
            self.send_markers()
            self.deliver_all()
            for client in [client for client in self.clients if client.alive and client.waits_for is None]:
                {"outside": self.join, "joined": self.sync, "active": self.heartbeat}[client.state](client)
            self.deliver_all()
            self.driver.advance(1_000)
            self.answers()
        for group in GROUPS:
            self.check_shared_out(group)
            self.check_no_orphans(group)
        for client in self.clients:
            client.alive = False
        for _ in range(60):
            self.deliver_all()
            self.driver.advance(10_000)
            self.answers()
        if self.driver.parked:
            raise ViolationError(f"never answered: {self.driver.parked}")

    def deliver_all(self) -> None:
        while self.network or self.driver.appended:
            self.deliver()
            self.commit_write()
            self.check()

    def check_shared_out(self, name: str) -> None:
        """The live clients own all partitions, if they all fit into the group."""
        clients = [client for client in self.clients if client.alive and client.group == name]
        if not clients or len(clients) > self.driver.settings.max_size:
            return
        owned = [partition for client in clients for partition in client.owned]
        if any(client.state != "active" for client in clients) or sorted(owned) != list(range(PARTITIONS)):
            states = [(client.name, client.state, client.member_id, client.owned) for client in clients]
            raise ViolationError(f"{name} does not come to rest: {states}, {self.driver.group(name)}")

    def check_no_orphans(self, name: str) -> None:
        """A while after the last failover, no offset of a deleted topic is left, whoever led when it was deleted."""
        shard, group = self.driver.coordinator.shard, self.driver.group(name)
        for at, committed in group.offsets.items() if group is not None else ():
            if shard.is_of_deleted_topic(at.topic, committed.value):
                raise ViolationError(f"{name} still has {committed.value.offset} of {at}, whose topic was deleted")

    def check_bounded(self) -> None:
        """When everybody is gone and retention has passed, nothing is left."""
        self.acked.clear()
        for _ in range(10):
            self.driver.advance(self.driver.settings.offsets_retention_ms // 5 + 10_000)
            self.deliver_all()
        shard = self.driver.coordinator.shard
        if shard.groups or shard.writes or shard.open_transactions or set(self.driver.timers) != {RetentionTimer()}:
            left = shard.groups, shard.writes, shard.open_transactions, self.driver.timers
            raise ViolationError(f"left over: {left}")


def _metadata(offset: int) -> str:
    """Now and then more of it than an offset takes in any case."""
    return "m" * (50 * offset % 300)


def replay(driver: Driver) -> dict[str, Group]:
    """The groups of a coordinator that starts on the driver's log."""
    fresh = GroupCoordinator(driver.settings, lambda: "x", lambda: driver.wall_ms, driver.topic_id)
    driver.replay_into(fresh)
    while fresh.phase is Phase.LOADING:
        fresh.finish_loading(driver.now_ms)
    return fresh.shard.groups


def persisted(group: Group | None) -> Any:
    """What of a group is persisted."""
    if group is None:
        return None, {}, {}
    pending = {at: [offset.value for offset in group.pending.candidates(at)] for at in group.pending.partitions}
    return group.persisted, {at: committed.value for at, committed in group.offsets.items()}, pending


Key = tuple[str, TopicPartition]


def read_naively(driver: Driver) -> tuple[dict[Key, int], set[Key]]:
    """Committed offsets by group and partition, and those that are pending: records are told apart by their places."""
    committed: dict[Key, tuple[int, int]] = {}
    pending: dict[tuple[int, Key], tuple[int, int]] = {}
    for place, entry in enumerate(driver.log):
        if isinstance(entry, Marker):
            for producer_id, at in list(pending):
                if producer_id == entry.producer.producer_id:
                    record_and_offset = pending.pop((producer_id, at))
                    if entry.commits and record_and_offset > committed.get(at, (-1, -1)):
                        committed[at] = record_and_offset
            continue
        producer = entry.producer if isinstance(entry, InTransaction) else None
        record = decode_record(*(entry.record if isinstance(entry, InTransaction) else entry))
        if not isinstance(record, OffsetCommitRecord):
            continue
        key = record.key.group, record.partition
        if record.value is None:
            committed.pop(key, None)
            pending = {each: found for each, found in pending.items() if each[1] != key}
        elif producer is None:
            committed[key] = place, record.value.offset
        else:
            pending[producer.producer_id, key] = place, record.value.offset
    return {key: offset for key, (_, offset) in committed.items()}, {key for _, key in pending}


def in_flight(driver: Driver) -> Iterator[Key]:
    """What writes that are not committed yet are about."""
    for entry in driver.appended:
        for encoded in () if isinstance(entry, Marker) else entry.records:
            record = decode_record(*encoded)
            if isinstance(record, OffsetCommitRecord):
                yield record.key.group, record.partition


def membership(group: Group | None) -> Any:
    """A stable group as its members know it."""
    assert group is not None
    members = {
        member.member_id: (member.group_instance_id, member.assignment, member.metadata_for(group.protocol_name))
        for member in group.members.values()
    }
    return group.generation_id, group.protocol_type, group.protocol_name, group.leader_id, group.static_members, members


def run(seed: int, steps: int = STEPS) -> World:
    """One schedule; raises ViolationError, or AssertionError of the machine or the driver."""
    world = World(seed)
    world.run(steps)
    return world


def trace_of(seed: int) -> str:
    """Every step of a schedule, with what it violated at its end."""
    world = World(seed)
    try:
        world.run()
    except AssertionError as violation:
        world.note(f"VIOLATION: {violation}")
    return "\n".join(world.trace)
