"""Which partitions ``minikafka consume`` reads, and from where to where."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import typer

from minikafka.model import EARLIEST, LATEST

if TYPE_CHECKING:
    from minikafka.cli.options import Target
    from minikafka.client import Admin
    from minikafka.model import Isolation, TopicPartition

_LAST_OFFSET: Final = 2**63 - 1


class Start(NamedTuple):
    """An offset, the last so many records, a time in ms; or, with none of them, an end: EARLIEST or LATEST."""

    end: int = LATEST
    offset: int | None = None
    last: int | None = None
    at_ms: int | None = None

    @property
    def is_sought(self) -> bool:
        """The partitions are assigned by hand, and each is sought."""
        return (self.offset, self.last, self.at_ms) != (None, None, None)


class Assigned(NamedTuple):
    """Partitions with the offsets to read from, and with those to stop before; None: by :attr:`Start.end`."""

    begin: Mapping[TopicPartition, int | None]
    until: Mapping[TopicPartition, int]


def parse_start(word: str) -> Start:
    """``earliest``, ``latest``, an offset, or ``-5`` for the last five, as kcat's."""
    if word in ("earliest", "beginning"):
        return Start(EARLIEST)
    if word in ("latest", "end"):
        return Start(LATEST)
    number = word.removeprefix("-")
    if number.isascii() and number.isdigit() and int(number) <= _LAST_OFFSET:
        return Start(last=int(number)) if word.startswith("-") else Start(offset=int(number))
    _refuse("--offset", f"{word!r} is neither an offset, 0 or more, nor earliest or latest, nor -N for the last N")


def parse_partitions(words: Sequence[str]) -> list[int]:
    """``0`` and ``1,2``, each once."""
    indexes = [index for word in words for index in word.split(",")]
    for index in indexes:
        if not (index.isascii() and index.isdigit()):
            _refuse("--partition", f"{index!r} is no partition: 0, or 0,1,2")
    return sorted({int(index) for index in indexes})


def matching(pattern: re.Pattern[str], topics: Sequence[str]) -> list[str]:
    """Topics whose whole names match."""
    return [topic for topic in topics if pattern.fullmatch(topic)]


def parse_pattern(word: str) -> re.Pattern[str]:
    """A regular expression for names of topics; a comma stands for ``|``, as for Kafka's tools."""
    try:
        return re.compile("|".join(part.strip() for part in word.split(",")) if "{" not in word else word)
    except re.error as error:
        _refuse("--include", f"{word!r} is no regular expression: {error}")


async def find_topics(
    admin: Admin, names: Sequence[str], pattern: re.Pattern[str] | None, cluster: Target
) -> list[str]:
    """The topics that are named or match. KafkaError, soon, where there is nothing to read."""
    from minikafka.cli.partitions import absent
    from minikafka.client.admin.base import NO_TOPIC
    from minikafka.errors import KafkaError

    if pattern is not None:
        found = matching(pattern, [topic.name for topic in await admin.list_topics()])
        if not found:
            raise KafkaError(NO_TOPIC, f"no topic matches {pattern.pattern!r}; see {cluster.command('topic list')}")
        return found
    for view in await admin.describe_topics(list(names)):
        if view.error:
            raise await absent(admin, view, f"create it with: {cluster.command(f'topic create {view.name}')}")
    return list(names)


async def find_assigned(
    admin: Admin,
    topics: Sequence[str],
    partitions: Sequence[int],
    start: Start,
    cluster: Target,
    *,
    isolation: Isolation,
    until_end: bool,
) -> Assigned:
    """Partitions to assign by hand, and where to read in each. KafkaError for an offset that is not there."""
    from minikafka.cli.partitions import find_partitions

    found = await find_partitions(admin, dict.fromkeys(topics, partitions), cluster)

    async def ask(at: int, isolation: Isolation | None = None) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(found, at)
        answers = await (
            admin.list_offsets(asked) if isolation is None else admin.list_offsets(asked, isolation=isolation)
        )
        return {tp: answer.offset for tp, answer in answers.items()}

    needs_ends = until_end or start.last is not None or start.offset is not None
    first = await ask(EARLIEST) if needs_ends else {}
    end = await ask(LATEST, isolation) if needs_ends else {}
    begin: dict[TopicPartition, int | None] = dict.fromkeys(found)
    if start.offset is not None:
        begin = {tp: checked_offset(tp, start.offset, first[tp], end[tp]) for tp in found}
    elif start.last is not None:
        begin = {tp: max(first[tp], end[tp] - start.last) for tp in found}
    elif start.at_ms is not None:
        at_time = await ask(start.at_ms)
        begin = {tp: at_time[tp] if at_time[tp] >= 0 else None for tp in found}  # else at the end
    return Assigned(begin, {tp: end[tp] for tp in found if end[tp] > first[tp]} if until_end else {})


def checked_offset(tp: TopicPartition, offset: int, first: int, end: int) -> int:
    """The offset if the log has it, or ends there."""
    from minikafka.errors import ErrorCode, KafkaError

    if not first <= offset <= end:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} not found: {tp} has offsets {first}..{end}")
    return offset


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)
