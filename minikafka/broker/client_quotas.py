"""Quotas of clients at this node: what they used, and how long they are to wait (KIP-13, KIP-124, KIP-219, KIP-599).

A client that exceeds a quota is answered at once, and told for how long it is throttled; for that time its connection
is muted: no further request of it is read. So it costs neither memory nor the time of others, and a client that does
not heed ``throttle_time_ms`` is slowed down all the same. Each node counts for itself, as in Apache Kafka; changes of
partitions are counted by the active controller, whichever node is asked, and forgotten when another one takes over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.context import RequestContext
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Client,
    Quota,
    Quotas,
    quota_of,
)
from minikafka.metadata.delta import MetadataDelta
from minikafka.timing import Allowance

CLIENTS_MAX: Final = 10_000
"""Whose debts are remembered; whoever was silent for longest is forgotten: a client may have any number of names."""

FETCH_WINDOWS: Final = 10
"""As in Apache Kafka by default: quota.window.num - 1."""
NO_BOUND: Final = 2**31 - 1


class PartitionQuota:
    """Partitions that one request creates or deletes. ``throttle_ms``: so long the client is to wait.

    One more change is made whenever the rate is not exceeded, however large it is. A client that does not know the
    error is throttled after all of them instead (not ``is_strict``).
    """

    def __init__(self, spend: Callable[[int], float], *, is_strict: bool) -> None:
        self._spend = spend
        self._is_strict = is_strict
        self.throttle_ms = 0.0

    def accept(self, partitions: int) -> None:
        """Count them, or KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
        if not self._is_strict:
            self.throttle_ms = self._spend(partitions)
            return
        wait_ms = self._spend(0)
        if not wait_ms:
            self._spend(partitions)
            return
        self.throttle_ms = wait_ms
        message = f"more changes of partitions than {CONTROLLER_MUTATION_RATE} allows; try again in {wait_ms:.0f} ms"
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)


class ClientQuotas:
    """All quotas of one node."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        self._window_ms = config.quota_window_size_seconds * 1000
        self._quotas: Quotas = {}
        self._bounds: dict[tuple[str, Client], Quota | None] = {}  # by key
        self._allowances: OrderedDict[tuple[str, tuple[str, str]], Allowance] = OrderedDict()
        self.bound_keys: frozenset[str] = frozenset()
        """Of the quotas that somebody has."""

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Quotas may have changed."""
        if delta.after.client_quotas is not self._quotas:
            self._quotas = delta.after.client_quotas
            self._bounds.clear()
            self._allowances.clear()  # debts were made by other bounds
            self.bound_keys = frozenset(key for values in self._quotas.values() for key in values)

    def on_produced(self, context: RequestContext, size: int) -> None:
        """A producer sent so many bytes."""
        if PRODUCER_BYTE_RATE in self.bound_keys:
            context.throttle(self._spend(PRODUCER_BYTE_RATE, context.client, size))

    def on_fetched(self, context: RequestContext, size: int) -> None:
        """A consumer is being sent so many bytes."""
        if CONSUMER_BYTE_RATE in self.bound_keys:
            context.throttle(self._spend(CONSUMER_BYTE_RATE, context.client, size))

    def fetch_max_bytes(self, client: Client) -> int:
        """Most bytes of one answer: what the quota has in ten windows. A client whose answer took all of
        ``fetch.max.bytes`` could be muted for an hour."""
        quota = self._quota(CONSUMER_BYTE_RATE, client)
        return NO_BOUND if quota is None else int(min(quota.bound * FETCH_WINDOWS * self._window_ms / 1000, NO_BOUND))

    def on_request(self, context: RequestContext) -> None:
        """A client asks something; its earlier requests may have taken too long. It waits for a window at most."""
        context.throttle(min(self._spend(REQUEST_PERCENTAGE, context.client, 0.0), self._window_ms))

    def on_handled(self, client: Client, seconds: float) -> None:
        """A request of the client took so long."""
        self._spend(REQUEST_PERCENTAGE, client, 100 * seconds)

    def of_partitions(self, client: Client, *, is_strict: bool) -> PartitionQuota:
        """For one request to the controller that changes partitions."""

        def spend(partitions: int) -> float:
            return self._spend(CONTROLLER_MUTATION_RATE, client, partitions)

        return PartitionQuota(spend, is_strict=is_strict)

    def _spend(self, key: str, client: Client, amount: float) -> float:
        """Record it; the time (ms) that the client is to wait."""
        quota = self._quota(key, client)
        if quota is None:
            return 0.0
        now_ms = self._clock.monotonic_ms()
        return self._allowance(key, quota.shared_by).spend(amount, quota.bound, now_ms)

    def _quota(self, key: str, client: Client) -> Quota | None:
        if (key, client) not in self._bounds:
            if len(self._bounds) >= CLIENTS_MAX:
                self._bounds.clear()
            self._bounds[key, client] = quota_of(self._quotas, key, *client)
        return self._bounds[key, client]

    def _allowance(self, key: str, shared_by: tuple[str, str]) -> Allowance:
        allowance = self._allowances.get((key, shared_by))
        if allowance is None:
            if len(self._allowances) >= CLIENTS_MAX:
                self._allowances.popitem(last=False)
            allowance = self._allowances[key, shared_by] = Allowance(self._window_ms)
        else:
            self._allowances.move_to_end((key, shared_by))
        return allowance
