"""Exchanges two directories at once: readers see the one or the other, never both or neither."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Any, Final

_HERE: Final = -2 if sys.platform == "darwin" else -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_CANNOT: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths of one file system. False, without an effect, if the system has no such call."""
    rename = _rename()
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


def _rename() -> Any | None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # a platform whose C library has no handle
        return None
    return getattr(library, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
