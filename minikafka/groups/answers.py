"""Refusals, and the errors that clients get for a failed append to the offsets topic.

Handlers use them as well, when another broker leads the group's partition of the offsets topic.
"""

from __future__ import annotations

from typing import Final

from minikafka.coordination.effects import NOT_WRITTEN
from minikafka.errors import ErrorCode
from minikafka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


def commit_error(error: ErrorCode) -> ErrorCode:
    """The error of an OffsetCommit or a TxnOffsetCommit whose append failed."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else NOT_WRITTEN.get(error, error)


def group_write_error(error: ErrorCode) -> ErrorCode:
    """The error of any other request whose append failed."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else NOT_WRITTEN.get(error, error)


def identities(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """The members that leave; a single one before version 3."""
    return request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]


def leave_answer(leaving: list[MemberIdentity], errors: list[ErrorCode], version: int) -> LeaveGroupResponse:
    """From version 3 an error per member; before, one error at the top."""
    if version < 3:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
            for member, error in zip(leaving, errors, strict=True)
        ]
    )


def commit_answer(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition of `request`."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_commit_answer(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The same error for every partition of `request`."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
