"""``minikafka log dump``: look into the files of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.output import fail, moment, print_json_line, print_line, text_or_base64
from minikafka.model import CLUSTER_METADATA_TOPIC, CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from minikafka.records.record import Record
    from minikafka.storage.disk import OsDisk
    from minikafka.storage.dump import DumpedBatch

    Explain = Callable[[Record], str]

_HEADERS_SHOWN: Final = 100

app = typer.Typer(no_args_is_help=True, help="Inspect the files of logs on disk: dump one, verify all.")


@app.command()
def dump(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SEGMENT...", help=".log, .index, .timeindex, .txnindex or .snapshot files.", show_default=False
        ),
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Print the records, too.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Verify the indexes against the batches, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each batch or entry as one line of JSON.")] = False,
) -> None:
    """Print the content of segment files and indexes. Exit code 1 if any is damaged.

    Changes nothing; safe on the files of a running broker.

    Examples:

    [bold]minikafka log dump ~/.minikafka/default/node-1/data/events-0/*.log[/]

    [bold]minikafka log dump --records 00000000000000000000.log | less[/]
    """
    from minikafka.cli.run import quiet_when_the_reader_leaves
    from minikafka.storage.disk import OsDisk

    problems = 0
    with quiet_when_the_reader_leaves():
        for file in files:
            if file.is_dir():
                fail(f"{file} is a directory; name the files in it: {file}/*.log")
            if not file.is_file():
                fail(f"{file}: file not found")
            if len(files) > 1 and not as_json:
                print_line(f"{file}:")
            is_empty = True
            for entry in _entries(OsDisk(), str(file), records, verify):
                is_empty = False
                problems += "problem" in entry
                (print_json_line if as_json else _print_entry)(entry)
            if is_empty and not as_json:
                print_line(f"no {_CONTENT.get(file.suffix, 'entries')}")
    if problems:
        fail(f"{problems} {'problem' if problems == 1 else 'problems'} found")


def _entries(disk: OsDisk, path: str, records: bool, verify: bool) -> Iterator[dict[str, Any]]:
    """What the file holds, an entry at a time; a problem is an entry too."""
    from minikafka.storage.index import DamagedIndexError
    from minikafka.storage.snapshots import DamagedSnapshotError

    kind = path.rpartition(".")[2]
    if kind not in _READERS:
        fail(f"{path}: unknown file type; the name must end in .log, .index, .timeindex, .txnindex or .snapshot")
    try:
        yield from _READERS[kind](disk, path, records, verify)
    except (DamagedIndexError, DamagedSnapshotError, ValueError) as error:
        yield {"problem": f"cannot be read: {error}"}


def _log_entries(disk: OsDisk, path: str, records: bool, verify: bool) -> Iterator[dict[str, Any]]:
    from minikafka.storage.dump import Damage, dump_log, index_problems

    for batch in dump_log(disk, path):
        if isinstance(batch, Damage):
            yield {"problem": f"damaged from byte {batch.position} on: {batch.why}"}
        else:
            yield from _batch(batch, records, _explainer(path))
    if verify:
        yield from ({"problem": problem} for problem in index_problems(disk, path))


def _index_entries(disk: OsDisk, path: str, *_: bool) -> Iterator[dict[str, Any]]:
    from minikafka.storage.dump import dump_offset_index

    yield from (entry._asdict() for entry in dump_offset_index(disk, path))


def _time_index_entries(disk: OsDisk, path: str, *_: bool) -> Iterator[dict[str, Any]]:
    from minikafka.storage.dump import dump_time_index

    yield from (entry._asdict() for entry in dump_time_index(disk, path))


def _transaction_index_entries(disk: OsDisk, path: str, *_: bool) -> Iterator[dict[str, Any]]:
    from minikafka.storage.dump import dump_transaction_index

    yield from (entry._asdict() for entry in dump_transaction_index(disk, path))


def _producer_entries(disk: OsDisk, path: str, *_: bool) -> Iterator[dict[str, Any]]:
    from minikafka.storage.dump import dump_producers

    names = ("producer_id", "epoch", "last_timestamp", "coordinator_epoch", "current_txn_first_offset")
    yield from ({name: getattr(producer, name) for name in names} for producer in dump_producers(disk, path))


_READERS: Final[dict[str, Callable[[OsDisk, str, bool, bool], Iterator[dict[str, Any]]]]] = {
    "log": _log_entries,
    "index": _index_entries,
    "timeindex": _time_index_entries,
    "txnindex": _transaction_index_entries,
    "snapshot": _producer_entries,
}


_CONTENT: Final = {".log": "batches", ".snapshot": "producers"}


def _explainer(path: str) -> Explain:
    """What says, of records of the cluster's own topics, what they mean; of others, nothing."""
    topic = Path(path).absolute().parent.name.rpartition("-")[0]
    return _EXPLAINERS.get(topic, lambda record: "")


def _explain_metadata(record: Record) -> str:
    from minikafka.metadata.records import decode_record

    return repr(decode_record(record.value or b""))


def _explain_offsets(record: Record) -> str:
    from minikafka.groups.records import decode_record

    return repr(decode_record(record.key or b"", record.value))


def _explain_transactions(record: Record) -> str:
    from minikafka.transactions.records import decode_record

    return repr(decode_record(record.key or b"", record.value))


def _explain_control(record: Record) -> str:
    from minikafka.records.control import control_type, parse_end_txn_marker

    marker = parse_end_txn_marker(record)
    by = "" if marker is None else f", coordinator epoch {marker.coordinator_epoch}"
    return f"control record: {control_type(record).name}{by}"


_EXPLAINERS: Final[dict[str, Explain]] = {
    CLUSTER_METADATA_TOPIC: _explain_metadata,
    CONSUMER_OFFSETS_TOPIC: _explain_offsets,
    TRANSACTION_STATE_TOPIC: _explain_transactions,
}


def _batch(batch: DumpedBatch, with_records: bool, explain: Explain) -> Iterator[dict[str, Any]]:
    from minikafka.errors import KafkaError

    header, marker = batch.header, batch.marker()
    ends = {} if marker is None else {"marker": "commit" if marker.is_commit else "abort"}
    yield {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "position": batch.position,
        "size": header.size_in_bytes,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "max_timestamp": header.max_timestamp,
        "compression": header.compression.name.lower(),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        **ends,
        "crc_valid": batch.is_valid,
    }
    if not batch.is_valid:
        yield {"problem": f"wrong checksum: batch at byte {batch.position}"}
    elif with_records:
        try:
            for record in batch.records():
                yield _record(record, _explain_control if header.is_control else explain)
        except KafkaError as error:
            yield {"problem": error.message}


def _record(record: Record, explain: Explain) -> dict[str, Any]:
    explained, headers = _or_why_not(explain, record), record.headers
    is_told = explain is _explain_metadata  # all but keys of users, which people would show to others with the rest
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_or_base64(record.key),
        "value": None if is_told else text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in headers[:_HEADERS_SHOWN]],
        **({"header_count": len(headers)} if len(headers) > _HEADERS_SHOWN else {}),
    } | ({"meaning": explained} if explained else {})


def _or_why_not(explain: Explain, record: Record) -> str:
    from minikafka.wire.errors import WireError

    try:
        return explain(record)
    except (ValueError, WireError) as error:
        return f"cannot be read: {error}"


def _print_entry(entry: dict[str, Any]) -> None:
    if "problem" in entry:
        print_line(f"!! {entry['problem']}")
    elif "base_offset" in entry:
        print_line(_batch_line(entry))
    elif "key" in entry:
        headers = f"  headers {entry['headers']}" if entry["headers"] else ""
        if "header_count" in entry:
            headers += f", the first {_HEADERS_SHOWN} of {entry['header_count']}"
        content = entry.get("meaning") or f"{entry['key']!r}: {entry['value']!r}{headers}"
        print_line(f"    {entry['offset']}  {moment(entry['timestamp'])}  {content}")
    else:
        print_line("  ".join(f"{name} {value}" for name, value in entry.items()))


def _batch_line(entry: dict[str, Any]) -> str:
    parts = [
        f"offsets {entry['base_offset']}-{entry['last_offset']}",
        f"byte {entry['position']}+{entry['size']}",
        f"{entry['records']} record{'' if entry['records'] == 1 else 's'}",
        f"epoch {entry['leader_epoch']}",
        moment(entry["max_timestamp"]),
    ]
    if entry["compression"] != "none":
        parts.append(entry["compression"])
    if entry["producer_id"] >= 0:
        parts.append(f"producer {entry['producer_id']}/{entry['producer_epoch']} seq {entry['base_sequence']}")
    parts += [name for name in ("transactional", "control") if entry[name]]
    if "marker" in entry:
        parts.append(entry["marker"])
    return "  ".join(parts)
