"""What a disk that only says that it syncs has kept: what it had when it began to lie.

That is copied beside each log directory. A node that starts finds the copy. If it did not end in order, all that was
written since is lost, and it begins with the copy, as a machine that lost power. So it has another boot id, too, by
which a node tells that from a kill (decision 0005). A node that ended in order has lost nothing, nor has one whose disk
was mended.

The copy is made while the node writes: files of one moment, more or less, and not whole batches at their ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from minikafka.storage.clean_shutdown import CLEAN_SHUTDOWN_FILE
from minikafka.storage.disk import OsLock
from minikafka.storage.log_dir import LOCK_FILE

_COPY: Final = "platter-of-"
_UNFINISHED: Final = "unfinished-platter-of-"
_LOSSES: Final = "losses-of-"


class Platter:
    """Of the disk below some log directories."""

    def __init__(self, directories: Iterable[str] = ()) -> None:
        self._directories = [Path(each) for each in directories]

    def begin(self) -> None:
        """From now on nothing is kept. Takes as long as copying takes. OSError: it cannot be copied."""
        for directory in self._directories:
            unfinished = _beside(directory, _UNFINISHED)
            shutil.rmtree(unfinished, ignore_errors=True)
            _copy(directory, unfinished)
        for directory in self._directories:
            _beside(directory, _UNFINISHED).rename(_beside(directory, _COPY))

    def forget(self) -> None:
        """All that was written is kept."""
        for directory in self._directories:
            shutil.rmtree(_beside(directory, _COPY), ignore_errors=True)

    def lose(self) -> None:
        """Before anything is opened: begin with what was kept, if the node did not end in order. It may be killed here,
        too, and does it once more then."""
        for directory in self._directories:
            copy = _beside(directory, _COPY)
            if not copy.is_dir():
                continue
            try:
                lock = OsLock(str(directory / LOCK_FILE))
            except BlockingIOError:
                continue  # another process runs there; this one is told so when it opens the directory
            if not (directory / CLEAN_SHUTDOWN_FILE).exists():
                _beside(directory, _LOSSES).write_text(str(_losses(directory) + 1))
                _empty(directory)
                _copy(copy, directory)
            shutil.rmtree(copy)
            lock.release()

    def boot_id(self, boot_id: str | None) -> str | None:
        """As it is after so many losses of power."""
        losses = sum(map(_losses, self._directories))
        return f"{boot_id} after {losses}" if boot_id is not None and losses else boot_id


def _losses(directory: Path) -> int:
    path = _beside(directory, _LOSSES)
    return int(path.read_text() or 0) if path.exists() else 0


def _beside(directory: Path, prefix: str) -> Path:
    """Not within it, nor with a name like those of log directories: nobody else looks there."""
    return directory.resolve().with_name(prefix + directory.name)


def _copy(source: Path, target: Path) -> None:
    """Without what the node removes meanwhile, or gives another name."""
    with suppress(FileNotFoundError):
        if source.is_dir():
            names = os.listdir(source)
            target.mkdir(exist_ok=True)
            for name in names:
                _copy(source / name, target / name)
        else:
            shutil.copyfile(source, target)


def _empty(directory: Path) -> None:
    """It may be a mount, and stays, as does what keeps others out."""
    for each in directory.iterdir():
        if each.name == LOCK_FILE:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            os.unlink(each)
