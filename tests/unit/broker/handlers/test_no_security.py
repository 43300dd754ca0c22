"""What is asked of security is answered as Apache Kafka does where it is not configured, not by closing."""

from __future__ import annotations

from broker_client import Client
from broker_node import listener_of

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.wire.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from minikafka.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.wire.messages.describe_acls import DescribeAclsRequest
from minikafka.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from minikafka.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from minikafka.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

LONG = "x" * 32_767
ABOUT_TOKENS = (
    CreateDelegationTokenRequest(),
    RenewDelegationTokenRequest(hmac=b"x"),
    ExpireDelegationTokenRequest(hmac=b"x"),
    DescribeDelegationTokenRequest(owners=None),
)


async def test_there_is_no_authorizer(client: Client) -> None:
    described = await client.ask(DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1))
    created = await client.ask(CreateAclsRequest(creations=[AclCreation(resource_name="t")] * 2))
    deleted = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()] * 3))
    answers = [described, *created.results, *deleted.filter_results]
    assert len(answers) == 6
    assert {answer.error_code for answer in answers} == {ErrorCode.SECURITY_DISABLED}
    assert all(answer.error_message.startswith("No Authorizer is configured") for answer in answers)


async def test_nobody_has_credentials(client: Client) -> None:
    everybody = await client.ask(DescribeUserScramCredentialsRequest(users=None))
    assert (everybody.error_code, everybody.results) == (0, [])
    names = [UserName(name=name) for name in ("a", "b", "b", LONG)]
    answer = await client.ask(DescribeUserScramCredentialsRequest(users=names))
    assert {each.user: each.error_code for each in answer.results} == {
        "a": ErrorCode.RESOURCE_NOT_FOUND,
        "b": ErrorCode.DUPLICATE_RESOURCE,
        LONG: ErrorCode.RESOURCE_NOT_FOUND,
    }


async def test_there_are_no_delegation_tokens(node: Node, client: Client) -> None:
    """Who is not known is told that first, as a broker of Kafka without ``delegation.token.secret.key`` does."""
    nobody = [(await client.ask(request)).error_code for request in ABOUT_TOKENS]
    (connection,) = listener_of(node, "CLIENT")._connections
    connection.user = "alice"
    alice = [(await client.ask(request)).error_code for request in ABOUT_TOKENS]
    assert set(nobody) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    assert set(alice) == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
