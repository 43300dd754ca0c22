"""CreateAcls and DeleteAcls: who may do what (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Final
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.acl_messages import acl_of, filter_of, matching_acl
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.records import AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord
from minikafka.security.acls import AclBinding, AclFilter
from minikafka.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from minikafka.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

ACLS_MAX: Final = 20_000
"""Each change copies the list of all, on each node, which also keeps an index: some 20 MB of this many."""
WIDE_FILTERS_MAX: Final = 20
"""In one request: each of them is compared with all ACLs. Others name one ACL in full."""
COMPARED_AT_ONCE: Final = 5_000
"""ACLs that are compared with a filter in a portion: some 5 ms."""


def create_acls(state: ControllerState, request: CreateAclsRequest) -> CreateAclsResponse:
    """Each on its own; one that is there already is created, too. Errors: INVALID_REQUEST, POLICY_VIOLATION."""
    created: dict[UUID, AclBinding] = {}
    results = []
    for creation in request.creations:
        result = AclCreationResult(error_message=None)
        try:
            acl = acl_of(creation)
            acl_id = acl.acl_id
            if acl_id not in state.image.acls and acl_id not in created:
                if len(state.image.acls) + len(created) >= ACLS_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, f"there are {ACLS_MAX} ACLs, and more cannot be")
                created[acl_id] = acl
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    state.write(*map(AccessControlEntryRecord.of, created.values()))
    return CreateAclsResponse(results=results)


def delete_acls(state: ControllerState, request: DeleteAclsRequest) -> Callable[[], DeleteAclsResponse]:
    """All ACLs that a filter matches. One that several match is told by the first. Error: INVALID_REQUEST."""
    results = [DeleteAclsFilterResult(error_message=None) for _ in request.filters]
    filters: list[tuple[AclFilter, DeleteAclsFilterResult]] = []
    for wanted, result in zip(request.filters, results, strict=True):
        try:
            filters.append((_filter(wanted, filters), result))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    state.postpone(_deletions(state, filters), 1)
    return lambda: DeleteAclsResponse(filter_results=results)


def _filter(wanted: DeleteAclsFilter, before: Iterable[tuple[AclFilter, DeleteAclsFilterResult]]) -> AclFilter:
    found = filter_of(wanted)
    if found.only is None and sum(each.only is None for each, _ in before) >= WIDE_FILTERS_MAX:
        message = f"one request has at most {WIDE_FILTERS_MAX} filters that may match several ACLs"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
    return found


def _deletions(
    state: ControllerState, filters: Iterable[tuple[AclFilter, DeleteAclsFilterResult]]
) -> Generator[list[Record], None, None]:
    acls = dict(state.image.acls)
    exact: list[Record] = []
    for wanted, result in filters:
        if (only := wanted.only) is not None:
            exact += _taken(acls, {only.acl_id: only}.items(), wanted, result)
            continue
        of_filter = iter(list(acls.items()))
        while portion := list(islice(of_filter, COMPARED_AT_ONCE)):
            yield _taken(acls, portion, wanted, result)
    yield exact


def _taken(
    acls: dict[UUID, AclBinding],
    candidates: Iterable[tuple[UUID, AclBinding]],
    wanted: AclFilter,
    result: DeleteAclsFilterResult,
) -> list[Record]:
    """Those that are still there and match, taken out and told."""
    taken = [acl_id for acl_id, acl in candidates if wanted.matches(acl) and acl_id in acls]
    result.matching_acls += [matching_acl(acls.pop(acl_id)) for acl_id in taken]
    return [RemoveAccessControlEntryRecord(acl_id) for acl_id in taken]
