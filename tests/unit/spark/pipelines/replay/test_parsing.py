from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from minikafka.spark.pipelines.replay.parsing import Record, read_records


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def test_csv_rows_are_json_unless_a_column_is_chosen(tmp_path: Path) -> None:
    path = written(tmp_path / "users.csv", "id,name", '1,"Ann, the\nfirst"', "", "2,Bo")
    assert list(read_records(path, "csv", None, None)) == [
        Record(None, b'{"id":"1","name":"Ann, the\\nfirst"}'),
        Record(None, b'{"id":"2","name":"Bo"}'),
    ]
    assert list(read_records(path, "csv", "id", "name")) == [Record(b"1", b"Ann, the\nfirst"), Record(b"2", b"Bo")]


def test_lines_of_json_are_kept_as_they_are(tmp_path: Path) -> None:
    lines = ['{"user": "ann", "n":  1}', "", '{"user": null, "n": {"x": [1, 2]}}']
    path = written(tmp_path / "clicks.jsonl", *lines)
    assert list(read_records(path, "json", "user", None)) == [
        Record(b"ann", lines[0].encode()),
        Record(None, lines[2].encode()),
    ]
    assert [record.value for record in read_records(path, "json", None, "n")] == [b"1", b'{"x":[1,2]}']


def test_lines_of_consume_keep_all(tmp_path: Path) -> None:
    line = {
        "topic": "t",
        "partition": 2,
        "offset": 5,
        "timestamp": 4711,
        "key": None,
        "value": {"base64": "/w=="},
        "headers": [["a", "1"], ["b", None]],
    }
    path = written(tmp_path / "all.jsonl", json.dumps(line), json.dumps({"value": None}))
    assert list(read_records(path, "records", None, None)) == [
        Record(None, b"\xff", [("a", b"1"), ("b", None)], 4711, 2),
        Record(None, None, []),
    ]


def test_compressed_files(tmp_path: Path) -> None:
    path = tmp_path / "clicks.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n{"a":2}'))
    assert [record.key for record in read_records(str(path), "json", "a", None)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("kind", "key", "lines", "told"),
    [
        ("json", None, ['{"a":1}', '{"a":'], "line 2: Expecting value at character 6: {"),
        ("json", None, ["[1]"], "line 1: not a JSON object: \\[1\\]"),
        ("json", "b", ['{"a":1}'], "line 1: field 'b' not found"),
        ("csv", "b", ["a,c", "1,2"], "column 'b' not found in .*; its columns are a, c"),
        ("csv", None, ["a,c", "1,2", "1"], "line 3: 1 fields, but the header line has 2"),
        ("json", None, ["[" * 100_000], "line 1: "),
        ("csv", "a", ["a,a", "1,2"], "has two columns 'a'; rename one"),
        ("csv", None, ["a,c", '1,"2', "3,4"], "line 3: unexpected end of data"),
        ("records", None, ["[1]"], "line 1: not a JSON object: \\[1\\]"),
        ("records", None, ['{"key":"a"}'], "line 1: field 'value' not found"),
        ("records", None, ['{"value":5}'], 'line 1: 5 is neither text nor {"base64": ...}'),
        (
            "records",
            None,
            ['{"value":"a","timestamp":9999999999999999}'],
            "line 1: the field 'timestamp' is 9{16}, which",
        ),
        ("records", None, ['{"value":"a","timestamp":"x"}'], "line 1: the field 'timestamp' is 'x', which cannot be"),
        (
            "records",
            None,
            ['{"value":"a","partition":2147483648}'],
            "line 1: the field 'partition' is 2147483648, which",
        ),
        ("records", None, ['{"value":"a","partition":-1}'], "line 1: the field 'partition' is -1, which"),
        ("records", None, ['{"value":"a","headers":[["\\udcff","b"]]}'], "line 1: .*surrogates not allowed"),
        ("records", None, ['{"value":"a","headers":[["a"]]}'], "line 1: a header is a list of a name and a value, not"),
        ("records", None, ['{"value":{"base64":"?"}}'], "line 1: "),
    ],
)
def test_what_is_no_record_is_named_by_its_line(
    tmp_path: Path, kind: str, key: str | None, lines: list[str], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        list(read_records(written(tmp_path / "file", *lines), kind, key, None))


@pytest.mark.parametrize(
    ("name", "kind", "data", "told"),
    [
        ("a.jsonl", "json", b'{"a":1}\n{"a":"\xff"}\n', "a.jsonl, line 2: not UTF-8 text"),
        ("a.csv", "csv", b"a,b\n1,2\n\xff,2\n", "a.csv, line 3: not UTF-8 text"),
        (
            "a.jsonl.gz",
            "json",
            gzip.compress(b'{"a":1}\n' * 1000, mtime=0)[:-9],
            r"a.jsonl.gz cannot be read behind line \d+: Compressed file ended",
        ),
        ("a.jsonl.gz", "json", b'{"a":1}\n', "a.jsonl.gz cannot be read behind line 0: Not a gzipped file"),
    ],
)
def test_a_file_that_is_no_text_is_named_too(tmp_path: Path, name: str, kind: str, data: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=told):
        list(read_records(str(tmp_path / name), kind, None, None))


def test_what_spreadsheets_write(tmp_path: Path) -> None:
    """A byte order mark, ends of lines of their own, cells of any length."""
    path, long = tmp_path / "users.csv", "x" * 200_000
    path.write_bytes(f"\ufeffid,name\r\n1,{long}\r\n".encode())
    assert list(read_records(str(path), "csv", "id", "name")) == [Record(b"1", long.encode())]
