from __future__ import annotations

import subprocess
import sys

import pytest

from minikafka.wire.api import ApiKey, request_header_version, response_header_version
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


def test_header_versions() -> None:
    assert (request_header_version(ApiKey.PRODUCE, 8), request_header_version(ApiKey.PRODUCE, 9)) == (1, 2)
    assert (response_header_version(ApiKey.PRODUCE, 8), response_header_version(ApiKey.PRODUCE, 9)) == (0, 1)
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert response_header_version(ApiKey.API_VERSIONS, 3) == 0
    with pytest.raises(KeyError):
        request_header_version(999, 0)


def test_an_api_is_named_like_its_request_class() -> None:
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.camel_name == "OffsetForLeaderEpoch"
    assert ApiKey.FETCH.request_class.__name__ == "FetchRequest"


def test_importing_the_table_does_not_import_the_messages() -> None:
    program = "import sys, minikafka.wire.api; print([name for name in sys.modules if 'wire.messages.' in name])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
