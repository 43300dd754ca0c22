"""What a critical line of a node's log says, for a person: why the node ended, and what to do."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from typing import Final

_CONSOLE: Final = re.compile(r"\[critical *\] (.*)")
_FIELDS: Final = re.compile(r" +(?=[a-z_]+=)")
_FIELD: Final = re.compile(r"""\b(why|remedy)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)""")


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
