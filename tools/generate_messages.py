"""Write ``minikafka/wire/messages/*.py`` from Kafka's message schemas.

    python tools/generate_messages.py            # rewrite the package
    python tools/generate_messages.py --check    # exit 1 when a committed file differs

The schemas (field names, types and version ranges) are read from the JSON files that the development
dependency kafka-python packages; the output is deterministic and formatted as ``ruff format`` would.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "minikafka" / "wire" / "messages"
WIDTH = 120

APIS = (
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterReplicaLogDirs",
    "ApiVersions",
    "CreatePartitions",
    "CreateTopics",
    "DeleteGroups",
    "DeleteRecords",
    "DeleteTopics",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "ElectLeaders",
    "Fetch",
    "FindCoordinator",
    "Heartbeat",
    "IncrementalAlterConfigs",
    "InitProducerId",
    "JoinGroup",
    "LeaveGroup",
    "ListGroups",
    "ListOffsets",
    "ListPartitionReassignments",
    "Metadata",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
    "Produce",
    "SaslAuthenticate",
    "SaslHandshake",
    "SyncGroup",
    "UnregisterBroker",
)

UNPACKAGED: dict[str, dict[str, Any]] = {
    "UnregisterBrokerRequest": {
        "apiKey": 64,
        "fields": [{"name": "BrokerId", "type": "int32", "versions": "0+"}],
    },
    "UnregisterBrokerResponse": {
        "apiKey": 64,
        "fields": [
            {"name": "ThrottleTimeMs", "type": "int32", "versions": "0+"},
            {"name": "ErrorCode", "type": "int16", "versions": "0+"},
            {"name": "ErrorMessage", "type": "string", "versions": "0+", "nullableVersions": "0+"},
        ],
    },
}
"""Schemas that kafka-python does not package (KIP-500's own), all of version 0; the tests hold them against kio."""

ANNOTATIONS = {
    "bool": "bool",
    "bytes": "bytes",
    "float64": "float",
    "int16": "int",
    "int32": "int",
    "int64": "int",
    "int8": "int",
    "records": "Buffer",
    "string": "str",
    "uint16": "int",
    "uuid": "UUID",
}
ZEROS = {"bool": "False", "bytes": 'b""', "float64": "0.0", "records": 'b""', "string": '""', "uuid": "ZERO_UUID"}


def load_schema(name: str) -> dict[str, Any]:
    """One schema as a dictionary; its ``//`` comments are removed first."""
    if name in UNPACKAGED:
        return {"name": name, "validVersions": "0", "flexibleVersions": "0+", **UNPACKAGED[name]}
    spec = find_spec("kafka")
    if spec is None or spec.origin is None:
        raise SystemExit("kafka-python is not installed: pip install -e '.[dev]'")
    path = Path(spec.origin).parent / "protocol" / "schemas" / "resources" / f"{name}.json"
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    schema: dict[str, Any] = json.loads(text)
    return schema


def snake_case(name: str) -> str:
    """``MaxWaitMs`` -> ``max_wait_ms``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def spread(opening: str, items: list[str], closing: str, indent: str, keep_apart: bool = True) -> list[str]:
    """Lay out a bracketed list: one item a line, or all on one line when that is what the formatter would do."""
    if len(items) == 1 or not keep_apart:
        comma = "," if keep_apart else ""
        flat = f"{indent}{opening}{', '.join(items)}{comma}{closing}"
        if len(flat) <= WIDTH:
            return [flat]
        inner = f"{indent}    {', '.join(items)}"
        if not keep_apart and len(inner) <= WIDTH:
            return [f"{indent}{opening}", inner, f"{indent}{closing}"]
    return [f"{indent}{opening}", *(f"{indent}    {item}," for item in items), f"{indent}{closing}"]


class Field:
    """A field of a schema, with the Python it becomes."""

    def __init__(self, raw: dict[str, Any], struct_names: dict[str, str]) -> None:
        self.raw = raw
        self.name = snake_case(raw["name"])
        kind: str = raw["type"]
        self.array = kind.startswith("[]")
        kind = kind.removeprefix("[]")
        self.struct = kind not in ANNOTATIONS
        self.kind = struct_names[kind] if self.struct else kind
        self.tagged: str = raw.get("taggedVersions", "")
        self.nullable: str = raw.get("nullableVersions", "")
        self.null_default = str(raw.get("default")) == "null"

    @property
    def maybe_none(self) -> bool:
        """True when the attribute may hold None."""
        return bool(self.nullable) or (self.struct and not self.array)

    @property
    def annotation(self) -> str:
        """The attribute's type."""
        base = ANNOTATIONS.get(self.kind, self.kind)
        base = f"list[{base}]" if self.array else base
        return f"{base} | None" if self.maybe_none else base

    @property
    def default(self) -> str:
        """The default as Python source; ``EMPTY`` stands for a new list."""
        if self.null_default or (self.struct and not self.array):
            return "None"
        if self.array:
            return "EMPTY"
        value = self.raw.get("default")
        if value is None:
            return ZEROS.get(self.kind, "0")
        if self.kind == "bool":
            return str(str(value).lower() == "true")
        if self.kind == "string":
            return json.dumps(value)
        return str(int(str(value), 0))

    def declaration(self) -> list[str]:
        """The ``F(...)`` row."""
        kind = self.kind if self.struct else f'"{self.kind}"'
        items = [f'"{self.name}"', kind, f'"{self.raw["versions"]}"']
        if self.array:
            items.append("array=True")
        if self.nullable:
            items.append(f'nullable="{self.nullable}"')
        if self.tagged:
            items += [f"tag={self.raw['tag']}", f'tagged="{self.tagged}"']
        if self.default not in ("None", "EMPTY", ZEROS.get(self.kind, "0")):
            items.append(f"default={self.default}")
        if self.null_default:
            items.append("null_default=True")
        rows = spread("F(", items, ")", " " * 8, keep_apart=False)
        rows[-1] += ","
        return rows


def struct_source(name: str, doc: str, fields: list[Field], versions: str, flexible: str) -> list[str]:
    """One class."""
    lines = ["", "", f"class {name}(Message):", f'    """{doc}"""', ""]
    lines += spread("__slots__ = (", [f'"{name}"' for name in sorted(field.name for field in fields)], ")", "    ")
    declarations = [field.declaration() for field in fields]
    if len(fields) == 1 and len(declarations[0]) == 1:
        row = declarations[0][0].strip().rstrip(",")
        lines += spread("SCHEMA: ClassVar[tuple[F, ...]] = (", [row], ")", "    ")
    else:
        lines += ["    SCHEMA: ClassVar[tuple[F, ...]] = (", *(row for rows in declarations for row in rows), "    )"]
    lines += [f'    VERSIONS: ClassVar[str] = "{versions}"', f'    FLEXIBLE: ClassVar[str] = "{flexible}"', ""]
    parameters = ["self", "*", *(f"{field.name}: {field.annotation} = {field.default}" for field in fields)]
    lines += ["    def __init__(", *(f"        {parameter}," for parameter in parameters), "    ) -> None:"]
    for field in fields:
        value = f"[] if {field.name} is EMPTY else {field.name}" if field.default == "EMPTY" else field.name
        lines.append(f"        self.{field.name} = {value}")
    return lines


class MessageWriter:
    """Writes the classes of one message, structs before their users."""

    def __init__(self, schema: dict[str, Any], struct_names: dict[str, str], written: set[str]) -> None:
        self.schema = schema
        self.struct_names = struct_names
        self.written = written
        self.commons = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}

    def lines(self) -> list[str]:
        """The source of the message and of its structs."""
        name, versions = self.schema["name"], self.schema["validVersions"]
        lines = self.nested(self.schema["fields"], name)
        return lines + self.struct(name, f"{name}, versions {versions}.", self.schema["fields"])

    def nested(self, fields: list[dict[str, Any]], owner: str) -> list[str]:
        """The source of the structs that `fields` name."""
        lines: list[str] = []
        for raw in fields:
            kind = raw["type"].removeprefix("[]")
            if kind in ANNOTATIONS or self.struct_names[kind] in self.written:
                continue
            self.written.add(self.struct_names[kind])
            name = self.struct_names[kind]
            members = raw.get("fields") or self.commons[kind]
            lines += self.nested(members, name)
            role = "An element" if raw["type"].startswith("[]") else "The value"
            lines += self.struct(name, f"{role} of {owner}.{snake_case(raw['name'])}.", members)
        return lines

    def struct(self, name: str, doc: str, fields: list[dict[str, Any]]) -> list[str]:
        """The source of one class."""
        columns = [Field(raw, self.struct_names) for raw in fields]
        return struct_source(name, doc, columns, self.schema["validVersions"], self.schema["flexibleVersions"])


def struct_shapes(schema: dict[str, Any]) -> dict[str, str]:
    """The structs of a schema by name, each with a text that two equal structs share."""
    shapes: dict[str, str] = {}

    def shape(raw: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in raw.items() if key != "about"}

    def walk(fields: list[dict[str, Any]]) -> None:
        for raw in fields:
            if "fields" in raw:
                shapes[raw["type"].removeprefix("[]")] = json.dumps([shape(member) for member in raw["fields"]])
                walk(raw["fields"])

    walk([*schema["fields"], *({"type": struct["name"], **struct} for struct in schema.get("commonStructs", []))])
    return shapes


def name_structs(schemas: list[dict[str, Any]], api: str) -> list[dict[str, str]]:
    """Python names of the structs of each message of one API.

    They keep Kafka's names; a name that both messages give to different structs gets the message's kind
    (Request, Response, ...) in front.
    """
    shapes = [struct_shapes(schema) for schema in schemas]
    names = []
    for schema, own in zip(schemas, shapes, strict=True):
        kind = schema["name"].removeprefix(api)
        clashing = {name for other in shapes for name in own if other.get(name, own[name]) != own[name]}
        names.append({name: f"{kind}{name}" if name in clashing else name for name in own})
    return names


def module_source(api: str, kinds: tuple[str, str]) -> str:
    """One file: the two messages of an API."""
    schemas = [load_schema(api + kind) for kind in kinds]
    written: set[str] = set()
    body: list[str] = []
    for schema, struct_names in zip(schemas, name_structs(schemas, api), strict=True):
        body += MessageWriter(schema, struct_names, written).lines()
    text = "\n".join(body)
    key = f"API key {schemas[0]['apiKey']}, " if "apiKey" in schemas[0] else ""
    versions, flexible = schemas[0]["validVersions"], schemas[0]["flexibleVersions"]
    doc = f"{api}: {key}versions {versions}, flexible {flexible}."
    names = ["F", "Message", *(name for name in ("Buffer", "EMPTY", "ZERO_UUID") if re.search(rf"\b{name}\b", text))]
    names.sort(key=lambda name: (not name.isupper() or len(name) == 1, name))
    head = [f'"""{doc}', "", "Generated by tools/generate_messages.py; do not edit.", '"""', ""]
    head += ["from __future__ import annotations", "", "from typing import ClassVar"]
    if re.search(r": UUID\b|\[UUID\]", text):
        head.append("from uuid import UUID")
    head += ["", f"from minikafka.wire.schema import {', '.join(names)}"]
    return "\n".join(head) + "\n" + text + "\n"


def generate() -> dict[str, str]:
    """File name -> content."""
    files = {f"{snake_case(api)}.py": module_source(api, ("Request", "Response")) for api in APIS}
    files["consumer_protocol.py"] = module_source("ConsumerProtocol", ("Subscription", "Assignment"))
    return files


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` only name those that differ."""
    stale = 0
    for name, content in generate().items():
        path = OUTPUT / name
        if path.exists() and path.read_text() == content:
            continue
        stale += 1
        if "--check" in arguments:
            print(f"{path} differs from what the generator writes")
        else:
            path.write_text(content)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
