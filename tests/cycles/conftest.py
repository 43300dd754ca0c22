"""A cluster of threads in which what time-outs keep goes within a second or two, and bounded caches are small."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cycles_ground import SETTINGS, Ground
from cycles_kinds import prepare

from minikafka.broker import client_quotas, control_plane, data_plane, maintenance, node
from minikafka.broker.drivers import groups, metadata
from minikafka.chaos import layout
from minikafka.config import BrokerConfig
from minikafka.groups.settings import CoordinatorSettings
from minikafka.security import authorizer
from minikafka.testing import MiniKafka
from minikafka.wire.hot import ProduceResponses

CACHED_MAX = 2
"""Entries of caches that are bounded: less than would pass for growth."""


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """Three nodes with two log directories each."""
    with pytest.MonkeyPatch.context() as patch:
        _shorten(patch)
        with MiniKafka(in_process=True, settings=SETTINGS) as kafka:
            ground = Ground(kafka)
            prepare(ground)
            gc.disable()
            yield ground
            gc.enable()
            ground.hang_up()


def _shorten(patch: pytest.MonkeyPatch) -> None:
    """What no setting makes as short."""
    patch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.5)
    patch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.2)
    patch.setattr(node, "SNAPSHOT_CHECK_INTERVAL_S", 0.2)
    patch.setattr(metadata, "RECORDS_BETWEEN_SNAPSHOTS", 100)
    of_metadata = replace(control_plane.METADATA_LOG_CONFIG, file_delete_delay_ms=0)
    patch.setattr(control_plane, "METADATA_LOG_CONFIG", of_metadata)
    patch.setattr(data_plane, "METADATA_LOG_CONFIG", of_metadata)
    settings_of, identity_of = groups._settings, layout.identity

    def settings(config: BrokerConfig) -> CoordinatorSettings:
        return replace(settings_of(config), offsets_retention_ms=500)

    def identity(cluster: layout.ClusterLayout, node_id: int) -> dict[str, str]:
        first = cluster.data_directory(node_id)
        return identity_of(cluster, node_id) | {"log.dirs": f"{first},{first}-2"}

    patch.setattr(groups, "_settings", settings)
    patch.setattr(layout, "identity", identity)
    patch.setattr(authorizer, "CACHED_MAX", CACHED_MAX)
    patch.setattr(client_quotas, "CLIENTS_MAX", CACHED_MAX)
    patch.setattr(ProduceResponses.__init__, "__defaults__", (CACHED_MAX,))
