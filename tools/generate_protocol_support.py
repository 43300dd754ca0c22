"""Writes docs/protocol-support.md: every API the broker serves, its versions, and what its handler leaves out.

    python tools/generate_protocol_support.py [--check]

The text of each row is the first paragraph of the handler's module. ``--check`` only compares, and exits with 1 when
the page is not what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minikafka.broker.dispatch import handler_module
from minikafka.config.node import CLIENT
from minikafka.wire.api import ApiKey

PAGE = Path(__file__).parent.parent / "docs" / "protocol-support.md"

HEAD = """# Protocol support

APIs of the CLIENT listener. Written by `tools/generate_protocol_support.py`; do not edit. Row ids are those of
[semantics.md](semantics.md). The last column is what whoever asks must be allowed to do, on nodes with an authorizer
([security.md](security.md)).

| key | API | versions | | rights |
|---|---|---|---|---|
"""

FOOT = """
Brokers ask each other for Fetch, ListOffsets and OffsetForLeaderEpoch on the REPLICATION listener, after SaslHandshake
and SaslAuthenticate with the cluster's secret. Other listeners refuse followers' fetches. Answers to followers carry
the end offset of their records in a tagged field of our own
([0018](decisions/0018-a-leader-tells-followers-where-an-answer-ends.md)).

Brokers send AlterPartition, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds and AssignReplicasToDirs to the
active controller on the CONTROLLER listener. They forward clients' changes of metadata the same way. The framing of
that listener is our own; the messages inside are Kafka's. A client that speaks Kafka's protocol there
(`--bootstrap-controller`) is answered ApiVersions without anything else, so that it ends at once.

Kafka's own command-line tools (4.3.1) are tested with every verb, by `tests/cluster/test_kafka_tools.py` and
`test_kafka_tools_on_records.py`. What they cannot do here: delegation tokens (refused as by
Apache Kafka without `delegation.token.secret.key`), quotas of IP addresses, and changes of the quorum's
voters. Of `broker-loggers` (`kafka-configs.sh`) a node has one, `root`.

Not served, and not announced: telemetry, and the group protocols of KIP-932 and KIP-1071.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_row(key) for key in sorted(ApiKey) if CLIENT in key.listeners) + FOOT


def _row(key: ApiKey) -> str:
    served, offered = key.versions, key.announced_versions
    versions = f"{served.first}-{served.last}" if served.first < served.last else str(served.first)
    if offered != served:
        versions += f" (offered from {offered.first})"
    module = handler_module(key)
    summary = (module.__doc__ or "").split("\n\n")[0].split(": ", 1)[1]
    rights = "; ".join(dict.fromkeys(map(str, module.AUTHORIZATION)))
    return f"| {int(key)} | {key.camel_name} | {versions} | {' '.join(summary.split())} | {rights} |\n"


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
