"""ACLs: who may do what (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.admin.base import AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.security.acls import ANY, AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from minikafka.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from minikafka.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class AclCalls(AdminCalls):
    """Calls about ACLs."""

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """The ACLs that the filter matches (default: all), in order of their resources."""
        chosen = AclFilter() if wanted is None else wanted
        request = DescribeAclsRequest(
            resource_type_filter=_or_any(chosen.resource_type),
            resource_name_filter=chosen.resource_name,
            pattern_type_filter=_or_any(chosen.pattern_type),
            principal_filter=chosen.principal,
            host_filter=chosen.host,
            operation=_or_any(chosen.operation),
            permission_type=_or_any(chosen.permission),
        )

        async def attempt() -> list[AclBinding]:
            answer = await self._connections.call_once(request, DescribeAclsResponse, self._answer_s)
            check(answer.error_code, answer.error_message, "describing ACLs")
            return [
                AclBinding(
                    ResourceType(resource.resource_type),
                    resource.resource_name,
                    PatternType(resource.pattern_type),
                    acl.principal,
                    acl.host,
                    AclOperation(acl.operation),
                    AclPermission(acl.permission_type),
                )
                for resource in answer.resources
                for acl in resource.acls
            ]

        return await self._retrying(attempt, "describing ACLs")

    async def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Create them; one that is there already stays. Those before one that is refused are created."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, CreateAclsResponse, timeout_s=self._answer_s)
            for result in answer.results:
                check(result.error_code, result.error_message, "creating an ACL")

        await self._change(attempt, "creating ACLs")

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """Delete all that a filter matches; what was deleted, by the answers that came."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=_or_any(each.resource_type),
                    resource_name_filter=each.resource_name,
                    pattern_type_filter=_or_any(each.pattern_type),
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=_or_any(each.operation),
                    permission_type=_or_any(each.permission),
                )
                for each in filters
            ]
        )
        deleted: list[AclBinding] = []

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, DeleteAclsResponse, timeout_s=self._answer_s)
            for result in answer.filter_results:
                check(result.error_code, result.error_message, "deleting ACLs")
                deleted.extend(
                    AclBinding(
                        ResourceType(acl.resource_type),
                        acl.resource_name,
                        PatternType(acl.pattern_type),
                        acl.principal,
                        acl.host,
                        AclOperation(acl.operation),
                        AclPermission(acl.permission_type),
                    )
                    for acl in result.matching_acls
                )

        await self._change(attempt, "deleting ACLs")
        return deleted


def _or_any(value: int | None) -> int:
    return ANY if value is None else value
