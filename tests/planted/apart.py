"""Runs a schedule in a process of its own, forked."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

FORK: Final = multiprocessing.get_context("fork")


def apart(
    run: Callable[[int], object], violations: tuple[type[BaseException], ...], called: set[str]
) -> Callable[[int], object]:
    """``run``, each time in a process of its own, with the bug that is planted here. What is ``called`` is told.

    A simulated cluster leaves behind what its killed processes held: after some hundred seeds one process had 4 GB,
    and spent its time collecting garbage.
    """

    def run_apart(seed: int) -> None:
        receiver, sender = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_run, args=(run, seed, violations, called, sender))
        child.start()
        sender.close()
        try:
            violation: BaseException | None
            violation, called_there = receiver.recv()
            called.update(called_there)
        except EOFError:
            raise RuntimeError(f"the process of seed {seed} ended without a word") from None
        finally:
            receiver.close()
            child.join()
        if violation is not None:
            raise violation

    return run_apart


def _run(
    run: Callable[[int], Any],
    seed: int,
    violations: tuple[type[BaseException], ...],
    called: set[str],
    tell: Connection,
) -> None:
    gc.disable()
    try:
        run(seed)
    except violations as violation:
        tell.send((type(violation)(str(violation)), called))
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    else:
        tell.send((None, called))
