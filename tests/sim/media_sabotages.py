"""Planted bugs about what a node believes of its own disk: each lets damage on one machine cost what others have."""

from __future__ import annotations

from copy import copy
from typing import Any

from fault_sabotages import suite_of

from minikafka.metadata.controller import brokers
from minikafka.replication.leader import LeaderState
from minikafka.storage import recovery, small_file
from minikafka.storage.errors import StorageFailure
from minikafka.storage.evidence import Evidence
from minikafka.storage.log import Log
from minikafka.storage.presence import PresenceLook
from minikafka.storage.registration import Registrations
from minikafka.storage.segment import Segment

MEDIA = suite_of("media", "whole clusters whose disks go bad", "media")
LOST_LOGS = suite_of("lost logs", "whole clusters in which somebody removes logs of one node", "lost logs")
SECTORS = suite_of("sectors", "whole clusters whose disks have bad sectors", "bad sectors")


@LOST_LOGS.plants()
def a_registration_is_believed_whatever_it_lacks(patch: Any) -> None:
    """A log that is missing, or that does not say whose it is, stays in ISR and ELR, and leads empty (row 1)."""
    lost = brokers._lost

    def believing(request: Any, **how: bool) -> Any:
        without = copy(request)
        without.whole = None
        return lost(without, **how)

    patch.setattr(brokers, "_lost", believing)


@MEDIA.plants()
def damaged_replicas_are_claimed(patch: Any) -> None:
    """A node names every log it has as whole, those found damaged too."""

    def whole(registrations: Any) -> dict[Any, tuple[int, ...]]:
        found: dict[Any, list[int]] = {}
        for log in registrations._replicas():
            found.setdefault(log.topic_id, []).append(log.topic_partition.partition)
        return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in found.items()}

    patch.setattr(Registrations, "whole_replicas", whole)


@MEDIA.plants()
def a_log_may_end_anywhere_after_a_kill(patch: Any) -> None:
    """Neither the checkpointed high watermark nor anything else says how far a log went (row 2)."""
    patch.setattr(Evidence, "must_reach", lambda evidence: evidence._recovery_point)


@MEDIA.plants()
def segments_that_are_gone_are_not_missed(patch: Any) -> None:
    """The list of segments is not read: a log that lost one seems to begin later, or to be compacted."""
    patch.setattr(recovery, "check_listed", lambda *_: None)


@MEDIA.plants()
def foreign_files_are_segments(patch: Any) -> None:
    """An empty file with an offset for a name is the active segment."""
    patch.setattr(recovery, "rename_impostors", lambda *_: None)
    patch.setattr(recovery, "drop_stray_segments", lambda *_: None)


@MEDIA.plants()
def leaders_believe_what_they_wrote(patch: Any) -> None:
    """A leader never reads again what its followers refuse again and again."""
    patch.setattr(LeaderState, "on_records_sent", lambda *_: False)


@MEDIA.plants()
def missing_files_fail_their_directory(patch: Any) -> None:
    """One partition's files are gone, and the node stops."""

    def fail(log: Log, what: str, error: OSError) -> None:
        failure = StorageFailure(f"could not {what} {log.directory}: {error}")
        log.go_offline(failure)
        log._hooks.on_failure(failure)
        raise failure

    patch.setattr(Log, "fail", fail)
    patch.setattr(PresenceLook, "complete", lambda look: None)


@MEDIA.plants()
def writes_may_end_anywhere(patch: Any) -> None:
    """A file that was cut under a running node goes on behind the cut, with a gap that looks like compaction's."""
    append = Segment.append

    def as_expected(segment: Segment, *arguments: Any) -> int:
        append(segment, *arguments)
        return segment.size

    patch.setattr(Segment, "append", as_expected)


@SECTORS.plants()
def unreadable_files_fail_their_directory(patch: Any) -> None:
    """A small file that the disk does not read takes its log directory offline, at each start again."""
    patch.setattr(small_file, "is_passing", lambda _error: True)
