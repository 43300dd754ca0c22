"""What tests on running clusters share; the modules beside this file (``live_*.py``) are importable by name."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

sys.path.insert(0, str(Path(__file__).parent))

import live_turns

# Modules that go to one process, because what they share is dear: a session of Spark, Kafka's tools, a cluster, which
# also takes CPU time while it waits for the next module.
TOGETHER = (
    ("tests/spark/*",),
    ("tests/compat/*",),
    ("tests/hostile/*",),
    tuple(f"tests/cluster/test_{name}*" for name in ("acls", "exactly_once", "kafka_tools", "secure")),
    tuple(f"tests/cluster/test_{name}*" for name in ("bad_", "round_trip", "settings_and", "transaction_", "verbs")),
)
# What begins, because it takes long.
FIRST = (
    *("tests/spark/", "tests/planted/", "tests/unit/raft/"),
    *("tests/unit/replication/", "tests/sim/", "tests/cluster/"),
)

# No test hangs on how fast the machine is just now. Most properties break by one of the first examples or by one of
# thousands: `make test` tries few of each, `make test-long` many.
settings.register_profile("quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=500)
settings.load_profile("quick")

IN_MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 4 << 30


def _keep_files_in_memory() -> None:
    """Where there is room, and ``TMPDIR`` names no other place. A file system on a disk takes a fifth of the CPU time
    of tests of nodes for syncs and deletions, and has them wait; what a killed node leaves is the same in both."""
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK) or shutil.disk_usage(IN_MEMORY).free < ROOM_BYTES:
        return
    if not os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)


_keep_files_in_memory()

SLOW_TURNS: Final = live_turns.Reports(Path(tempfile.gettempdir()) / f"slow-turns-{os.getpid()}")
SLOW_TURNS.ask_for()

# Containers often set it: each of hundreds of processes would compile hundreds of modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM ends a run as Ctrl-C does: fixtures are torn down, so that no broker process stays behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):  # else its workers collect
        gc.disable()  # until everything is collected: hardly anything of it is garbage
    for function in ("read_text", "open_text"):  # of importlib.resources, hundreds of times by kafka-python
        config.addinivalue_line("filterwarnings", f"ignore:{function} is deprecated:DeprecationWarning")


def pytest_unconfigure() -> None:
    """The run is over."""
    SLOW_TURNS.remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """No node's loop was held since the last test: by this one, by its fixtures, by what ended with it."""
    try:
        yield
    except BaseException as error:
        for turn in SLOW_TURNS.new():
            error.add_note(turn)
        raise
    if (slow := SLOW_TURNS.new()) and not live_turns.may_be_slow(item.nodeid):
        pytest.fail("\n".join(slow), pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins, so that several processes end at about the same time."""
    items.sort(key=lambda item: next((at for at, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), 9))


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not go through it again and again."""
    gc.freeze()
    gc.enable()


class ByModule(LoadScopeScheduling):
    """Hands out a module at a time, or several where one fixture serves them."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::", 1)[0]
        return next((" ".join(several) for several in TOGETHER if _is_of(module, several)), module)


def _is_of(module: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(module, pattern) for pattern in patterns)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByModule:
    """How ``pytest -n 3`` divides the tests."""
    # In the order above. In pyproject.toml the option would keep pytest without xdist from running in the checkout.
    config.option.loadscopereorder = False
    return ByModule(config, log)
