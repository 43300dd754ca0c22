"""The scene "rights": ACLs and SCRAM credentials come and go, and users ask each node what they may do.

One client changes one thing at a time. What must hold: from the answer to a change on, each node whose metadata goes
so far has it, and in the end every node, whatever died, moved or was loaded from a snapshot meanwhile. A change without
an answer may be made, or not, and late: what it is about is left alone from then on. So is what was changed with delay,
since a node may have asked the controller twice.

Other clients log in at each node, and ask for records and topics, and to write. Nothing but the ACLs and credentials
that the node has at that moment may decide, and they are read one by one here (``security_naive``).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import security_naive
from sim_cluster import USERS_PORT, Machine, SimulatedCluster
from sim_invariants import InvariantViolatedError
from sim_workload import BACKOFF_S, Workload, patiently
from simulator.loop import Process

from minikafka.broker.authorizer import Authorizer
from minikafka.broker.drivers import metadata
from minikafka.client import Admin
from minikafka.client.admin import ScramDeletion, ScramUpsertion
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.sasl import UserLogin, user_client
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.model import Endpoint
from minikafka.sasl.scram import ScramMechanism
from minikafka.security.acl_index import AclIndex
from minikafka.security.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.wire.error_codes import errors_of
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from minikafka.wire.schema import Message

MECHANISM: Final = "SCRAM-SHA-256"
PASSWORD: Final = "the password of all"
ITERATIONS: Final = 4096
"""Of the first credential; each later one has one more, which tells them apart."""
USERS: Final = ("u-0", "u-1", "u-2")
"""They ask."""
TOPIC: Final = "absent"
"""There is no such topic: what is asked of it changes nothing, whoever may."""
PATTERNS: Final = (
    (TOPIC, PatternType.LITERAL),
    ("*", PatternType.LITERAL),
    ("abs", PatternType.PREFIXED),
    ("other", PatternType.LITERAL),
)
NOWHERE: Final = "192.0.2.9"
"""An address that no client has."""
ELSEWHERE: Final = "of the client"
"""An address that no ACL names."""
ASKED: Final = (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)
PAUSE_S: Final = 0.15
PROBE_PAUSE_S: Final = 0.3
QUICK_S: Final = 0.3
"""A change that took longer may come again, late."""
PATIENCE_S: Final = 3.0
BY_NAME: Final = 12
"""The last version of requests to fetch, and to produce, that name topics."""
IN_THE_END: Final = 1 << 63
RECORDS_BETWEEN_SNAPSHOTS: Final = 40
NODE_SETTINGS: Final[dict[str, object]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
"""Who does not log in may do everything: the clients of every run."""

Key = AclBinding | str
"""An ACL, or the user of a credential."""
Value = int | None
"""Of an ACL 1, of a credential its iterations; None: it is not there."""


class Known(NamedTuple):
    """What an answer told: that value, at least from that metadata offset on."""

    value: Value
    offset: int


@contextmanager
def snapshots_often(is_so: bool) -> Iterator[None]:
    """Each node writes a snapshot of few records, if ``is_so``."""
    before = metadata.RECORDS_BETWEEN_SNAPSHOTS
    if is_so:
        metadata.RECORDS_BETWEEN_SNAPSHOTS = RECORDS_BETWEEN_SNAPSHOTS  # type: ignore[misc]
    try:
        yield
    finally:
        metadata.RECORDS_BETWEEN_SNAPSHOTS = before  # type: ignore[misc]


class Rights:
    """What was granted and revoked, and what nodes make of it."""

    def __init__(self, cluster: SimulatedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._rng = workload.rng()
        self._known: dict[Key, Known] = {}
        self._in_doubt: set[Key] = set()
        self._left_alone: set[Key] = set()
        self._failure: Exception | None = None
        self._offset = -1
        """The largest that a node has applied: who answers a change has seen it."""
        self._iterations = itertools.count(ITERATIONS)
        self._checked: dict[Machine, tuple[int, int]] = {}
        self._indexed: dict[Authorizer, Mapping[Any, AclBinding]] = {}
        self.counts = dict.fromkeys(("granted", "revoked", "allowed", "denied", "let in", "kept out"), 0)
        """How often each was seen."""

    # -- changing -----------------------------------------------------------------------------------------------------

    async def change(self) -> None:
        """Grant and revoke, until cancelled."""
        await patiently(self._let_in)
        newcomers = itertools.count()
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / PAUSE_S))
            if self._rng.random() < 0.3:
                users = [f"guest-{n}" for n in range(3)]
                free = [user for user in users if user not in self._left_alone]
                await self._change_user(self._rng.choice(free) if free else f"newcomer-{next(newcomers)}")
            else:
                await self._change_acl()

    async def _let_in(self) -> None:
        async with self._admin() as admin:
            await admin.alter_user_scram_credentials(
                [ScramUpsertion(user, PASSWORD, MECHANISM, ITERATIONS) for user in USERS]
            )

    async def _change_acl(self) -> None:
        there = [key for key, known in self._known.items() if isinstance(key, AclBinding) and known.value]
        there = [acl for acl in there if acl not in self._left_alone]
        if there and self._rng.random() < 0.5:
            some = self._rng.sample(there, min(len(there), self._rng.choice((1, 1, 3))))
            await self._tried(dict.fromkeys(some), lambda admin: admin.delete_acls(map(_filter, some)))
            return
        some = list({self._drawn(): None for _ in range(self._rng.choice((1, 1, 3)))})
        some = [acl for acl in some if acl not in self._left_alone]
        if some:
            await self._tried(dict.fromkeys(some, 1), lambda admin: admin.create_acls(some))

    def _drawn(self) -> AclBinding:
        rng = self._rng
        return AclBinding(
            ResourceType.TOPIC,
            *rng.choice(PATTERNS),
            rng.choice((*(f"User:{user}" for user in USERS), "User:*")),
            rng.choice(("*", "*", NOWHERE)),
            rng.choice((*ASKED, AclOperation.ALL)),
            AclPermission.DENY if rng.random() < 0.2 else AclPermission.ALLOW,
        )

    async def _change_user(self, user: str) -> None:
        known = self._known.get(user)
        if known is not None and known.value and self._rng.random() < 0.6:
            await self._tried(
                {user: None}, lambda admin: admin.alter_user_scram_credentials([ScramDeletion(user, MECHANISM)])
            )
            return
        iterations = next(self._iterations)
        password = ScramUpsertion(user, PASSWORD, MECHANISM, iterations)
        await self._tried({user: iterations}, lambda admin: admin.alter_user_scram_credentials([password]))

    async def _tried(self, values: Mapping[Key, Value], change: Callable[[Admin], Awaitable[object]]) -> None:
        """Make a change; nothing is known of its keys until it is answered."""
        for key in values:
            self._known.pop(key, None)
        self._in_doubt |= values.keys()
        began_s = self._cluster.simulator.now
        says = f"{'grant' if any(values.values()) else 'revoke'} {', '.join(map(_named, values))}"
        try:
            async with self._admin() as admin:
                await change(admin)
        except KafkaError as error:
            self._cluster.say("rights", f"{says}: {error}")
            self._left_alone |= values.keys()
            await asyncio.sleep(BACKOFF_S)
            return
        self._cluster.say("rights", says)
        self._in_doubt -= values.keys()
        offset = self._offset
        if self._cluster.simulator.now - began_s > QUICK_S:
            self._left_alone |= values.keys()
            offset = IN_THE_END  # a node answers after a while, even if it has not seen it
        self._known |= {key: Known(value, offset) for key, value in values.items()}
        self._count("granted" if any(values.values()) else "revoked")

    def _admin(self) -> Admin:
        return _Once(
            self._cluster.bootstrap_servers, client_id="rights", request_timeout_ms=5_000, rng=self._workload.rng()
        )

    # -- what nodes know ----------------------------------------------------------------------------------------------

    def after_turn(self, process: Process) -> None:
        """InvariantViolatedError when a node that took a turn has forgotten something, or decides by something else."""
        if self._failure is not None:
            raise self._failure
        machine = self._cluster.machine_of(process)
        node = None if machine is None else machine.node
        if machine is None or node is None:
            return
        image, authorizer = node.image, node.parts.part(Authorizer)
        self._offset = max(self._offset, image.offset)
        if self._indexed.get(authorizer) is not image.acls:
            self._indexed[authorizer] = image.acls
            _check_index(machine, authorizer, image)
        state = (image.offset, machine.incarnation)
        if self._checked.get(machine) != state:
            self._checked[machine] = state
            self._check_image(machine, image, image.offset)

    def _check_image(self, machine: Machine, image: MetadataImage, offset: int) -> None:
        for key, known in self._known.items():
            if known.offset <= offset and (found := _value(image, key)) != known.value:
                raise InvariantViolatedError(
                    f"{machine.host}: {_named(key)} was {'granted' if known.value else 'revoked'} at offset "
                    f"{known.offset} or before, and at {image.offset} it is {'there' if found else 'not there'}"
                )

    def check(self) -> None:
        """After healing: every node has what was answered, and nothing that nobody asked for."""
        for machine, node in self._cluster.nodes():
            self._check_image(machine, node.image, IN_THE_END)
            users = node.image.scram_credentials.keys() - set(USERS)
            strange = (set(node.image.acls.values()) | users) - self._in_doubt - self._known.keys()
            if strange:
                raise InvariantViolatedError(f"{machine.host}: nobody granted {', '.join(map(_named, strange))}")
            if not set(USERS) <= node.image.scram_credentials.keys():
                raise InvariantViolatedError(f"{machine.host}: there are only {sorted(node.image.scram_credentials)}")
            _check_index(machine, node.parts.part(Authorizer), node.image)
        if not all(self.counts.values()):
            raise InvariantViolatedError(f"what never happens proves nothing: {self.counts}")

    # -- asking -------------------------------------------------------------------------------------------------------

    def begin_asking(self) -> list[asyncio.Task[None]]:
        """Let a client ask each node."""
        asker = self._workload.process("asker")
        return [asker.spawn(self._ask_always(machine)) for machine in self._cluster.machines.values()]

    async def _ask_always(self, machine: Machine) -> None:
        try:
            await self._ask_until_cancelled(machine)
        except Exception as error:
            self._failure = self._failure or error
            raise

    async def _ask_until_cancelled(self, machine: Machine) -> None:
        """Log in at this node and ask."""
        rng = self._workload.rng()
        while True:
            await asyncio.sleep(rng.expovariate(1 / PROBE_PAUSE_S))
            try:
                await self._log_in_as_guest(machine, rng)
                user = rng.choice(USERS)
                connection = await _connected(machine, user, rng)
            except KafkaError as error:
                self._cluster.say("asker", f"{machine.host}: {error}")
                continue
            try:
                for _ in range(6):
                    await self._ask(machine, connection, user, rng.choice(ASKED))
            except KafkaError as error:
                self._cluster.say("asker", f"{machine.host}: {error}")
            finally:
                connection.close()

    async def _log_in_as_guest(self, machine: Machine, rng: random.Random) -> None:
        user = f"guest-{rng.randrange(3)}"
        before = _credential(machine, user)
        try:
            (await _connected(machine, user, rng)).close()
            is_let_in = True
        except KafkaError as error:
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            is_let_in = False
        if before is None or before != _credential(machine, user):
            return  # it is dead, or has heard of a change
        if is_let_in != (before[1] is not None):
            raise InvariantViolatedError(
                f"{machine.host}: {user} {'is' if is_let_in else 'is not'} let in by credential {before[1]}"
            )
        self._count("let in" if is_let_in else "kept out")

    async def _ask(self, machine: Machine, connection: BrokerConnection, user: str, operation: AclOperation) -> None:
        before = _acls(machine)
        request, response_class = REQUESTS[operation]
        answer = await connection.call(request(), response_class, timeout_s=PATIENCE_S, at_most=BY_NAME)
        errors = set(errors_of(answer))
        after = _acls(machine)
        if before is None or after is None or before[0] != after[0] or before[1] is not after[1]:
            return
        acls = before[1].values()
        who = (f"User:{user}", ELSEWHERE)
        is_allowed = security_naive.is_allowed(acls, *who, operation, ResourceType.TOPIC, TOPIC, allow_everyone=False)
        is_denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED in errors
        if is_denied == is_allowed:
            raise InvariantViolatedError(
                f"{machine.host}: {user} {'is not' if is_denied else 'is'} allowed to {operation.name} by the ACLs "
                f"{[acl for acl in acls if acl.principal in (who[0], 'User:*')]}: {answer}"
            )
        self._count("allowed" if is_allowed else "denied")

    def _count(self, what: str) -> None:
        self.counts[what] += 1


class _Once(Admin):
    """An admin client that does nothing twice."""

    async def _retrying(self, attempt: Callable[[], Awaitable[Any]], doing: str, **_how: Any) -> Any:
        return await attempt()


def _check_index(machine: Machine, authorizer: Authorizer, image: MetadataImage) -> None:
    """It is what is made of these ACLs alone, and so are the decisions that are remembered."""
    standard = authorizer._standard
    if standard._index != AclIndex().updated(image.acls.values(), ()):
        raise InvariantViolatedError(f"{machine.host}: the index differs from the ACLs at offset {image.offset}")
    for (user, *question), decision in standard._decisions.items():
        if user != "ANONYMOUS" and decision != security_naive.is_allowed(
            image.acls.values(), f"User:{user}", *question, allow_everyone=False
        ):
            raise InvariantViolatedError(f"{machine.host}: decided {decision} for {user} {question} by other ACLs")


def _value(image: MetadataImage, key: Key) -> Value:
    if isinstance(key, AclBinding):
        return 1 if key.acl_id in image.acls else None
    credential = image.scram_credential(key, ScramMechanism.SCRAM_SHA_256)
    return None if credential is None else credential.iterations


def _named(key: Key) -> str:
    if isinstance(key, str):
        return f"the credential of {key}"
    what = f"{key.permission.name} {key.operation.name} on {key.pattern_type.name} {key.resource_name}"
    return f"{what} for {key.principal} from {key.host}"


def _filter(acl: AclBinding) -> AclFilter:
    return AclFilter(*acl)


def _acls(machine: Machine) -> tuple[int, Mapping[Any, AclBinding]] | None:
    """What the node of the machine decides by, if it runs."""
    return None if machine.node is None else (machine.incarnation, machine.node.image.acls)


def _credential(machine: Machine, user: str) -> tuple[int, Value] | None:
    return None if machine.node is None else (machine.incarnation, _value(machine.node.image, user))


async def _connected(machine: Machine, user: str, rng: random.Random) -> BrokerConnection:
    login = user_client(MECHANISM, UserLogin(user, PASSWORD), lambda: rng.randbytes(32))
    return await BrokerConnection.open(Endpoint(machine.host, USERS_PORT), user, None, login)


def _metadata_request() -> Message:
    return MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)


def _fetch_request() -> Message:
    partition = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    return FetchRequest(replica_id=-1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])


def _produce_request() -> Message:
    partition = PartitionProduceData(index=0, records=b"")
    return ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])]
    )


REQUESTS: Final[Mapping[AclOperation, tuple[Callable[[], Message], type[Any]]]] = {
    AclOperation.DESCRIBE: (_metadata_request, MetadataResponse),
    AclOperation.READ: (_fetch_request, FetchResponse),
    AclOperation.WRITE: (_produce_request, ProduceResponse),
}
