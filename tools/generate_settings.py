"""Write ``docs/settings.md`` from the declared settings.

python tools/generate_settings.py            # rewrite the page
python tools/generate_settings.py --check    # exit 1 when the committed page differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minikafka.config import BrokerConfig, GroupConfig, TopicConfig
from minikafka.config.broker import WITHOUT_EFFECT
from minikafka.config.overrides import OwnConfig, OwnSetting
from minikafka.config.setting import Setting, SettingGroup

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

HEAD = """# Settings

Generated from `minikafka/config/` by `tools/generate_settings.py`; do not edit.

Names and meanings are Apache Kafka's, and so are the defaults unless the table names Kafka's beside ours. A node takes
its settings, later sources first, from

1. its file: TOML, with dotted names or tables that spell them, or Java `.properties`;
2. the environment: `MINIKAFKA_LOG_DIRS` for `log.dirs`;
3. `--set log.dirs=/data` on the command line.

A node that is given a setting it does not know, or a value it cannot use, says which and does not start. Settings of
Apache Kafka about its threads and buffers are taken, with a warning, and change nothing: WITHOUT_EFFECT.

**dynamic** settings can also be changed on the running cluster, for one broker or for all (IncrementalAlterConfigs),
and topics may override most of them by the names in the last table. Those marked **restart** are dynamic in Apache
Kafka; here a node reads them when it starts. So it does with all others, there and here.
"""

TOPIC_HEAD = """
## Topics

What a topic may override, at its creation or later. Without its own value a topic takes that of the node's setting.

| Setting | Node's setting | Allowed | Meaning |
|---|---|---|---|
"""

GROUP_HEAD = """
## Groups of consumers, each by itself

What a consumer group of the newer protocol may have of its own (`kafka-configs --entity-type groups`), whether it
exists yet or not. It goes for each member from its next heartbeat on, and outlives the group. 10,000 groups may have
such settings, with ids of 1,000 characters at most. There are no settings of share groups and of streams groups.

| Setting | Node's setting | Allowed | Meaning |
|---|---|---|---|
"""


DYNAMIC_IN_KAFKA = frozenset(
    {
        "listener.security.protocol.map",
        "listeners",
        "num.replica.fetchers",
        "sasl.enabled.mechanisms",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Of ``DynamicBrokerConfig.AllDynamicConfigs`` of Apache Kafka 4.3.1: those that are here, and read at the start."""


def render() -> str:
    """The page as it should be."""
    assert not any(BrokerConfig.rows()[name].dynamic for name in DYNAMIC_IN_KAFKA)
    groups = [_group(group) for group in BrokerConfig.__bases__]
    head = HEAD.replace("WITHOUT_EFFECT", ", ".join(map(_code, WITHOUT_EFFECT)))
    return "".join([head, *groups, TOPIC_HEAD, *_own_rows(TopicConfig), GROUP_HEAD, *_own_rows(GroupConfig)])


def _group(group: type) -> str:
    assert issubclass(group, SettingGroup)
    title = (group.__doc__ or "").strip().splitlines()[0].rstrip(".")
    rows = "".join(f"{_row(row)}\n" for row in group.rows().values())
    return f"\n## {title}\n\n| Setting | Default | Allowed | Meaning |\n|---|---|---|---|\n{rows}"


def _row(row: Setting[Any]) -> str:
    default = _code(row.kind.format(row.default))
    if row.kafka is not None:
        default += f" (Kafka: {row.kafka})"
    mark = " **dynamic**" if row.dynamic else " **restart**" if row.name in DYNAMIC_IN_KAFKA else ""
    name = _code(row.name) + mark
    return f"| {name} | {default} | {_escaped(row.kind.allowed)} | {_escaped(row.doc)} |"


def _own_rows(config: type[OwnConfig]) -> Iterator[str]:
    for row in config.rows().values():
        assert isinstance(row, OwnSetting)
        fallbacks = ", ".join(_code(fallback.row.name) for fallback in row.fallbacks) or "none"
        yield f"| {_code(row.name)} | {fallbacks} | {_escaped(row.kind.allowed)} | {_escaped(row.doc)} |\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else "none"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    if "--check" in arguments:
        return int(not PAGE.exists() or PAGE.read_text() != render())
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
