"""DescribeUserScramCredentials (API key 50)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, int8, int16, int32, string


class UserName(Message):
    name: str = string("0+")


class DescribeUserScramCredentialsRequest(Message, versions="0", flexible="0+"):
    users: list[UserName] | None = array(UserName, "0+", nullable="0+")


class CredentialInfo(Message):
    mechanism: int = int8("0+")
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResult(Message):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")
