"""``minikafka group reset-offsets``: where groups are to go on, with the options of ``kafka-consumer-groups.sh``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Groups, Target, Timeout, target
from minikafka.cli.output import escaped, print_json, print_line, print_note, print_table
from minikafka.cli.partitions import find_partitions
from minikafka.cli.run import run_with_admin
from minikafka.cli.times import parse_datetime, parse_duration
from minikafka.model import EARLIEST, LATEST

if TYPE_CHECKING:
    from minikafka.cli.reset_plan import Known, Offsets, To
    from minikafka.client import Admin
    from minikafka.model import TopicPartition

COLUMNS: Final = ("group", "topic", "partition#", "old#", "new#")


def reset_offsets(
    groups: Groups = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Every group.")] = False,
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
        str | None,
        typer.Option("--by-duration", metavar="SPAN", help="First record since that long ago, as PT1H30M or 90m."),
    ] = None,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where the group is; the end where it is nowhere.")
    ] = False,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="The offsets in this file, as --export prints them."),
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets, else the committed ones, as CSV for --from-file.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Change the offsets, do not only show them.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change: the default.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show where groups without members would go on; with --execute, change it.

    Examples:

    [bold]minikafka group reset-offsets readers --topic events --to-earliest --execute[/]

    [bold]minikafka group reset-offsets readers --topic events:0,2 --shift-by -100[/]

    [bold]minikafka group reset-offsets readers --all-topics --by-duration PT1H[/]

    [bold]minikafka group reset-offsets readers --all-topics --export > offsets.csv[/]

    [bold]minikafka group reset-offsets readers --from-file offsets.csv --execute[/]
    """
    from minikafka.cli.reset_plan import To, parse_topics

    ways = {
        "--to-earliest": To(at=EARLIEST) if to_earliest else None,
        "--to-latest": To(at=LATEST) if to_latest else None,
        "--to-offset": To(offset=to_offset) if to_offset is not None else None,
        "--shift-by": To(shift=shift_by) if shift_by is not None else None,
        "--to-datetime": To(at=parse_datetime(to_datetime)) if to_datetime is not None else None,
        "--by-duration": To(at=_now_ms() - parse_duration(by_duration)) if by_duration is not None else None,
        "--to-current": To() if to_current else None,
        "--from-file": To() if from_file is not None else None,
    }
    chosen = {name: to for name, to in ways.items() if to is not None}
    if export and not chosen:
        chosen = {"--to-current": To()}
    if len(chosen) != 1:
        _refuse(" / ".join(chosen or ways), "exclude each other" if chosen else "one of them says where to")
    if from_file is None and bool(topics) == all_topics:
        _refuse("--topic / --all-topics", "exclude each other" if all_topics else "one of them is needed")
    if from_file is not None and (topics or all_topics):
        _refuse("--from-file", "names the topics itself; leave --topic and --all-topics out")
    if all_groups == bool(groups) and (all_groups or from_file is None):
        _refuse("GROUP / --all-groups", "exclude each other" if all_groups else "name a group, or --all-groups")
    if execute and dry_run:
        _refuse("--execute / --dry-run", "exclude each other")
    if export and as_json:
        _refuse("--export / --json", "exclude each other")
    (to,) = chosen.values()
    wanted = parse_topics(topics or [])
    cluster = target(bootstrap, directory)

    async def verb(admin: Admin) -> None:
        named = [each.group_id for each in await admin.list_groups()] if all_groups else sorted(set(groups or ()))
        given = None if from_file is None else _read(from_file, named)
        before, new = {}, {}
        for group in named if given is None else given:
            before[group] = await _committed(admin, group, cluster)
            if given is not None:
                new[group] = await _given(admin, given[group], cluster)
                continue
            partitions = await find_partitions(admin, wanted, cluster) if wanted else sorted(before[group])
            new[group] = await _moved(admin, to, partitions, before[group])
        if execute:
            for group, offsets in new.items():
                await _commit(admin, group, offsets)
        _print(before, new, executed=execute, as_json=as_json, export=export)

    run_with_admin(verb, cluster, timeout)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


def _read(path: Path, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    from minikafka.cli.reset_plan import of_groups, read_plan
    from minikafka.errors import ErrorCode, KafkaError

    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: this is no text") from None
    return of_groups(read_plan(text, str(path)), groups, str(path))


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


async def _moved(admin: Admin, to: To, partitions: list[TopicPartition], committed: Offsets) -> Offsets:
    """Where the partitions go on; notes on stderr tell which offsets had to be moved into their logs."""
    from minikafka.cli.reset_plan import new_offsets

    new, notes = new_offsets(to, partitions, await _known(admin, to, partitions, committed))
    for note in notes:
        print_note(note)
    return new


async def _given(admin: Admin, offsets: Mapping[TopicPartition, int], cluster: Target) -> Offsets:
    """The offsets of a file, each within its log."""
    from minikafka.cli.reset_plan import To

    topics: dict[str, list[int]] = {}
    for tp in offsets:
        topics.setdefault(tp.topic, []).append(tp.partition)
    partitions = await find_partitions(admin, topics, cluster)
    unchanged = To(shift=0)  # of the file's offsets, instead of what the group has committed
    return await _moved(admin, unchanged, [tp for tp in offsets if tp in partitions], offsets)


async def _known(admin: Admin, to: To, partitions: Iterable[TopicPartition], committed: Offsets) -> Known:
    from minikafka.cli.reset_plan import Known

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


def _print(
    before: Mapping[str, Offsets], new: Mapping[str, Offsets], *, executed: bool, as_json: bool, export: bool
) -> None:
    if export:
        from minikafka.cli.reset_plan import format_plan

        sys.stdout.write(format_plan(new))
        return
    if as_json:
        found = [_as_json(group, before[group], offsets, executed) for group, offsets in new.items()]
        print_json(found[0] if len(found) == 1 else found)
        return
    for group, offsets in new.items():
        if not offsets:
            print_line(f"group {group!r} has no offsets; name topics with --topic")
    rows = [
        (escaped(group), tp.topic, str(tp.partition), str(before[group].get(tp, "-")), str(at))
        for group, offsets in new.items()
        for tp, at in offsets.items()
    ]
    if not rows:
        return
    first = 0 if len(new) > 1 else 1
    print_table(COLUMNS[first:], [row[first:] for row in rows])
    changed = ", ".join(group for group, offsets in new.items() if offsets)
    print_line(f"changed {changed}" if executed else "dry run: nothing is changed; --execute changes it")


def _as_json(group: str, old: Offsets, new: Offsets, executed: bool) -> dict[str, Any]:
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "old_offset": old.get(tp), "new_offset": offset}
        for tp, offset in new.items()
    ]
    return {"group": group, "executed": executed, "partitions": rows}
