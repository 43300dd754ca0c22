from __future__ import annotations

import json

import pytest

from minikafka.cli.consume import _json_line, _key_and_value_line, _value_line
from minikafka.client.records import ConsumerRecord


def record(key: bytes | None = b"k", value: bytes | None = b"v") -> ConsumerRecord:
    return ConsumerRecord("t", 1, 42, 1700000000000, key, value, (("h", b"1"), ("none", None)), 3)


def test_a_line_is_the_value_or_key_tab_value() -> None:
    assert _value_line(record()) == b"v\n"
    assert _value_line(record(value=None)) == b"\n"
    assert _key_and_value_line(record()) == b"k\tv\n"
    assert _key_and_value_line(record(key=None)) == b"\tv\n"


def test_a_json_line_has_everything() -> None:
    assert json.loads(_json_line(record())) == {
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "timestamp": 1700000000000,
        "key": "k",
        "value": "v",
        "headers": [["h", "1"], ["none", None]],
    }


def test_the_name_of_a_header_may_be_no_text() -> None:
    line = _json_line(record()._replace(headers=(("h\udcff", b"1"),)))  # as a byte 0xff in it is decoded
    assert json.loads(line)["headers"] == [["h\udcff", "1"]]
    assert b"\\udcff" in line


@pytest.mark.parametrize(("data", "shown"), [(None, None), ("né".encode(), "né"), (b"\xff", {"base64": "/w=="})])
def test_bytes_that_are_no_text_are_base64(data: bytes | None, shown: object) -> None:
    assert json.loads(_json_line(record(value=data)))["value"] == shown
