"""AlterUserScramCredentials (API key 51)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, bytes_, int8, int16, int32, string


class ScramCredentialDeletion(Message):
    name: str = string("0+")
    mechanism: int = int8("0+")


class ScramCredentialUpsertion(Message):
    """``salted_password`` is as good as the password: the message has no text that shows it."""

    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = bytes_("0+")
    salted_password: bytes = bytes_("0+")

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism})"


class AlterUserScramCredentialsRequest(Message, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResult(Message):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")
