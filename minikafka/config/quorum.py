"""Settings: broker sessions and the controller quorum."""

from __future__ import annotations

from minikafka.config.kinds import integer
from minikafka.config.setting import Setting, SettingGroup


class QuorumSettings(SettingGroup):
    """Broker sessions and the controller quorum.

    All of it runs on monotonic time.
    """

    broker_session_timeout_ms = Setting(
        integer(1),
        3000,
        kafka="9000",
        doc="""A broker without a heartbeat for so long is fenced: it leaves ISRs and its leaderships move. This bounds
        the outage when a broker freezes or its link is cut (a killed one is noticed at once, its port refuses). Kafka
        allows for pauses of a JVM's garbage collector that do not occur here.""",
    )
    broker_heartbeat_interval_ms = Setting(
        integer(1),
        500,
        kafka="2000",
        doc="Pause between a broker's heartbeats; several must fit into broker.session.timeout.ms.",
    )
    controller_quorum_election_timeout_ms = Setting(
        integer(1),
        150,
        kafka="1000",
        doc="""A round of voting lasts between this and twice this, at random. A vote takes one disk sync and one round
        trip; longer rounds only lengthen an outage after a split vote.""",
    )
    controller_quorum_fetch_timeout_ms = Setting(
        integer(2),  # the leader may hold a fetch for half of it
        1000,
        kafka="2000",
        doc="A voter without a successful fetch from the active controller for so long calls an election.",
    )
    controller_quorum_election_backoff_max_ms = Setting(
        integer(1), 500, kafka="1000", doc="Most a candidate waits, at random, after a lost round of voting."
    )
    controller_quorum_request_timeout_ms = Setting(
        integer(1), 500, kafka="2000", doc="How long a search for the active controller waits for one voter's answer."
    )
    controller_quorum_retry_backoff_ms = Setting(
        integer(1), 20, doc="Pause before a failed request of the quorum is repeated."
    )
