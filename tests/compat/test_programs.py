"""Java's clients, kafkajs, franz-go and rskafka, each by a program in its own language that tries every feature.

franz-go and rskafka take a minute to build when nothing is cached: ``CLIENTS=all`` builds them. Once they are built,
they are tried without it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from clients_table import CLAIMS, FEATURES, GENERATOR, has_no_others, has_none, tell
from compat_programs import LONG, PROGRAMS, Report, report_of
from compat_secure import Secured
from live_cluster import batches_on_disk, eventually, leader_of
from live_java import NotHereError

from minikafka.chaos.local_cluster import LocalCluster


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in PROGRAMS],
)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def report(client: str, servers: str, secured: Secured) -> Report:
    try:
        return report_of(client, servers, secured.variables())
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_works_or_is_not_there(client: str, report: Report, feature: str) -> None:
    outcome = report.outcomes.get(feature)
    if outcome is None:
        has_none(client, feature)
    else:
        assert outcome == "ok"
        tell(client, feature, report.version)


def test_batches_were_compressed_as_was_asked(report: Report, stored_compressions: Callable[[str], set[str]]) -> None:
    """By the client, and stored unchanged."""
    for codec in GENERATOR["CODECS"]:
        if codec in report.outcomes:
            assert codec in stored_compressions(f"{report.prefix}-{codec}")


def test_batches_of_an_idempotent_producer_have_its_number(report: Report, cluster: LocalCluster) -> None:
    topic = f"{report.prefix}-idempotence"
    if "idempotence" in report.outcomes:
        batches = eventually(lambda: batches_on_disk(cluster, leader_of(cluster, topic), topic), "batches on disk")
        assert all(batch.header.producer_id >= 0 for batch in batches)


def test_the_readme_claims_nothing_that_no_test_of_a_client_shows() -> None:
    """The clients of Python, and kcat, whose tests are marked."""
    for name, features in CLAIMS.items():
        has_no_others(name, features)
