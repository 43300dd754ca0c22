"""Where lakes are: a directory, or the URL of an object store; and the errors of both, in a line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from minikafka.spark.pipelines.running import PipelineError

OLD_FORMAT: Final = "_minikafka"
_NOT_IN_A_PATH: Final = frozenset("[]^|\\")
_COLOUR: Final = re.compile(r"\x1b\[\d*m")
_FRAMES: Final = re.compile(r"\s*\d+: <unknown>.*", re.DOTALL)
_TOLD_MAX: Final = 300
_NOT_ONE_LINE: Final = re.compile(r"\s*\n\s*(?:↳\s*)?")


class AnotherArchiveError(PipelineError):
    """Somebody else committed meanwhile, and the table refused this commit."""


def location(to: str | Path) -> str:
    """The address of a lake: an absolute path, or the URL of an object store. Raises PipelineError for a path that
    deltalake cannot take."""
    text = str(to).removeprefix("file://")
    if "://" in text:
        return text.rstrip("/")
    path = str(Path(text).expanduser().resolve())
    if _NOT_IN_A_PATH.intersection(path):
        raise PipelineError(f"the path of a lake must be without {' '.join(sorted(_NOT_IN_A_PATH))}: {path}")
    return path


def is_local(lake: str) -> bool:
    """True for a directory."""
    return "://" not in lake


def is_of_old_format(lake: str) -> bool:
    """True for a lake of a minikafka whose lakes were no Delta tables."""
    return is_local(lake) and os.path.isdir(os.path.join(lake, OLD_FORMAT))


def is_lake(lake: str) -> bool:
    """True for a table, of whatever content. Raises PipelineError when the store does not answer."""
    with readable_errors(lake):
        return (not is_local(lake) or os.path.isdir(lake)) and DeltaTable.is_deltatable(lake)


def check_is_new(lake: str) -> None:
    """Raise PipelineError unless a lake can be made there."""
    if is_local(lake) and os.path.exists(lake):
        if not os.path.isdir(lake):
            raise PipelineError(f"{lake} is a file; choose a directory")
        if os.listdir(lake):
            raise PipelineError(f"{lake} is neither empty nor a lake; choose an empty or a new directory")


@contextmanager
def readable_errors(lake: str) -> Iterator[None]:
    """Raises PipelineError, a line, for errors of the library and its stores."""
    try:
        yield
    except (DeltaError, OSError) as error:
        told = _NOT_ONE_LINE.sub(": ", _FRAMES.sub("", _COLOUR.sub("", str(error))).strip())[:_TOLD_MAX]
        if isinstance(error, CommitFailedError) and "object store" not in told:
            raise AnotherArchiveError(
                f"another archive writes to {lake}, or somebody changed the table, and was first; end the other one, "
                f"and start this one again ({told})"
            ) from error
        raise PipelineError(f"{lake}: {told}") from error
