"""The plugin of pytest: ``minikafka``, a cluster for all tests of a run; ``minikafka_topic``, a topic for one test.

The cluster starts with the first test that uses it. Each further test finds it healed of what an earlier one broke.
With pytest-xdist each worker has a cluster of its own. A failing test shows what its brokers logged meanwhile,
and which of them are not up.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from minikafka.testing import MiniKafka
    from minikafka.testing.log_lines import LogLines

MARKER: Final = "minikafka_topic(partitions, replication_factor, settings): how the topic of the test is created"
_CLUSTER: Final = pytest.StashKey["MiniKafka"]()
_LINES: Final[pytest.StashKey[LogLines]] = pytest.StashKey()  # since the test began, or since the cluster was ready
_IS_USED: Final = pytest.StashKey[bool]()  # by the last test
_NAME_MAX: Final = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the cluster."""
    group = parser.getgroup("minikafka", "the cluster of the fixture `minikafka`")
    group.addoption("--minikafka-brokers", type=int, default=3, metavar="N", help="number of its brokers (3)")
    group.addoption(
        "--minikafka-set", action="append", default=[], metavar="NAME=VALUE", help="a setting of its brokers"
    )
    group.addoption(
        "--minikafka-in-process", action="store_true", help="its brokers are threads of this process, for a debugger"
    )
    group.addoption("--minikafka-secure", action="store_true", help="clients log in: see MiniKafka.client_config")


def pytest_configure(config: pytest.Config) -> None:
    """The marker. UsageError for an option that nobody can read."""
    config.addinivalue_line("markers", MARKER)
    _settings(config)


@pytest.fixture(scope="session")
def minikafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniKafka]:
    """A cluster for all tests of the run: ``minikafka.bootstrap_servers``, ``minikafka.kill(1)``, ..."""
    from minikafka.testing import ClusterError, MiniKafka
    from minikafka.testing.log_lines import LogLines

    brokers = request.config.getoption("--minikafka-brokers")
    in_process = request.config.getoption("--minikafka-in-process")
    directory = tmp_path_factory.mktemp("minikafka")
    secure = request.config.getoption("--minikafka-secure")
    settings = _settings(request.config)
    cluster = MiniKafka(brokers, settings=settings, directory=directory, in_process=in_process, secure=secure)
    try:
        cluster.start()
    except ClusterError as error:
        _fail(error)
    with closing(cluster):
        request.config.stash[_CLUSTER] = cluster
        request.config.stash[_LINES] = LogLines(cluster)
        yield cluster
        del request.config.stash[_CLUSTER]


@pytest.fixture
def minikafka_topic(request: pytest.FixtureRequest, minikafka: MiniKafka) -> str:
    """A new topic, named after the test. ``@pytest.mark.minikafka_topic(partitions=3)`` says how it is created."""
    from minikafka.errors import ErrorCode, KafkaError

    marker = request.node.get_closest_marker("minikafka_topic")
    words, how = ((), {}) if marker is None else (marker.args, marker.kwargs)
    for name in _topic_names(request.node.name):
        try:
            minikafka.create_topic(name, *words, **how)
            return name
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                _fail(error)
    raise AssertionError("there is always one more name")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Heal the cluster, and note where its logs end. Also for a test that may ask for the fixture while it runs, which
    nobody knows before: so whenever the last test has used it.
    """
    cluster = item.config.stash.get(_CLUSTER, None)
    if cluster is not None and (_uses(item) or item.config.stash.get(_IS_USED, False)):
        from minikafka.testing import ClusterError
        from minikafka.testing.log_lines import LogLines

        item.config.stash[_IS_USED] = False
        try:
            cluster.heal()
            item.config.stash[_LINES] = LogLines(cluster)
        except ClusterError as error:
            if _uses(item):
                _fail(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What it broke is broken for the next one."""
    if _uses(item):
        item.config.stash[_IS_USED] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Attach which brokers are not up, and what they logged."""
    report = yield
    if report.failed and _CLUSTER in item.config.stash and _uses(item):
        report.sections += item.config.stash[_LINES].sections()
    return report


def _topic_names(test: str) -> Iterator[str]:
    """The names of its topic, of which it gets the first that is free. Without dots: one that differs from another in a
    dot for an underscore only cannot be."""
    name = re.sub(r"[^\w-]+", "-", test, flags=re.ASCII)[:_NAME_MAX].strip("-") or "test"
    yield name
    for number in count(2):
        yield f"{name}-{number}"


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for each in config.getoption("--minikafka-set"):
        name, separator, value = each.partition("=")
        if not name or not separator:
            raise pytest.UsageError(f"--minikafka-set {each} is not NAME=VALUE")
        settings[name] = value
    return settings


def _fail(error: Exception) -> NoReturn:
    """Say what is wrong; it is not in the code that a traceback would show."""
    raise pytest.fail.Exception("\n".join([str(error), *getattr(error, "__notes__", [])]), pytrace=False) from None


def _uses(item: pytest.Item) -> bool:
    """As far as it has asked for the fixture until now: by its parameters, or by ``request.getfixturevalue``."""
    asked = getattr(getattr(item, "_request", None), "fixturenames", None)
    return "minikafka" in (getattr(item, "fixturenames", ()) if asked is None else asked)
