"""Lines as records."""

from __future__ import annotations

import json

import pytest
import typer

from minikafka.cli.lines import LineError
from minikafka.cli.record_format import record_as_json
from minikafka.cli.record_input import InputRecord, LineForm, parse_header, parse_json, reader_properties
from minikafka.client.records import ConsumerRecord

EVERY = LineForm(b"\t", b"\t", null=b"NULL")


@pytest.mark.parametrize(
    ("form", "line", "record"),
    [
        (LineForm(), b"a\tb", InputRecord(None, b"a\tb")),
        (LineForm(), b"", InputRecord(None, b"")),
        (LineForm(b","), b"k,v,w", InputRecord(b"k", b"v,w")),
        (LineForm(b",", null=b"-"), b"k,-", InputRecord(b"k", None)),
        (EVERY, b"h:1,i:NULL\tk\tv", InputRecord(b"k", b"v", (("h", b"1"), ("i", None)))),
        (EVERY, b"\tk\tv", InputRecord(b"k", b"v")),
        (EVERY, b"NULL\tNULL\tv", InputRecord(None, b"v")),
        (LineForm(headers_delimiter=b"|", headers_separator=b";", headers_key_separator=b"="), b"a=1;b=:|v",
         InputRecord(None, b"v", (("a", b"1"), ("b", b":")))),
    ],
)  # fmt: skip
def test_parts_of_a_line(form: LineForm, line: bytes, record: InputRecord) -> None:
    assert form.parse(line, 1) == record


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"v", r"line 7 has no headers delimiter '\\t': b'v'"),
        (b"h\tk\tv", "line 7 has a header without ':': b'h'"),
        (b"h:1\tv", r"line 7 has no key separator '\\t'"),
    ],
)
def test_a_line_that_lacks_a_part_is_named(line: bytes, message: str) -> None:
    with pytest.raises(LineError, match=message):
        EVERY.parse(line, 7)


def test_kafkas_properties() -> None:
    assert reader_properties(LineForm(), ["parse.key=true"]) == LineForm(b"\t")
    assert reader_properties(LineForm(), ["key.separator=,"]) == LineForm(), "as Kafka: only with parse.key"
    given = [
        "parse.headers=true",
        "headers.delimiter=|",
        "headers.separator=;",
        "headers.key.separator==",
        "null.marker=-",
    ]
    assert reader_properties(LineForm(b","), given) == LineForm(b",", b"|", b";", b"=", b"-")


@pytest.mark.parametrize("given", ["parse.keys=true", "parse.key"])
def test_other_properties_are_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not NAME=VALUE|not found; there are parse\.key"):
        reader_properties(LineForm(), [given])


@pytest.mark.parametrize(
    "record",
    [
        ConsumerRecord("t", 1, 42, 5, b"k", b"v", (("h", b"1"), ("none", None), ("x\udcff", b"\xff")), 3),
        ConsumerRecord("t", 0, 0, 0, None, None, (), 3),
        ConsumerRecord("t", 0, 0, 0, b"\xff", b"\x00", (), 3),
    ],
)
def test_what_consume_prints_is_read_again(record: ConsumerRecord) -> None:
    expected = InputRecord(record.key, record.value, record.headers, record.timestamp, record.partition)
    assert parse_json(record_as_json(record), 1) == expected


def test_json_that_a_person_writes() -> None:
    line = json.dumps({"value": {"n": "é"}, "headers": {"h": "1"}, "key": 5}, ensure_ascii=False).encode()
    assert parse_json(line, 1) == InputRecord(b"5", '{"n": "é"}'.encode(), (("h", b"1"),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 3 is no JSON"),
        (b"[]", "line 3 is no object with fields of headers, key, offset"),
        (b'{"valu": 1}', "line 3 is no object with fields"),
        (b'{"value": {"base64": "?"}}', r"line 3 cannot be a record \(base64"),
        (b'{"headers": [1]}', "line 3 cannot be a record"),
        (b'{"headers": [[1, "x"]]}', "a header's name is no text"),
        (b'{"timestamp": "now"}', "timestamp and partition are whole numbers"),
        (b'{"partition": -1}', "timestamp and partition are whole numbers"),
    ],
)
def test_json_that_is_no_record_is_named(line: bytes, message: str) -> None:
    with pytest.raises(LineError, match=message):
        parse_json(line, 3)


@pytest.mark.parametrize(
    ("word", "header"), [("a=1", ("a", b"1")), ("a:1", ("a", b"1")), ("a=b:c", ("a", b"b:c")), ("a=", ("a", b""))]
)
def test_a_header_of_every_record(word: str, header: tuple[str, bytes]) -> None:
    assert parse_header(word) == header


@pytest.mark.parametrize("word", ["a", "=1", ""])
def test_no_header_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
        parse_header(word)
