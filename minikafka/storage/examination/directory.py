"""A log directory: its owner, its own files, the directories in it, and each log."""

from __future__ import annotations

from minikafka.storage.checkpoints import CHECKPOINT_FILES
from minikafka.storage.directory_names import parse_directory_name
from minikafka.storage.disk import Disk
from minikafka.storage.examination.facts import DirectoryFacts, read_facts
from minikafka.storage.examination.findings import Findings
from minikafka.storage.examination.partition import examine_partition
from minikafka.storage.found import find_directories
from minikafka.storage.meta import META_FILE, MetaError, read_meta


def is_log_directory(disk: Disk, path: str) -> bool:
    """It has the file that names its owner, or a checkpoint file."""
    return any(disk.exists(f"{path}/{name}") for name in (META_FILE, *CHECKPOINT_FILES))


def examine_directory(
    disk: Disk, path: str, boot_id: str | None, findings: Findings, *, decodes: bool = False
) -> DirectoryFacts:
    """Look at every log in a log directory, and at the directory's own files. OSError when it cannot be read."""
    facts = read_facts(disk, path, boot_id, findings)
    _check_owner(disk, path, findings)
    found = find_directories(disk, path)
    for tp, why in found.unusable.items():
        findings.damage(f"{path}/{tp}", f"no log, though it has the name of one: {why}")
    for stray in found.strays:
        findings.note(stray, "set aside: metadata did not place it here")
    if not facts.is_running:
        for deleted in found.deleted:
            findings.note(deleted, "deleted; a start removes it")
        _check_missing(path, facts, {*found.logs, *found.unusable}, findings)
    for tp in found.logs:
        try:
            examine_partition(disk, f"{path}/{tp}", tp, facts, findings, decodes=decodes)
        except FileNotFoundError:
            if not facts.is_running:
                raise
            findings.note(f"{path}/{tp}", "went away while it was to be read")
    return facts


def _check_owner(disk: Disk, path: str, findings: Findings) -> None:
    try:
        if read_meta(disk, path) is None:
            findings.damage(f"{path}/{META_FILE}", "missing: whose directory it is is not known, and no node takes it")
    except MetaError as error:
        findings.damage(f"{path}/{META_FILE}", f"{error}")


def _check_missing(path: str, facts: DirectoryFacts, there: set[object], findings: Findings) -> None:
    """Logs that the checkpoints mention, with records, and that are not there."""
    known = {tp: max(facts.recovery_points.get(tp, 0), at) for tp, at in facts.high_watermarks.items()}
    known = dict(facts.recovery_points) | known
    for tp, offset in sorted(known.items()):
        if tp not in there and offset > 0 and parse_directory_name(str(tp)) is not None:
            findings.damage(f"{path}/{tp}", f"missing: the log had records up to offset {offset}", offset=offset)
