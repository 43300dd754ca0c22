"""The settings a group may have of its own (KIP-848), each with the node's setting it falls back to.

Those of share groups and of streams groups are not there, as their protocols are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.config.broker import BOUNDS, BrokerConfig
from minikafka.config.overrides import OwnConfig, OwnSetting, like
from minikafka.config.setting import ConfigSource, Setting


class GroupConfig(OwnConfig):
    """A group's settings in effect: ``GroupConfig(overrides, broker_config).consumer_session_timeout_ms``."""

    SOURCE = ConfigSource.GROUP_CONFIG
    RESOURCE = "group"

    consumer_session_timeout_ms = like(BrokerConfig.group_consumer_session_timeout_ms)
    consumer_heartbeat_interval_ms = like(BrokerConfig.group_consumer_heartbeat_interval_ms)
    consumer_assignment_interval_ms = like(BrokerConfig.group_consumer_assignment_interval_ms)

    def bounded(self, row: Setting[int]) -> int:
        """The value within the bounds of the node, which may have changed since it was set."""
        value, least, most = self._value_and_bounds(row)
        return min(max(value, least), most)

    def problems(self) -> list[str]:
        """What must hold and does not: one sentence each (row G13)."""
        return list(self._out_of_bounds()) or list(self._out_of_order())

    def _out_of_bounds(self) -> Iterator[str]:
        for name in self._own:
            value, least, most = self._value_and_bounds(self.rows()[name])
            if not least <= value <= most:
                lower, upper = _bounds(self.rows()[name])
                yield f"{name} = {value}: must be from {least} ({lower.name}) to {most} ({upper.name})"

    def _out_of_order(self) -> Iterator[str]:
        if self.consumer_session_timeout_ms <= self.consumer_heartbeat_interval_ms:
            yield (
                f"consumer.session.timeout.ms = {self.consumer_session_timeout_ms}: must be above "
                f"consumer.heartbeat.interval.ms = {self.consumer_heartbeat_interval_ms}"
            )

    def _value_and_bounds(self, row: Setting[int]) -> tuple[int, int, int]:
        lower, upper = _bounds(row)
        return (
            getattr(self, row.attribute),
            getattr(self._broker, lower.attribute),
            getattr(self._broker, upper.attribute),
        )


def _bounds(row: Setting[int]) -> tuple[Setting[int], Setting[int]]:
    """The node's settings that bound it."""
    assert isinstance(row, OwnSetting)
    return BOUNDS[row.fallbacks[0].row]
