"""Features: levels of protocols that hold for the whole cluster (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from minikafka import __version__
from minikafka.client.admin.base import AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class Feature(NamedTuple):
    """What a broker supports of a feature, and the level in force; 0 is what was before there was the feature."""

    lowest: int
    highest: int
    level: int


class FeatureChange(IntEnum):
    """May the level fall? And may metadata be lost by that?"""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureCalls(AdminCalls):
    """Calls about features."""

    async def describe_features(self) -> dict[str, Feature]:
        """The features that a broker knows, by name."""

        async def attempt() -> dict[str, Feature]:
            request = ApiVersionsRequest(client_software_name="minikafka", client_software_version=__version__)
            answer = await self._connections.call_once(request, ApiVersionsResponse, self._answer_s)
            check(answer.error_code, None, "describing features")
            levels = {each.name: each.max_version_level for each in answer.finalized_features}
            return {
                each.name: Feature(each.min_version, each.max_version, levels.get(each.name, 0))
                for each in sorted(answer.supported_features, key=lambda each: each.name)
            }

        return await self._retrying(attempt, "describing features")

    async def update_features(
        self, levels: Mapping[str, int], *, change: FeatureChange = FeatureChange.UPGRADE, validate_only: bool = False
    ) -> None:
        """Put these levels in force, all or none. INVALID_UPDATE_VERSION for one that the cluster does not take."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=change is not FeatureChange.UPGRADE,
                    upgrade_type=change,
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, UpdateFeaturesResponse, timeout_s=self._answer_s)
            check(answer.error_code, answer.error_message, "changing features")
            for result in answer.results:  # of older brokers
                check(result.error_code, result.error_message, f"changing feature {result.feature!r}")

        await self._change(attempt, "changing features")
