"""``minikafka group reset-offsets``: where a group is to go on, with the options of ``kafka-consumer-groups.sh``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn

import typer

from minikafka.cli.describing import EARLIEST, LATEST
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Target, Timeout, target
from minikafka.cli.output import print_json, print_line, print_note, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.model import TopicPartition

COLUMNS: Final = ("topic", "partition#", "old#", "new#")
_DURATION: Final = re.compile(r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?")
_SECONDS: Final = (86_400, 3600, 60, 1)

Offsets = Mapping["TopicPartition", int]


class To(NamedTuple):
    """Where to: an offset of the log (also by its time, in ms), a fixed offset, or one that is relative to the old."""

    at: int | None = None  # EARLIEST, LATEST or a time
    offset: int | None = None
    shift: int | None = None
    """With none of the three the offset stays; partitions without one get the end."""


class Known(NamedTuple):
    """What the cluster says of the partitions."""

    committed: Offsets
    first: Offsets
    end: Offsets
    at_time: Offsets  # -1 where no record is that young


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="T[:P,...]", help="Topic, or some of its partitions; may be repeated."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic of which the group has an offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The first offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", help="This offset.", min=0, show_default=False)
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="N further; back if N < 0.", show_default=False)
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="TIME", help="First record since, as 2026-01-31T12:00:00; UTC."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="SPAN", help="First record since that long ago, as PT1H30M.")
    ] = None,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where the group is; the end where it is nowhere.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Change the offsets, do not only show them.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change: the default.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show where a group without members would go on; with --execute, change it.

    Examples:

    [bold]minikafka group reset-offsets readers --topic events --to-earliest --execute[/]

    [bold]minikafka group reset-offsets readers --topic events:0,2 --shift-by -100[/]

    [bold]minikafka group reset-offsets readers --all-topics --by-duration PT1H[/]
    """
    ways = {
        "--to-earliest": To(at=EARLIEST) if to_earliest else None,
        "--to-latest": To(at=LATEST) if to_latest else None,
        "--to-offset": To(offset=to_offset) if to_offset is not None else None,
        "--shift-by": To(shift=shift_by) if shift_by is not None else None,
        "--to-datetime": To(at=parse_datetime(to_datetime)) if to_datetime is not None else None,
        "--by-duration": To(at=_now_ms() - parse_duration(by_duration)) if by_duration is not None else None,
        "--to-current": To() if to_current else None,
    }
    chosen = {name: to for name, to in ways.items() if to is not None}
    if len(chosen) != 1:
        _refuse(" / ".join(chosen or ways), "exclude each other" if chosen else "one of them says where to")
    if bool(topics) == all_topics:
        _refuse("--topic / --all-topics", "exclude each other" if all_topics else "one of them is needed")
    if execute and dry_run:
        _refuse("--execute / --dry-run", "exclude each other")
    (to,) = chosen.values()
    wanted = parse_topics(topics or [])
    cluster = target(bootstrap, directory)

    async def verb(admin: Admin) -> None:
        committed = await _committed(admin, group, cluster)
        partitions = await _partitions(admin, wanted, cluster) if wanted else sorted(committed)
        new, notes = new_offsets(to, partitions, await _known(admin, to, partitions, committed))
        for note in notes:
            print_note(note)
        if execute:
            await _commit(admin, group, new)
        _print(group, committed, new, executed=execute, as_json=as_json)

    run_with_admin(verb, cluster, timeout)


def new_offsets(
    to: To, partitions: Iterable[TopicPartition], known: Known
) -> tuple[dict[TopicPartition, int], list[str]]:
    """The offset of each partition, and a sentence for each that had to be moved into its log.

    KafkaError where there is no old offset to shift.
    """
    from minikafka.errors import ErrorCode, KafkaError

    new, notes = {}, []
    for tp in partitions:
        old, first, end = known.committed.get(tp), known.first[tp], known.end[tp]
        if to.offset is not None:
            wanted = to.offset
        elif to.shift is not None:
            if old is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{tp}: the group has no offset there to shift")
            wanted = old + to.shift
        elif to.at == EARLIEST:
            wanted = first
        elif to.at is None and old is not None:
            new[tp] = old
            continue
        else:
            at = known.at_time.get(tp, -1)
            wanted = at if at >= 0 else end
        new[tp] = min(max(wanted, first), end)
        if new[tp] != wanted:
            notes.append(f"{tp}: offset {wanted} not found: it has {first}..{end}; {new[tp]} is taken")
    return new, notes


def parse_topics(words: Iterable[str]) -> dict[str, list[int]]:
    """``T`` and ``T:0,1`` by topic; no partitions for all."""
    found: dict[str, list[int]] = {}
    for word in words:
        topic, separator, listed = word.partition(":")
        indexes = listed.split(",") if separator else []
        if not topic or not all(index.isascii() and index.isdigit() for index in indexes):
            _refuse("--topic", f"{word!r} is not TOPIC or TOPIC:PARTITION[,PARTITION...]")
        if topic in found:
            _refuse("--topic", f"{topic!r} is given twice")
        found[topic] = sorted({int(index) for index in indexes})
    return found


def parse_datetime(word: str) -> int:
    """ISO 8601 in ms since 1970; in UTC if it has no offset, as Kafka's."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        _refuse("--to-datetime", f"{word!r} is no time as 2026-01-31T12:00:00.000 or 2026-01-31T12:00:00+01:00")
    at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if at.year < 1970:
        _refuse("--to-datetime", f"{word!r} is before 1970")
    return round(at.timestamp() * 1000)


def parse_duration(word: str) -> int:
    """ISO 8601 as ``P1DT2H3M4.5S``, in ms; years and months have no fixed length."""
    found = _DURATION.fullmatch(word)
    if found is None:
        _refuse("--by-duration", f"{word!r} is no time span as PnDTnHnMnS: PT10M, PT1H30M, P7D")
    return round(sum(float(part) * s for part, s in zip(found.groups(), _SECONDS, strict=True) if part) * 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


async def _committed(admin: Admin, group: str, cluster: Target) -> dict[TopicPartition, int]:
    """What the group has committed, nothing for a new one. KafkaError when it has members, or is no consumer group."""
    from minikafka.errors import ErrorCode, KafkaError

    try:
        view = await admin.describe_group(group)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        print_note(
            f"group {group!r} is new: it has no offsets yet; {cluster.command('group list')} shows those that are"
        )
        return {}
    if view.members:
        clients = ", ".join(sorted({f"{member.client_id} ({member.client_host})" for member in view.members}))
        raise _busy(group, f"has members: {clients}")
    return {tp: at.offset for tp, at in (await admin.group_offsets(group)).items()}


def _busy(group: str, why: str) -> Exception:
    from minikafka.errors import ErrorCode, KafkaError

    return KafkaError(
        ErrorCode.NON_EMPTY_GROUP,
        f"group {group!r} {why}; they would go on where they are and commit that: stop them, then reset its offsets",
    )


async def _partitions(admin: Admin, wanted: Mapping[str, list[int]], cluster: Target) -> list[TopicPartition]:
    from minikafka.errors import ErrorCode, KafkaError
    from minikafka.model import TopicPartition

    found = []
    for view in await admin.describe_topics(sorted(wanted)):
        if view.error:
            hint = f"topic {view.name!r} not found; {cluster.command('topic list')} shows those that are there"
            raise KafkaError(view.error, hint)
        indexes = wanted[view.name] or sorted(view.partitions)
        for index in indexes:
            if index not in view.partitions:
                last = len(view.partitions) - 1
                message = f"partition {index} not found: topic {view.name!r} has partitions 0 to {last}"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            found.append(TopicPartition(view.name, index))
    return found


async def _known(admin: Admin, to: To, partitions: Iterable[TopicPartition], committed: Offsets) -> Known:
    async def ask(at: int) -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in (await admin.list_offsets(dict.fromkeys(partitions, at))).items()}

    at_time = await ask(to.at) if to.at is not None and to.at >= 0 else {}
    return Known(committed, await ask(EARLIEST), await ask(LATEST), at_time)


async def _commit(admin: Admin, group: str, new: Offsets) -> None:
    from minikafka.errors import ErrorCode, KafkaError

    try:
        await admin.alter_group_offsets(group, new)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise
        raise _busy(group, "has got members meanwhile") from None


def _print(group: str, old: Offsets, new: Offsets, *, executed: bool, as_json: bool) -> None:
    if as_json:
        rows: list[dict[str, Any]] = [
            {"topic": tp.topic, "partition": tp.partition, "old_offset": old.get(tp), "new_offset": offset}
            for tp, offset in new.items()
        ]
        print_json({"group": group, "executed": executed, "partitions": rows})
        return
    if not new:
        print_line(f"group {group!r} has no offsets; name topics with --topic")
        return
    print_table(COLUMNS, [(tp.topic, str(tp.partition), str(old.get(tp, "-")), str(at)) for tp, at in new.items()])
    print_line(f"changed group {group}" if executed else "dry run: nothing is changed; --execute changes it")
