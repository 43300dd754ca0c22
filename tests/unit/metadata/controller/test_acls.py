"""ACLs are created, found by filters and deleted, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.errors import ErrorCode
from minikafka.metadata.controller import acls as module
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.wire.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

READ = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW
)
WRITE = READ._replace(operation=AclOperation.WRITE)
PREFIX = READ._replace(pattern_type=PatternType.PREFIXED, resource_name="ord")


def creation(acl: AclBinding, **other: Any) -> AclCreation:
    fields = {
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "resource_pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
    return AclCreation(**{**fields, **other})


def create(*acls: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[*map(creation, acls)])


def exactly(acl: AclBinding) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def any_named(name: str | None, pattern_type: int = 1) -> DeleteAclsFilter:
    wanted = DeleteAclsFilter(resource_type_filter=1, pattern_type_filter=pattern_type, operation=1, permission_type=1)
    wanted.resource_name_filter, wanted.principal_filter, wanted.host_filter = name, None, None
    return wanted


def test_acls_are_there_once_and_survive_a_failover(cluster: Any) -> None:
    assert [each.error_code for each in cluster.ask(create(READ, WRITE, READ)).results] == [0, 0, 0]
    assert [each.error_code for each in cluster.ask(create(READ)).results] == [0]
    cluster.fail_over()
    assert set(cluster.image.acls.values()) == {READ, WRITE}


def test_filters_delete_what_they_match(cluster: Any) -> None:
    cluster.ask(create(READ, WRITE, PREFIX))
    results = cluster.ask(
        DeleteAclsRequest(filters=[exactly(WRITE), exactly(WRITE), any_named("other")])
    ).filter_results
    assert [[each.operation for each in result.matching_acls] for result in results] == [[WRITE.operation], [], []]
    results = cluster.ask(DeleteAclsRequest(filters=[any_named("orders", 2), any_named(None)])).filter_results
    assert [len(result.matching_acls) for result in results] == [2, 0], "the first that matches has it"
    assert not cluster.image.acls


def test_an_address_of_a_host_is_the_same_however_it_is_written(cluster: Any) -> None:
    cluster.ask(
        create(READ._replace(host="0:0:0:0:0:0:0:1"), READ._replace(host="::0001"), WRITE._replace(host="FE80::1"))
    )
    assert set(cluster.image.acls.values()) == {READ._replace(host="::1"), WRITE._replace(host="fe80::1")}
    cluster.ask(DeleteAclsRequest(filters=[exactly(READ._replace(host="0:0:0:0:0:0:0:1"))]))
    assert set(cluster.image.acls.values()) == {WRITE._replace(host="fe80::1")}
    cluster.ask(create(READ._replace(host="::ffff:10.0.0.7")))
    assert READ._replace(host="10.0.0.7") in cluster.image.acls.values()


def test_many_are_compared_in_portions(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARED_AT_ONCE", 3)
    acls = [READ._replace(resource_name=f"t{number}") for number in range(10)]
    cluster.ask(create(*acls))
    cluster.ask(DeleteAclsRequest(filters=[any_named(None)]))
    assert not cluster.image.acls


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"resource_type": 1}, "resource type 1 is unknown"),
        ({"resource_pattern_type": 2}, "MATCH is for filters"),
        ({"resource_pattern_type": 0}, "pattern type 0 is unknown"),
        ({"operation": 1}, "operation 1 is unknown"),
        ({"permission_type": 1}, "permission type 1 is unknown"),
        ({"resource_name": ""}, "a resource name has 1 to 1000 characters"),
        ({"principal": "User:" + "a" * 1000}, "a principal has 1 to 1000 characters"),
        ({"host": ""}, "a host has 1 to 1000 characters"),
        ({"principal": "alice"}, "'alice' has no type; write it as User:name"),
        ({"resource_type": ResourceType.CLUSTER}, "the only name of a CLUSTER resource is kafka-cluster"),
    ],
)
def test_what_is_no_acl_is_refused_and_others_are_created(cluster: Any, other: dict[str, Any], said: str) -> None:
    request = CreateAclsRequest(creations=[creation(READ, **other), creation(WRITE)])
    refused, created = cluster.ask(request).results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert said in refused.error_message
    assert created.error_code == 0
    assert set(cluster.image.acls.values()) == {WRITE}


def test_there_are_bounds(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACLS_MAX", 2)
    monkeypatch.setattr(module, "WIDE_FILTERS_MAX", 1)
    results = cluster.ask(create(READ, WRITE, PREFIX)).results
    assert [each.error_code for each in results] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert [each.error_code for each in cluster.ask(create(READ)).results] == [0], "it is there"
    wide = cluster.ask(DeleteAclsRequest(filters=[any_named("x"), any_named("y"), exactly(READ)])).filter_results
    assert [each.error_code for each in wide] == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert set(cluster.image.acls.values()) == {WRITE}


def test_a_filter_of_what_is_unknown_is_refused(cluster: Any) -> None:
    cluster.ask(create(READ))
    wanted = any_named(None)
    wanted.operation = 99
    result = cluster.ask(DeleteAclsRequest(filters=[wanted])).filter_results[0]
    assert (result.error_code, result.matching_acls) == (ErrorCode.INVALID_REQUEST, [])
    assert cluster.image.acls
