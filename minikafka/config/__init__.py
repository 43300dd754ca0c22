"""Declared settings: every one is a single row that gives its name, type, default, range and documentation.

Map:

* ``kinds``       the types a setting may have: how text is parsed, checked and printed
* ``setting``     what a row is, and the base of a group of rows: typed attributes, unknown names, all problems at once
* ``node``        rows: who this node is, where it listens, connections
* ``security``    rows: protocols of listeners, TLS, who may do what
* ``sasl``        rows: how clients prove who they are; each also for one listener
* ``jaas``, ``principals``  logins, and users of certificates, in Kafka's notation
* ``stores``      formats of key stores and trust stores
* ``topics``      rows: defaults of topics, replication between brokers
* ``quorum``      rows: broker sessions and the controller quorum
* ``logs``        rows: segments, retention, flushing, cleaning
* ``groups``      rows: consumer groups and the offsets topic
* ``transactions``  rows: transactions and the topic of their states
* ``broker``      :class:`BrokerConfig`, all rows of a node and what must hold between them
* ``overrides``   settings of a topic or a group, each with the node's setting it falls back to
* ``topic``       :class:`TopicConfig`, the rows a topic may override
* ``group``       :class:`GroupConfig`, the rows a group may override
* ``sources``     ``.properties`` text, TOML text and environment variables to mappings that BrokerConfig takes

Nothing here reads a file, the environment or a clock: the caller does, and hands the text over.
"""

from __future__ import annotations

from minikafka.config.broker import BrokerConfig, secrets_in
from minikafka.config.group import GroupConfig
from minikafka.config.setting import ConfigEntry, ConfigError, ConfigSource, ConfigSynonym
from minikafka.config.sources import environment_settings, parse_properties, parse_toml
from minikafka.config.topic import TopicConfig

__all__ = [
    "BrokerConfig",
    "ConfigEntry",
    "ConfigError",
    "ConfigSource",
    "ConfigSynonym",
    "GroupConfig",
    "TopicConfig",
    "environment_settings",
    "parse_properties",
    "parse_toml",
    "secrets_in",
]
