"""What a node's log says, for a person: why the node ended, and what to do."""

from __future__ import annotations

import json
import re
import shutil
from ast import literal_eval
from typing import Final

from minikafka.chaos.layout import ClusterLayout

_CONSOLE: Final = re.compile(r"\[critical *\] (.*)")
_FIELDS: Final = re.compile(r" +(?=[a-z_]+=)")
_FIELD: Final = re.compile(r"""\b(why|remedy)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)""")

_LOG_SIZE_MAX: Final = 16 << 20
_LINES_SHOWN: Final = 15
_LINE: Final = re.compile(r"\d{4}-\d\d-\d\dT|\{")
_STOPPED: Final = re.compile(r"\[info +\] stopped\b|\"event\": \"stopped\"")
_DISK_FULL_BYTES: Final = 4096  # less is not a block


def reason(line: str) -> str | None:
    """``the node stops: no space left on device; make room``; None when the line is not critical."""
    if line.startswith("{"):  # logging.format=json
        try:
            said = json.loads(line)
        except ValueError:
            return None
        if not isinstance(said, dict) or said.get("level") != "critical":
            return None
        event, fields = str(said.get("event")), said
    elif found := _CONSOLE.search(line):
        event = _FIELDS.split(found[1], maxsplit=1)[0].rstrip()
        fields = {name: _value(text) for name, text in _FIELD.findall(found[1])}
    else:
        return None
    why, remedy = fields.get("why"), fields.get("remedy")
    return event + (f": {why}" if why else "") + (f"; {remedy}" if remedy else "")


def _value(text: str) -> str:
    return str(literal_eval(text)) if text[0] in "'\"" else text


def begin_log(layout: ClusterLayout, node_id: int) -> None:
    """Before a start: the log exists, is not too long, and where the new lines begin is known."""
    log_file = layout.log_file(node_id)
    if log_file.exists() and log_file.stat().st_size > _LOG_SIZE_MAX:
        log_file.rename(log_file.with_suffix(".log.1"))
    with log_file.open("ab") as log:
        layout.log_start_file(node_id).write_text(f"{log.tell()}\n")


def last_words(layout: ClusterLayout, node_id: int) -> str | None:
    """Why the node ended: its last critical line, its last line if that is no log line, or the lack of either.

    None when it stopped in order, or has never run.
    """
    try:
        lines = _run_log(layout, node_id)
    except PermissionError as error:
        return f"why, its log would tell: {error.filename}: {error.strerror}"
    if lines is None:
        return None
    for line in reversed(lines):
        if (said := reason(line)) is not None:
            return said
    if not lines:
        free = shutil.disk_usage(layout.directory).free
        return "without a line in its log" + ("; the disk is full" if free < _DISK_FULL_BYTES else "")
    if not _LINE.match(lines[-1]):
        return lines[-1]
    return None if _STOPPED.search(lines[-1]) else "killed by SIGKILL, it seems: its log ends without a reason"


def last_log_lines(layout: ClusterLayout, node_id: int, count: int = _LINES_SHOWN) -> str:
    """The end of the log of its last run."""
    return "\n".join("  " + line for line in (_run_log(layout, node_id) or [])[-count:])


def _run_log(layout: ClusterLayout, node_id: int) -> list[str] | None:
    """The lines of the node's log since it was started last; None if it never was."""
    try:
        start = int(layout.log_start_file(node_id).read_text())
        with layout.log_file(node_id).open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace").splitlines()
    except (FileNotFoundError, ValueError):
        return None
