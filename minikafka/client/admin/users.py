"""Users: their SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from minikafka.client.admin.base import AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.scram import BY_NAME, MAX_ITERATIONS, SALT_SIZE, ScramMechanism, salted_password
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
DEFAULT_ITERATIONS: Final = 8192


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A password to set. The broker is sent what was derived from it, never the password."""

    user: str
    password: str = field(repr=False)
    mechanism: str = DEFAULT_MECHANISM
    iterations: int = DEFAULT_ITERATIONS


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A password to remove."""

    user: str
    mechanism: str = DEFAULT_MECHANISM


class UserCalls(AdminCalls):
    """Calls about users."""

    async def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
        """Iterations by user and mechanism, of all users or of these; RESOURCE_NOT_FOUND for one without."""
        named = None if users is None else [UserName(name=name) for name in users]

        async def attempt() -> dict[str, dict[str, int]]:
            request = DescribeUserScramCredentialsRequest(users=named)
            answer = await self._connections.call_once(request, DescribeUserScramCredentialsResponse, self._answer_s)
            check(answer.error_code, answer.error_message, "describing users")
            for result in answer.results:
                check(result.error_code, result.error_message, f"describing user {result.user!r}")
            return {
                result.user: {_mechanism_name(info.mechanism): info.iterations for info in result.credential_infos}
                for result in answer.results
            }

        return await self._retrying(attempt, "describing users")

    async def alter_user_scram_credentials(self, changes: Iterable[ScramUpsertion | ScramDeletion]) -> None:
        """Set and remove passwords. Each user may be named once. Raises the error of the first that is refused; the
        others are changed all the same."""
        deletions: list[ScramCredentialDeletion] = []
        upsertions: list[ScramCredentialUpsertion] = []
        for change in changes:
            mechanism = _mechanism(change.mechanism)
            if isinstance(change, ScramDeletion):
                deletions.append(ScramCredentialDeletion(name=change.user, mechanism=mechanism))
            else:
                upsertions.append(self._upsertion(change, mechanism))
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, AlterUserScramCredentialsResponse, timeout_s=self._answer_s)
            for result in answer.results:
                check(result.error_code, result.error_message, f"changing user {result.user!r}")

        await self._change(attempt, "changing users", done_before=ErrorCode.RESOURCE_NOT_FOUND)

    def _upsertion(self, change: ScramUpsertion, mechanism: ScramMechanism) -> ScramCredentialUpsertion:
        salt = self._rng.randbytes(SALT_SIZE)
        iterations = min(max(1, change.iterations), MAX_ITERATIONS)  # others are refused anyway
        return ScramCredentialUpsertion(
            name=change.user,
            mechanism=mechanism,
            iterations=change.iterations,
            salt=salt,
            salted_password=salted_password(mechanism, change.password, salt, iterations),
        )


def _mechanism(name: str) -> ScramMechanism:
    found = BY_NAME.get(name)
    if found is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{name!r} is no SCRAM mechanism; there are {', '.join(BY_NAME)}"
        )
    return found


def _mechanism_name(number: int) -> str:
    return ScramMechanism(number).mechanism_name if number in tuple(ScramMechanism) else f"mechanism {number}"
