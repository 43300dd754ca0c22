from __future__ import annotations

import subprocess
import sys

import pytest

from minikafka.wire.api import FIRST_FLEXIBLE, FIRST_TAGGED, ApiKey
from minikafka.wire.layout import is_flexible
from minikafka.wire.schema import VersionRange


@pytest.mark.parametrize("key", list(ApiKey))
def test_tables_agree_with_the_schemas(key: ApiKey) -> None:
    for cls in (key.request_class, key.response_class):
        existing = VersionRange.parse(cls.VERSIONS)
        assert existing.has(key.versions.first)
        assert existing.has(key.versions.last)
        for version in range(existing.first, existing.last + 1):
            assert (version >= key.first_flexible) == is_flexible(cls, version)


@pytest.mark.spec("KIP-896")
@pytest.mark.parametrize(
    ("key", "floor"),
    [
        (ApiKey.PRODUCE, 3),
        (ApiKey.FETCH, 4),
        (ApiKey.LIST_OFFSETS, 1),
        (ApiKey.OFFSET_COMMIT, 2),
        (ApiKey.OFFSET_FETCH, 1),
        (ApiKey.CREATE_TOPICS, 2),
        (ApiKey.DELETE_TOPICS, 1),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2),
        (ApiKey.DESCRIBE_CONFIGS, 1),
        (ApiKey.DESCRIBE_LOG_DIRS, 1),
    ],
)
def test_versions_start_where_kafka_4_starts(key: ApiKey, floor: int) -> None:
    assert key.versions.first == floor


def test_produce_is_offered_from_version_0_but_not_supported_there() -> None:
    assert ApiKey.PRODUCE.announced_versions == VersionRange(0, 13)
    assert ApiKey.PRODUCE.versions == VersionRange(3, 13)
    assert ApiKey.FETCH.announced_versions == ApiKey.FETCH.versions


def test_from_where_on_headers_have_tagged_fields() -> None:
    """KIP-482; a client that asks for the versions cannot know yet what the broker speaks (KIP-511)."""
    assert (FIRST_FLEXIBLE[ApiKey.PRODUCE], FIRST_TAGGED[ApiKey.PRODUCE]) == (9, 9)
    assert FIRST_FLEXIBLE[ApiKey.API_VERSIONS] == 3
    assert FIRST_TAGGED[ApiKey.API_VERSIONS] > ApiKey.API_VERSIONS.versions.last
    assert set(FIRST_FLEXIBLE) == set(FIRST_TAGGED) == set(map(int, ApiKey))


def test_an_api_is_named_like_its_request_class() -> None:
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.camel_name == "OffsetForLeaderEpoch"
    assert ApiKey.FETCH.request_class.__name__ == "FetchRequest"


def test_importing_the_table_does_not_import_the_messages() -> None:
    program = "import sys, minikafka.wire.api; print([name for name in sys.modules if 'wire.messages.' in name])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
