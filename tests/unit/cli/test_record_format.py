"""Records as lines."""

from __future__ import annotations

import json

import pytest
import typer

from minikafka.cli.record_format import (
    FIELDS,
    Printed,
    fields_line,
    for_a_terminal,
    format_line,
    print_properties,
    record_as_json,
    unescaped,
)
from minikafka.client.records import ConsumerRecord


def record(key: bytes | None = b"k", value: bytes | None = b"v") -> ConsumerRecord:
    return ConsumerRecord("t", 1, 42, 1700000000000, key, value, (("h", b"1"), ("none", None)), 3)


def test_a_line_is_the_value_or_more() -> None:
    """null is written as Kafka's console consumer writes it."""
    line, keyed = fields_line(Printed()), fields_line(Printed(frozenset({"key", "value"})))
    assert (line(record()), line(record(value=None))) == (b"v\n", b"null\n")
    assert (keyed(record()), keyed(record(key=None))) == (b"k\tv\n", b"null\tv\n")


def test_all_fields_in_kafkas_order() -> None:
    every = fields_line(Printed(frozenset(FIELDS), separator=b"|"))
    expected = b"CreateTime:1700000000000|Partition:1|Offset:42|Epoch:3|h:1,none:null|k|v\n"
    assert every(record()) == expected
    assert b"|NO_HEADERS|" in every(record()._replace(headers=()))


def test_kafkas_properties() -> None:
    given = ["print.key=true", "print.value=false", "print.offset=TRUE", "key.separator=\\t-", "null.literal=nil"]
    line = fields_line(print_properties(Printed(), [*given, "line.separator=;"]))
    assert line(record(key=None)) == b"Offset:42\t-nil;"


@pytest.mark.parametrize("given", ["print.keys=true", "print.key", "schema.registry.url=x"])
def test_other_properties_are_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not NAME=VALUE|not found; there are print\.timestamp"):
        print_properties(Printed(), [given])


def test_a_format_as_kcats() -> None:
    line = format_line(r"%t [%p] %o %k=%s %h %T %K %S 100%%\n\x41")
    assert line(record()) == b"t [1] 42 k=v h:1,none:null 1700000000000 1 1 100%\nA"
    assert format_line("%k %K")(record(key=None)) == b"null -1"
    with pytest.raises(typer.BadParameter, match="%q not found; there are %t, %p"):
        format_line("%q")


def test_a_json_line_has_everything() -> None:
    assert json.loads(record_as_json(record())) == {
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "timestamp": 1700000000000,
        "key": "k",
        "value": "v",
        "headers": [["h", "1"], ["none", None]],
    }


def test_the_name_of_a_header_may_be_no_text() -> None:
    line = record_as_json(record()._replace(headers=(("h\udcff", b"1"),)))  # as a byte 0xff in it is decoded
    assert json.loads(line)["headers"] == [["h\udcff", "1"]]
    assert b"\\udcff" in line


@pytest.mark.parametrize(("data", "shown"), [(None, None), ("né".encode(), "né"), (b"\xff", {"base64": "/w=="})])
def test_bytes_that_are_no_text_are_base64(data: bytes | None, shown: object) -> None:
    assert json.loads(record_as_json(record(value=data)))["value"] == shown


def test_a_terminal_gets_no_control_characters() -> None:
    """Text, tabs and line ends stay; a record must not move the cursor, or worse."""
    assert for_a_terminal("é\t1\n".encode()) == "é\t1\n".encode()
    assert for_a_terminal(b"\xff\x1b[2J\x00\r\n") == rb"\xff\x1b[2J\x00\x0d" + b"\n"


@pytest.mark.parametrize(("text", "data"), [(r"\t", b"\t"), (r"\x1f", b"\x1f"), (r"\q", rb"\q"), ("é", "é".encode())])
def test_escapes(text: str, data: bytes) -> None:
    assert unescaped(text) == data
