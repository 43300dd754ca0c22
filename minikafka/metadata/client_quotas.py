"""Quotas of clients: which there are, and which one holds for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from minikafka.metadata.records import QuotaEntity, QuotaPart

USER: Final = "user"
CLIENT_ID: Final = "client-id"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
RATES_IN_BYTES: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Client(NamedTuple):
    """Who asks: the user who logged in, or ANONYMOUS, and the client id."""

    user: str
    client_id: str


class Quota(NamedTuple):
    """What holds for a client: the bound, and the user and client id that share it ("" for all of them)."""

    bound: float
    shared_by: tuple[str, str]


def quota_of(quotas: Quotas, key: str, user: str, client_id: str) -> Quota | None:
    """The quota that holds, in Kafka's order (KIP-546); None without one.

    All clients of a user share a quota of the user alone; all users share one of a client id. A default holds for each
    of those that it stands for.
    """
    for entity, shared_by in _candidates(user, client_id):
        values = quotas.get(entity)
        if values is not None and key in values:
            return Quota(values[key], shared_by)
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    for user_name in (user, None):
        for client_name in (client_id, None):
            yield (QuotaPart(CLIENT_ID, client_name), QuotaPart(USER, user_name)), (user, client_id)
        yield (QuotaPart(USER, user_name),), (user, "")
    for client_name in (client_id, None):
        yield (QuotaPart(CLIENT_ID, client_name),), ("", client_id)
