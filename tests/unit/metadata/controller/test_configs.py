"""Settings of topics and groups, and dynamic settings of brokers."""

from __future__ import annotations

from typing import Any

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode
from minikafka.metadata.controller import configs as controller_configs
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.image import ConfigResource
from minikafka.metadata.records import ConfigResourceType
from minikafka.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest
from minikafka.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from minikafka.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SET, DELETE, APPEND, SUBTRACT = AlterConfigOp


def alter(
    cluster: Any, resource_type: int, name: str, *operations: tuple[Any, ...], validate_only: bool = False
) -> AlterConfigsResourceResponse:
    """An operation has a name, what to do, and a value, or none."""
    change = ask.change(resource_type, name, *((*one, None)[:3] for one in operations))
    result: AlterConfigsResourceResponse = cluster.ask(ask.alter(change, validate_only=validate_only)).responses[0]
    return result


def broker_overrides(cluster: Any, name: str) -> Any:
    return cluster.image.config_of(ConfigResource(ConfigResourceType.BROKER, name))


@pytest.fixture
def topic(cluster: Any) -> Any:
    cluster.create("t", (1, 2))
    return cluster


def test_set_and_delete(topic: Any) -> None:
    assert alter(topic, TOPIC, "t", ("flush.ms", SET, "05"), ("segment.ms", SET, "7")).error_code == ErrorCode.NONE
    assert topic.image.topic_overrides("t") == {"flush.ms": "5", "segment.ms": "7"}
    alter(topic, TOPIC, "t", ("flush.ms", DELETE), ("retention.ms", DELETE))
    assert topic.image.topic_overrides("t") == {"segment.ms": "7"}
    assert alter(topic, TOPIC, "t", ("no.such", DELETE)).error_code == ErrorCode.NONE, "as in Kafka"


def test_append_and_subtract_begin_from_the_value_in_effect(topic: Any) -> None:
    alter(topic, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert topic.image.topic_overrides("t") == {"cleanup.policy": "delete,compact"}
    alter(topic, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert topic.image.topic_overrides("t") == {"cleanup.policy": "delete,compact"}
    alter(topic, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert topic.image.topic_overrides("t") == {"cleanup.policy": "compact"}
    alter(topic, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact"))
    assert topic.image.topic_overrides("t") == {"cleanup.policy": ""}


def test_settings_of_a_topic_must_not_contradict_one_another(topic: Any) -> None:
    alter(topic, TOPIC, "t", ("max.compaction.lag.ms", SET, "5"))
    refused = alter(topic, TOPIC, "t", ("min.compaction.lag.ms", SET, "6"))
    message = "min.compaction.lag.ms = 6 is more than max.compaction.lag.ms = 5"
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_CONFIG, message)
    assert alter(topic, TOPIC, "t", ("min.compaction.lag.ms", SET, "5")).error_code == ErrorCode.NONE
    alone = alter(topic, TOPIC, "t", ("max.compaction.lag.ms", DELETE), ("min.compaction.lag.ms", SET, "6"))
    assert alone.error_code == ErrorCode.NONE


def test_somebody_may_connect(cluster: Any) -> None:
    none, few = ("max.connections.per.ip", SET, "0"), ("max.connections.per.ip.overrides", SET, "127.0.0.1:7")
    assert alter(cluster, BROKER, "", none).error_code == ErrorCode.INVALID_CONFIG
    assert alter(cluster, BROKER, "", none, few).error_code == ErrorCode.NONE
    assert alter(cluster, BROKER, "", (few[0], DELETE)).error_code == ErrorCode.INVALID_CONFIG


def test_what_is_not_there_may_be_off_only(topic: Any) -> None:
    refused = alter(topic, TOPIC, "t", ("remote.storage.enable", SET, "true"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "there is no tiered storage" in refused.error_message
    assert alter(topic, TOPIC, "t", ("remote.storage.enable", SET, "false")).error_code == ErrorCode.NONE
    local = ("local.retention.ms", SET, "-2"), ("local.retention.bytes", SET, "1000")
    assert alter(topic, TOPIC, "t", *local).error_code == ErrorCode.NONE


def test_all_settings_are_replaced_at_once(topic: Any) -> None:
    alter(topic, TOPIC, "t", ("flush.ms", SET, "5"), ("segment.ms", SET, "7"))

    def replace(*configs: AlterableConfig, **how: Any) -> tuple[int, str | None]:
        resource = ReplacedResource(resource_type=TOPIC, resource_name="t", configs=list(configs))
        (result,) = topic.ask(AlterConfigsRequest(resources=[resource], **how)).responses
        return result.error_code, result.error_message

    kept, added = AlterableConfig(name="segment.ms", value="8"), AlterableConfig(name="retention.ms", value="9")
    assert replace(kept, added, validate_only=True) == (0, None)
    assert topic.image.topic_overrides("t") == {"flush.ms": "5", "segment.ms": "7"}
    assert replace(kept, added, AlterableConfig(name="flush.ms", value=None))[0] == ErrorCode.INVALID_REQUEST
    assert topic.image.topic_overrides("t") == {"flush.ms": "5", "segment.ms": "7"}
    assert replace(kept, added) == (0, None)
    assert topic.image.topic_overrides("t") == {"segment.ms": "8", "retention.ms": "9"}
    assert replace(AlterableConfig(name="no.such", value="1"))[0] == ErrorCode.INVALID_CONFIG
    assert replace(kept, kept)[0] == ErrorCode.INVALID_REQUEST
    assert topic.image.topic_overrides("t") == {"segment.ms": "8", "retention.ms": "9"}
    assert replace() == (0, None)
    assert topic.image.topic_overrides("t") == {}


def test_what_does_not_change_is_not_recorded(topic: Any) -> None:
    alter(topic, TOPIC, "t", ("flush.ms", SET, "5"))
    command = ask.alter(ask.change(TOPIC, "t", ("flush.ms", SET, "5")))
    assert topic.handle(command).records == ()


def test_validate_only(topic: Any) -> None:
    assert alter(topic, TOPIC, "t", ("flush.ms", SET, "5"), validate_only=True).error_code == ErrorCode.NONE
    assert alter(topic, TOPIC, "t", ("flush.ms", SET, "x"), validate_only=True).error_code == ErrorCode.INVALID_CONFIG
    assert topic.image.topic_overrides("t") == {}


@pytest.mark.parametrize(
    ("resource_type", "name", "operation", "code"),
    [
        (TOPIC, "u", ("flush.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "t", ("flush.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("flush.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("flush.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("flush.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("no.such", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", ("node.id", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("flush.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "9", ("message.max.bytes", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ("message.max.bytes", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "9" * 5000, ("message.max.bytes", SET, "1"), ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ("a", SET, "1"), ErrorCode.INVALID_REQUEST),
        (GROUP, "", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", (SESSION, SET, "44999"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", (SESSION, SET, "60001"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", (INTERVAL, SET, "4999"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", (INTERVAL, SET, "15001"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", (INTERVAL, SET, "soon"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", (INTERVAL, APPEND, "5000"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ("group.consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ("consumer.assignment.interval.ms", SET, "15001"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", ("group.consumer.assignment.interval.ms", SET, "15001"), ErrorCode.INVALID_CONFIG),
        (BROKER, "", ("group.consumer.max.assignment.interval.ms", SET, "20000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("share.session.timeout.ms", SET, "45000"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_wrong_change_of_settings_is_refused_and_changes_nothing(
    topic: Any, resource_type: int, name: str, operation: tuple[Any, ...], code: ErrorCode
) -> None:
    result = alter(topic, resource_type, name, ("segment.ms", DELETE), operation) if resource_type == TOPIC else None
    result = result or alter(topic, resource_type, name, operation)
    assert result.error_code == code
    assert result.error_message
    assert not topic.image.configs


def test_settings_of_a_group_that_need_not_be_there(topic: Any) -> None:
    assert alter(topic, GROUP, "g", (SESSION, SET, "50000"), (INTERVAL, SET, "05000")).error_code == ErrorCode.NONE
    group = ConfigResource(ConfigResourceType.GROUP, "g")
    assert topic.image.config_of(group) == {SESSION: "50000", INTERVAL: "5000"}
    replaced = ReplacedResource(
        resource_type=GROUP, resource_name="g", configs=[AlterableConfig(name=INTERVAL, value="6000")]
    )
    assert topic.ask(AlterConfigsRequest(resources=[replaced])).responses[0].error_code == ErrorCode.NONE
    assert topic.image.config_of(group) == {INTERVAL: "6000"}
    alter(topic, GROUP, "g", (INTERVAL, DELETE), (SESSION, DELETE))
    assert not topic.image.configs


def test_so_many_groups_may_have_settings(topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made up groups filled the memory of all nodes, and again after each start."""
    monkeypatch.setattr(controller_configs, "GROUPS_MAX", 2)
    changes = [ask.change(GROUP, name, (SESSION, SET, "50000")) for name in ("a", "x" * 1001, "b", "c")]
    fates = [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert [each.error_code for each in topic.ask(ask.alter(*changes)).responses] == fates
    assert alter(topic, GROUP, "d", (SESSION, SET, "50000")).error_code == ErrorCode.POLICY_VIOLATION
    assert alter(topic, GROUP, "a", (INTERVAL, SET, "6000")).error_code == ErrorCode.NONE
    alter(topic, GROUP, "a", (INTERVAL, DELETE), (SESSION, DELETE))
    assert alter(topic, GROUP, "x" * 1000, (SESSION, SET, "50000")).error_code == ErrorCode.NONE


def test_a_setting_or_a_resource_named_twice(topic: Any) -> None:
    twice = alter(topic, TOPIC, "t", ("flush.ms", SET, "5"), ("flush.ms", DELETE))
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    one = ask.change(TOPIC, "t")
    results = topic.ask(ask.alter(one, one, ask.change(BROKER, ""))).responses
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_settings_of_many_are_written_at_once(topic: Any, writes: list[int]) -> None:
    """Each write copies the table of all resources with settings, and there may be 100,000 groups."""
    for index in range(20):
        topic.create(f"t{index}", (1, 2))
    writes.clear()
    changes = [ask.change(GROUP, f"g{index}", (SESSION, SET, "50000")) for index in range(20)]
    changes += [ask.change(TOPIC, f"t{index}", ("min.insync.replicas", SET, "2")) for index in range(20)]
    results = topic.ask(ask.alter(*changes)).responses
    assert {result.error_code for result in results} == {ErrorCode.NONE}
    assert len(topic.image.configs) == len(changes)
    assert len(writes) <= 4, "the settings, what is settled, new epochs"
    assert topic.partition(0, "t19").partition_epoch == topic.partition().partition_epoch + 1


def test_brokers_one_or_all(topic: Any) -> None:
    alter(topic, BROKER, "", ("log.retention.ms", SET, "5"))
    alter(topic, BROKER, "1", ("log.retention.ms", SET, ""), ("message.max.bytes", SET, "7"))
    assert broker_overrides(topic, "") == {"log.retention.ms": "5"}
    assert broker_overrides(topic, "1") == {"log.retention.ms": "", "message.max.bytes": "7"}


def test_allowing_unclean_election_elects(topic: Any) -> None:
    topic.fence(2)
    topic.fence(1)
    topic.heartbeat(2)
    assert topic.partition().leader == -1
    alter(topic, BROKER, "", ("unclean.leader.election.enable", SET, "true"))
    assert (topic.partition().leader, topic.partition().isr) == (2, (2,))


@pytest.mark.spec("P1")
def test_a_minimum_that_one_node_is_configured_with_goes_for_all(new_cluster: Any) -> None:
    cluster = new_cluster(min_insync_replicas=2)
    everybody = ConfigResource(ConfigResourceType.BROKER, "")
    assert cluster.image.config_of(everybody) == {"min.insync.replicas": "2"}
    cluster.fail_over()
    assert cluster.image.config_of(everybody) == {"min.insync.replicas": "2"}
    cluster.join(1)
    operations = (("min.insync.replicas", 0, "1"),)
    own = ask.alter(ask.change(ConfigResourceType.BROKER, "1", *operations))
    assert cluster.ask(own).responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert new_cluster().image.config_of(everybody) == {}


@pytest.mark.spec("P1")
def test_a_configured_minimum_is_there_as_soon_as_another_is_taken_back(new_cluster: Any) -> None:
    """For a moment there was none: then no replica stayed eligible, and every partition got a new epoch."""
    cluster = new_cluster(min_insync_replicas=2)
    for node in (1, 2, 3):
        cluster.join(node)
    cluster.create("t", (1, 2, 3))
    cluster.propose((1,))
    before = cluster.partition()
    assert before.elr == (2, 3)
    assert alter(cluster, BROKER, "", ("min.insync.replicas", DELETE, None)).error_code == ErrorCode.NONE
    assert cluster.partition() == before
    assert cluster.image.config_of(ConfigResource(ConfigResourceType.BROKER, "")) == {"min.insync.replicas": "2"}


@pytest.mark.spec("P1")
def test_a_raised_minimum_voids_proposals_and_a_lowered_one_ends_eligibility(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3), configs=(("min.insync.replicas", "2"),))
    cluster.propose((1,))
    assert cluster.partition().elr == (2, 3)
    cluster.alter("t", min_insync_replicas="1")
    assert cluster.partition().elr == ()
    known = cluster.partition().partition_epoch
    cluster.alter("t", min_insync_replicas="3")
    assert cluster.propose((1, 2), partition_epoch=known).error_code == ErrorCode.INVALID_UPDATE_VERSION
    cluster.alter("t", retention_ms="1000")
    assert cluster.propose((1, 2), partition_epoch=known + 1).error_code == ErrorCode.NONE


@pytest.mark.spec("P1")
def test_a_minimum_raised_for_all_voids_proposals_of_topics_that_go_by_it(cluster: Any) -> None:
    cluster.create("own", (1, 2, 3), configs=(("min.insync.replicas", "2"),))
    cluster.create("shared", (1, 2, 3))
    epochs = {name: cluster.partition(topic=name).partition_epoch for name in ("own", "shared")}
    for value, renewals in (("3", 1), ("3", 1), ("2", 1), ("2", 1), ("3", 2)):
        assert alter(cluster, BROKER, "", ("min.insync.replicas", SET, value)).error_code == ErrorCode.NONE
        assert cluster.partition(topic="own").partition_epoch == epochs["own"]
        assert cluster.partition(topic="shared").partition_epoch == epochs["shared"] + renewals
