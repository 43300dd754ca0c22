"""Regular expressions of clients (KIP-1152), which must not hold the loop up (docs/decisions/0024).

They are RE2's, as in Kafka. The time of a match grows with the length of name and expression, and no faster: none runs
for hours. Matches run in a thread, without the interpreter's lock, and those of a request have a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from re2 import _Regexp as Expression

    from minikafka.broker.threads import RunInThread

T = TypeVar("T")

LENGTH_MAX: Final = 1_024
CLASSES_MAX: Final = 64
r"""Of ``\p{...}``, each of which may cost 0.5 ms to compile. That is done on the loop."""
MEMORY_MAX: Final = 1 << 20
INSTRUCTIONS_MAX: Final = 5_000
WORK_AT_ONCE: Final = 10_000_000
"""Bytes of names times instructions: 0.2 s at worst, mostly 1 ms."""
TIME_LIMIT_S: Final = 5.0
"""Of matching, for one expression."""


class Patterns:
    """Selects by expressions; one request at a time, in a thread of its own. ``work_s``: as :attr:`Clock.work_s`."""

    def __init__(self, run_in_thread: RunInThread, work_s: Callable[[], float]) -> None:
        self._run_in_thread = run_in_thread
        self._work_s = work_s

    async def matching(self, pattern: str, items: Iterable[T], name_of: Callable[[T], str]) -> list[T]:
        """The items whose whole name the pattern matches.

        KafkaError(INVALID_REGULAR_EXPRESSION) for one that is wrong, too large, or takes too long.
        """
        expression = compiled(pattern)
        found: list[T] = []
        spent_s = 0.0  # not what it waits for others: these would decide whether it matches anything
        for portion in _portions(expression.programsize, items, name_of):
            selected, took_s = await self._run_in_thread(_selection(expression, portion, name_of, self._work_s))
            found += selected
            spent_s += took_s
            if spent_s > TIME_LIMIT_S:
                raise _invalid(f"it takes longer than {TIME_LIMIT_S:g} s")
        return found


def compiled(pattern: str) -> Expression:
    """An expression that is within the bounds. KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if len(pattern) > LENGTH_MAX:
        raise _invalid(f"it has {len(pattern)} characters, more than {LENGTH_MAX}")
    if pattern.lower().count("\\p") > CLASSES_MAX:
        raise _invalid(f"it has more than {CLASSES_MAX} classes of Unicode characters")
    import re2  # 15 ms and 3 MB, for those who use it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # only whether it matches
    options.max_mem = MEMORY_MAX
    try:
        expression = re2._Regexp(pattern, options)  # re2.compile keeps what it has compiled
    except re2.error as error:
        (why,) = error.args
        raise _invalid(why.decode(errors="replace")) from None
    except UnicodeEncodeError as error:
        raise _invalid(str(error)) from None
    if expression.programsize > INSTRUCTIONS_MAX:
        raise _invalid("it is too large")
    return expression


def _portions(instructions: int, items: Iterable[T], name_of: Callable[[T], str]) -> Iterator[list[T]]:
    """So many that their work is bounded, at least one."""
    portion: list[T] = []
    work = 0
    for item in items:
        portion.append(item)
        work += (len(name_of(item)) + 50) * instructions
        if work >= WORK_AT_ONCE:
            yield portion
            portion, work = [], 0
    if portion:
        yield portion


def _selection(
    expression: Expression, items: list[T], name_of: Callable[[T], str], work_s: Callable[[], float]
) -> Callable[[], tuple[list[T], float]]:
    """What matches, and the seconds that it took."""

    def select() -> tuple[list[T], float]:
        began_s = work_s()
        found = [item for item in items if expression.fullmatch(name_of(item)) is not None]
        return found, work_s() - began_s

    return select


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the regular expression cannot be used: {why}")
