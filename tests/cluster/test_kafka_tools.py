"""Kafka's own command-line tools for topics, settings, replicas and the cluster: every verb, and what it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cluster_tools import Tools, create, found, lines, rows
from live_cluster import eventually

from minikafka.chaos.layout import CONTROLLER_PORT_OFFSET
from minikafka.chaos.local_cluster import LocalCluster


def test_topics(tools: Tools, tooled: LocalCluster) -> None:
    settings = ("retention.ms=86400000", "cleanup.policy=compact,delete", "preallocate=false")
    made = [word for setting in settings for word in ("--config", setting)]
    said = tools("topics", "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3", *made)
    assert "Created topic orders." in said
    assert "already exists" in tools.refuses("topics", "--create", "--topic", "orders")
    tools("topics", "--create", "--topic", "orders", "--if-not-exists")
    create(tools, tooled, "placed", "1:2:3", "2:3:1")
    for words, why in [
        (("--config", "nonsense=1"), "Unknown topic config name: nonsense"),
        (("--config", "retention.ms=soon"), "Invalid value soon for configuration retention.ms: Not a number"),
        (("--config", "min.insync.replicas=0"), "Invalid value 0 for configuration min.insync.replicas"),
        (("--replication-factor", "5"), "registered: 3"),
        (("--replica-assignment", "1:2,3"), "Partition 1 has different replication factor: [3]"),
        (("--replica-assignment", "1:9"), "broker 9 is not registered"),
    ]:
        assert why in tools.refuses("topics", "--create", "--topic", "bad", *words)
    assert lines(tools("topics", "--list", "--topic", "orders|placed|bad")) == ["orders", "placed"]
    assert not re.search(r"^__", tools("topics", "--list", "--exclude-internal"), re.MULTILINE)
    described = tools("topics", "--describe", "--topic", "orders", "--partition-size-limit-per-response", "1")
    assert "PartitionCount: 3\tReplicationFactor: 3\tConfigs: " in described
    assert all(setting in described for setting in ("cleanup.policy=compact,delete", "retention.ms=86400000"))
    assert re.findall(r"Partition: (\d)", described) == ["0", "1", "2"]
    placed = tools("topics", "--describe", "--topic", "placed")
    assert "Partition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1\tElr: \tLastKnownElr:" in placed
    assert "orders" in tools("topics", "--describe", "--topics-with-overrides")
    for wrong in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert tools("topics", "--describe", wrong) == ""
    tools("topics", "--alter", "--topic", "placed", "--partitions", "3", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
    assert "Partition: 2\tLeader: 3\tReplicas: 3,1,2" in tools("topics", "--describe", "--topic", "placed")
    assert "placed" in tools.refuses("topics", "--alter", "--topic", "placed", "--partitions", "2")
    assert "does not exist" in tools.refuses("topics", "--delete", "--topic", "absent")
    tools("topics", "--delete", "--topic", "absent", "--if-exists")
    tools("topics", "--delete", "--topic", "placed")
    assert "placed" not in tools("topics", "--list")


def test_settings_of_topics_and_brokers(tools: Tools, tooled: LocalCluster) -> None:
    create(tools, tooled, "set", "1:2:3")
    topic = ("--entity-type", "topics", "--entity-name", "set")
    tools("configs", "--alter", *topic, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    described = tools("configs", "--describe", *topic)
    assert "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}\n" in described
    default = "DEFAULT_CONFIG:log.cleanup.policy=delete"
    assert f"synonyms={{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, {default}}}" in described
    everything = tools("configs", "--describe", *topic, "--all")
    assert "  segment.ms=604800000 sensitive=false synonyms={}\n" in everything
    tools("configs", "--alter", *topic, "--delete-config", "retention.ms,no.such.setting")
    assert "retention.ms" not in tools("configs", "--describe", "--topic", "set")
    assert "InvalidConfiguration" in tools.refuses("configs", "--alter", *topic, "--add-config", "retention.ms=soon")
    assert "doesn't exist" in tools("configs", "--describe", "--topic", "absent")

    one, everyone = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
    tools("configs", "--alter", *everyone, "--add-config", "log.retention.ms=7200000")
    said = (
        "  log.retention.ms=7200000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7200000}\n"
    )
    assert said in tools("configs", "--describe", *everyone)
    assert said in tools("configs", "--describe", "--entity-type", "brokers")
    assert "  retention.ms=7200000 " in tools("configs", "--describe", *topic, "--all")
    tools("configs", "--alter", *one, "--add-config", "leader.replication.throttled.rate=1000000")
    assert "leader.replication.throttled.rate=1000000" in tools("configs", "--describe", *one)
    tools("configs", "--alter", *one, "--delete-config", "leader.replication.throttled.rate")
    tools("configs", "--alter", *everyone, "--delete-config", "log.retention.ms")
    assert "retention" not in tools("configs", "--describe", *everyone)
    assert "log.retention.ms=null" in tools("configs", "--describe", *one, "--all")
    assert "node.id" in tools.refuses("configs", "--alter", *one, "--add-config", "node.id=4")

    loggers = ("--entity-type", "broker-loggers", "--entity-name", "2")
    tools("configs", "--alter", *loggers, "--add-config", "root=WARN")
    assert "  root=WARN sensitive=false synonyms={}\n" in tools("configs", "--describe", *loggers)
    assert "'LOUD'" in tools.refuses("configs", "--alter", *loggers, "--add-config", "root=LOUD")
    tools("configs", "--alter", *loggers, "--add-config", "root=INFO")


def test_quotas_of_clients_and_what_there_is_without_security(tools: Tools, file: Path) -> None:
    client, both = ("--entity-type", "clients", "--entity-name", "c"), ("--user", "u", "--client", "c")
    tools("configs", "--alter", *client, "--add-config", "producer_byte_rate=1000000,consumer_byte_rate=2000000")
    tools("configs", "--alter", *both, "--add-config", "request_percentage=200")
    tools(
        "configs", "--alter", "--entity-type", "users", "--entity-default", "--add-config", "controller_mutation_rate=9"
    )
    rates = "consumer_byte_rate=2000000.0, producer_byte_rate=1000000.0"
    assert f"Quota configs for client-id 'c' are {rates}" in tools("configs", "--describe", "--entity-type", "clients")
    assert "user-principal 'u', client-id 'c' are request_percentage=200.0" in tools("configs", "--describe", *both)
    assert "default user-principal are controller_mutation_rate=9.0" in tools(
        "configs", "--describe", "--user-defaults"
    )
    tools("configs", "--alter", *client, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    tools("configs", "--alter", *both, "--delete-config", "request_percentage")
    tools("configs", "--alter", "--user-defaults", "--delete-config", "controller_mutation_rate")
    assert tools("configs", "--describe", "--entity-type", "users", "--entity-type", "clients").strip() == ""
    assert tools("configs", "--describe", "--entity-type", "users").strip() == "", "nor SCRAM credentials"
    user, password = ("--entity-type", "users", "--entity-name", "alice"), "SCRAM-SHA-256=[iterations=8192,password=x]"
    tools("configs", "--alter", *user, "--add-config", password)
    described = tools("configs", "--describe", "--entity-type", "users")
    assert described.strip() == "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192"
    tools("configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    refused = tools.refuses("configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert "ResourceNotFoundException: Attempt to delete a user credential that does not exist" in refused
    assert tools("client-metrics", "--list").strip() == ""
    for verb in ("--list",), ("--add", "--allow-principal", "User:b", "--operation", "Read", "--topic", "t"):
        assert "SecurityDisabledException: No Authorizer is configured" in tools.refuses("acls", *verb)
    file.touch()
    create = ("--create", "--max-life-time-period", "-1", "--command-config", str(file))
    assert "Delegation Token requests are not allowed on PLAINTEXT" in tools.refuses("delegation-tokens", *create)


def test_placement_of_replicas(tools: Tools, tooled: LocalCluster, file: Path) -> None:
    create(tools, tooled, "moved", "1:2", "2:3")
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    proposed = tools(
        "reassign-partitions", "--generate", "--topics-to-move-json-file", str(file), "--broker-list", "1,3"
    )
    current, plan = map(json.loads, re.findall(r"^\{.*\}$", proposed, re.MULTILINE))
    assert [each["replicas"] for each in current["partitions"]] == [[1, 2], [2, 3]]
    assert all(set(each["replicas"]) == {1, 3} for each in plan["partitions"])
    file.write_text(json.dumps(plan))
    with_plan = ("--reassignment-json-file", str(file))
    throttles = ("--throttle", "1000000", "--replica-alter-log-dirs-throttle", "1000000")
    started = tools("reassign-partitions", "--execute", *with_plan, *throttles)
    assert "Successfully started partition reassignments for moved-0,moved-1" in started
    assert "leader.replication.throttled.rate=1000000" in tools("configs", "--describe", "--broker", "1")

    def verified() -> bool:
        return tools("reassign-partitions", "--verify", *with_plan).count("is completed.") == 2

    eventually(verified, "the end of the reassignment")
    assert "No partition reassignments found." in tools("reassign-partitions", "--list")
    assert "throttled" not in tools("configs", "--describe", "--broker", "1")
    assert "None of the specified" in tools("reassign-partitions", "--cancel", *with_plan)
    plan["partitions"][0]["replicas"] = [1, 9]
    file.write_text(json.dumps(plan))
    assert "Unknown broker id 9" in tools.refuses("reassign-partitions", "--execute", *with_plan)

    file.write_text(json.dumps({"partitions": [{"topic": "moved", "partition": 0}]}))
    election = tools("leader-election", "--election-type", "preferred", "--path-to-json-file", str(file))
    assert "partitions moved-0" in election
    tools("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    again = tools("leader-election", "--election-type", "preferred", "--topic", "moved", "--partition", "0")
    assert "Valid replica already elected for partitions moved-0" in again
    unclean = tools("leader-election", "--election-type", "unclean", "--topic", "moved", "--partition", "0")
    assert "Valid replica already elected for partitions moved-0" in unclean
    absent = ("--topic", "absent", "--partition", "0")
    assert "UnknownTopicOrPartition" in tools.refuses("leader-election", "--election-type", "preferred", *absent)

    said = tools("log-dirs", "--describe", "--topic-list", "moved", "--broker-list", "1,2,3")
    brokers = json.loads(said.splitlines()[-1])["brokers"]
    held = {each["broker"]: [row["partition"] for row in each["logDirs"][0]["partitions"]] for each in brokers}
    assert {broker: sorted(names) for broker, names in held.items()} == {
        1: ["moved-0", "moved-1"],
        2: [],
        3: ["moved-0", "moved-1"],
    }
    assert "do not exist" in tools.refuses("log-dirs", "--describe", "--broker-list", "9")


def test_the_cluster_itself(tools: Tools, tooled: LocalCluster) -> None:
    status = tools("metadata-quorum", "describe", "--status")
    assert re.search(rf"LeaderId: +{tooled.controller()}\n", status)
    assert status.count("CONTROLLER://127.0.0.1:") == 3
    replicas = rows(tools("metadata-quorum", "describe", "--replication"))
    assert sorted((row[0], row[-1]) for row in replicas) == sorted(
        (str(node), "Leader" if node == tooled.controller() else "Follower") for node in tooled.node_ids
    )
    assert "ms ago" in tools("metadata-quorum", "describe", "--replication", "--human-readable")

    def level() -> str:
        return found(r"transaction.version +.*FinalizedVersionLevel: (\d)", tools("features", "describe"))

    assert level() == "2"
    assert "can be downgraded to 1" in tools("features", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert level() == "2"
    assert "was downgraded to 1" in tools("features", "downgrade", "--feature", "transaction.version=1")
    assert level() == "1"
    assert "was upgraded to 2" in tools("features", "upgrade", "--feature", "transaction.version=2")
    assert "Could not upgrade nonsense" in tools.refuses("features", "upgrade", "--feature", "nonsense=2")
    assert "group.version=1" in tools("features", "version-mapping", at=None)

    here = ("--bootstrap-server", tools.servers)
    assert found(r"ClusterId: +(\S+)", status) in tools("cluster", "cluster-id", *here, at=None)
    ports = [str(tooled.layout.client_port(node)) for node in tooled.node_ids]
    endpoints = rows(tools("cluster", "list-endpoints", *here, "--include-fenced-brokers", at=None))
    assert [row[2] for row in endpoints] == ports
    assert "not registered" in tools.refuses("cluster", "unregister", *here, "--id", "9", at=None)
    versions = tools("broker-api-versions")
    assert len(re.findall(r"^127\.0\.0\.1:\d+ \(id: \d ", versions, re.MULTILINE)) == 3
    assert "\tFetch(1): 4 to 18 [usable: 18],\n" in versions

    controller = ("--bootstrap-controller", f"127.0.0.1:{tooled.layout.client_port(1) + CONTROLLER_PORT_OFFSET}")
    refused = tools.refuses("metadata-quorum", *controller, "describe", "--status", at=None)
    assert "does not support DESCRIBE_CLUSTER" in refused, "at once, not after a minute"
