"""Options: values, names, and errors that say which option, what is wrong and what to do."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from minikafka.client import Security
from minikafka.model import Compression, Isolation, TopicPartition
from minikafka.spark.options import (
    OPTIONS,
    AssignedPartitions,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    MatchingTopics,
    NamedTopics,
    OptionError,
    SinkOptions,
    SourceOptions,
)
from minikafka.spark.options.source import check_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:19092"}
BASE = SERVERS | {"subscribe": "a"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def batch(**given: str) -> SourceOptions:
    return SourceOptions.parse(
        BASE | {name.replace("_", "."): value for name, value in given.items()}, is_streaming=False
    )


def stream(**given: str) -> SourceOptions:
    return SourceOptions.parse(
        BASE | {name.replace("_", "."): value for name, value in given.items()}, is_streaming=True
    )


def test_defaults_are_those_of_sparks_source() -> None:
    assert (batch().start, batch().end) == (Edge.EARLIEST, Edge.LATEST)
    assert stream().start is Edge.LATEST
    assert stream().fail_on_data_loss
    assert not stream().include_headers
    assert stream().max_trigger_delay_ms == 900_000
    assert stream().topics == NamedTopics(("a",))


def test_case_does_not_matter() -> None:
    given = {
        "KAFKA.Bootstrap.SERVERS": "h:1",
        "SUBSCRIBE": "a",
        "startingoffsets": "EARLIEST",
        "includeheaders": "True",
    }
    parsed = SourceOptions.parse(given, is_streaming=True)
    assert parsed.start is Edge.EARLIEST
    assert parsed.include_headers


def test_topics_to_read_are_given_by_name_by_pattern_or_by_partition() -> None:
    assert SourceOptions.parse(SERVERS | {"subscribe": " a , b,a"}, is_streaming=True).topics == NamedTopics(("a", "b"))
    assert SourceOptions.parse(SERVERS | {"subscribePattern": "a.*"}, is_streaming=True).topics == MatchingTopics("a.*")
    assigned = SourceOptions.parse(SERVERS | {"assign": '{"a":[1,0]}'}, is_streaming=True).topics
    assert assigned == AssignedPartitions((A1, A0))


def test_which_bound_goes_first() -> None:
    offsets, times = '{"a":{"0":5,"1":-2}}', '{"a":{"0":1000,"1":"2000"}}'
    assert batch(startingOffsets=offsets).start == AtOffsets({A0: 5, A1: -2})
    assert batch(startingOffsets=offsets, startingOffsetsByTimestamp=times).start == AtTimestamps({A0: 1000, A1: 2000})
    assert batch(startingOffsetsByTimestamp=times, startingTimestamp="7").start == AtTimestamp(7)
    assert batch(endingOffsets='{"a":{"0":5,"1":-1}}').end == AtOffsets({A0: 5, A1: -1})
    assert batch(endingOffsetsByTimestamp=times, endingTimestamp="7").end == AtTimestamp(7)


def test_offsets_of_a_streams_progress_may_be_given() -> None:
    """What is said beside the topics means nothing there."""
    reported = '{"a":{"0":5,"1":6},"@epochs":{"a":{"0":3}},"@ids":{"a":"x"},"@from":{"a":{"0":0}}}'
    assert batch(startingOffsets=reported, endingOffsets=reported).end == AtOffsets({A0: 5, A1: 6})


def test_a_word_is_taken_in_any_case() -> None:
    assert batch(startingOffsetsByTimestampStrategy="LATEST", failOnDataLoss="FALSE").latest_when_no_timestamp


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("10 seconds", 10_000), ("500", 500), ("2 h", 7_200_000), ("1D", 86_400_000)]
)
def test_a_length_of_time_takes_the_units_of_spark(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_client_settings() -> None:
    client = stream(kafka_isolation_level="read_committed", kafka_fetch_max_bytes="2048").client
    assert client.bootstrap_servers == "127.0.0.1:19092"
    assert client.isolation_level is Isolation.READ_COMMITTED
    assert client.fetch_max_bytes == 2048
    assert stream(kafka_default_api_timeout_ms="9").client.max_block_ms == 9
    assert pickle.loads(pickle.dumps(stream())) == stream()


SASL = {"kafka.security.protocol": "SASL_PLAINTEXT"}


def test_a_query_logs_in() -> None:
    login = 'x.ScramLoginModule required username="alice" password="secret";'
    client = stream(kafka_security_protocol="SASL_PLAINTEXT", kafka_sasl_jaas_config=login).client
    assert client.security.login == ("alice", "secret")
    assert client.security.sasl_mechanism == "SCRAM-SHA-512"
    assert "secret" not in repr(client)


def test_settings_without_effect_and_of_the_other_side_are_taken() -> None:
    stream(
        kafka_group_id="g", groupIdPrefix="p", kafka_acks="1", kafka_compression_type="zstd", kafka_max_poll_records="5"
    )
    SinkOptions.parse(SERVERS | {"topic": "t", "kafka.group.id": "g", "kafka.fetch.max.bytes": "2048"})


def test_options_of_the_sink_reach_the_sink_and_its_client() -> None:
    given = {"topic": "t", "kafka.compression.type": "zstd", "kafka.batch.size": "2048", "deduplicationHeaders": "true"}
    parsed = SinkOptions.parse(SERVERS | given | {"checkpointLocation": "/x", "kafka.max.block.ms": "7"})
    assert (parsed.topic, parsed.compression, parsed.batch_bytes) == ("t", Compression.ZSTD, 2048)
    assert parsed.deduplication_headers
    assert parsed.client.max_block_ms == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOfsets": "earliest"}, "option 'startingOfsets' not found; did you mean 'startingOffsets'?"),
        ({"bootstrap.servers": "h:1"}, "did you mean 'kafka.bootstrap.servers'? Settings of the client begin with"),
        ({"kafka.fetch.max.byte": "1"}, "did you mean 'kafka.fetch.max.bytes'?"),
        ({"zzz": "1"}, "option 'zzz' not found; docs/spark-options.md lists all of them"),
        ({"assign": '{"a":[0]}'}, "options 'subscribe' and 'assign' exclude each other; set exactly one of"),
        ({"topic": "t"}, "option 'topic' is one of writing, not of reading; remove it"),
        ({"kafka.auto.offset.reset": "latest"}, "cannot be used: where to begin is said by 'startingOffsets'"),
        ({"kafka.enable.auto.commit": "true"}, "offsets are kept in Spark's checkpoint"),
        ({"kafka.key.deserializer": "X"}, "keys and values are bytes here"),
        ({"kafka.interceptor.classes": "X"}, "option 'kafka.interceptor.classes' cannot be used"),
        ({"kafka.security.protocol": "TLS"}, "options 'kafka.*': security.protocol is 'TLS'; it must be PLAINTEXT or"),
        ({"kafka.ssl.cipher.suites": "X"}, "option 'kafka.ssl.cipher.suites' cannot be used"),
        (
            {"kafka.ssl.truststore.type": "JKS", "kafka.security.protocol": "SSL"},
            "it must be PEM or PKCS12; make PKCS12 of it: keytool",
        ),
        ({"kafka.ssl.truststore.location": "/no", "kafka.security.protocol": "SSL"}, "/no: No such file"),
        ({"kafka.sasl.kerberos.service.name": "secret"}, "option 'kafka.sasl.kerberos.service.name' cannot be used"),
        ({"kafka.sasl.jaas.config": "secret"} | SASL, "options 'kafka.*': sasl.jaas.config must have a login module"),
        ({"kafka.sasl.mechanism": "GSSAPI"} | SASL, "sasl.mechanism is 'GSSAPI'; it must be one of PLAIN, SCRAM"),
        ({"kafka.sasl.password": "secret"} | SASL, "are not set; SCRAM-SHA-512 needs them"),
        ({"kafka.bootstrap.servers": "localhost"}, "it must be host:port,...; 'localhost' is not"),
        ({"failOnDataLoss": "yes"}, "option 'failOnDataLoss' is 'yes'; it must be true or false"),
        ({"minPartitions": "0"}, "option 'minPartitions' is '0'; it must be a whole number of 1 or more"),
        ({"startingOffsets": "begin"}, 'it must be earliest, latest, or JSON like {"topic":{"0":123,"1":-2}}'),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "-3 cannot stand there"),
        ({"startingOffsets": '{"a":{"x":3}}'}, "'x' is no partition"),
        ({"startingOffsets": '{"a b":{"0":3}}'}, "'a b' cannot be a topic"),
        ({"startingOffsetsByTimestamp": "5"}, 'it must be JSON like {"topic":{"0":1700000000000}}'),
        ({"startingOffsetsByTimestampStrategy": "no"}, "it must be one of error, latest"),
        ({"subscribe": ","}, "it must be topics separated by commas"),
        ({"startingTimestamp": "-1"}, "it must be milliseconds since 1970, a whole number of 0 or more"),
        ({"path": "a"}, "option 'path' cannot be used: topics are no files, so load() and save() are without a name"),
    ],
)
@pytest.mark.parametrize("is_streaming", [False, True])
def test_bad_options_of_the_source(given: dict[str, str], says: str, is_streaming: bool) -> None:
    with pytest.raises(OptionError) as raised:
        SourceOptions.parse(BASE | given, is_streaming=is_streaming)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value).replace("client.secret", "")


def test_bad_options_of_a_batch() -> None:
    for name, value, says in (
        ("startingOffsets", "latest", "a batch that begins there reads nothing"),
        ("startingOffsets", '{"a":{"0":-1}}', "-1 (latest) for a-0"),
        ("endingOffsets", "earliest", "a batch that ends there reads nothing"),
        ("endingOffsets", '{"a":{"0":-2}}', "-2 (earliest) for a-0"),
        ("maxOffsetsPerTrigger", "5", "is one of streaming queries (readStream); remove it"),
    ):
        with pytest.raises(OptionError) as raised:
            batch(**{name: value})
        assert says in str(raised.value)


def test_bad_options_of_a_stream() -> None:
    with pytest.raises(OptionError, match=r"'endingOffsets' is one of batch queries \(read\): a stream has no end"):
        stream(endingOffsets="latest")
    with pytest.raises(OptionError, match="'minOffsetsPerTrigger' is 9, more than 'maxOffsetsPerTrigger' 5"):
        stream(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")
    with pytest.raises(OptionError, match="it must be a length of time such as"):
        stream(maxTriggerDelay="soon")
    with pytest.raises(OptionError, match="it must be a regular expression"):
        SourceOptions.parse(SERVERS | {"subscribePattern": "("}, is_streaming=True)
    with pytest.raises(OptionError, match="it must be a regular expression: Possible set intersection"):
        SourceOptions.parse(SERVERS | {"subscribePattern": "[a-z&&[^x]]+"}, is_streaming=True)
    with pytest.raises(OptionError, match="no option says what to read"):
        SourceOptions.parse(SERVERS, is_streaming=True)
    with pytest.raises(OptionError, match=r"option 'kafka\.bootstrap\.servers' is missing"):
        SourceOptions.parse({"subscribe": "a"}, is_streaming=True)


def test_bad_options_of_the_sink() -> None:
    for name, value, says in (
        ("subscribe", "a", "is one of reading, not of writing"),
        ("topic", "a/b", "the name of a topic"),
        ("kafka.compression.type", "rar", "it must be one of none, gzip, snappy, lz4, zstd"),
        ("kafka.value.serializer", "X", "keys and values are bytes here"),
        ("kafka.transactional.id", "X", "the sink writes at least once"),
    ):
        with pytest.raises(OptionError) as raised:
            SinkOptions.parse(SERVERS | {name: value})
        assert says in str(raised.value)


def test_what_is_wrong_in_batch_and_streaming_alike_is_said_early() -> None:
    with pytest.raises(OptionError, match="option 'failOnDataLos' not found"):
        check_options(BASE | {"failOnDataLos": "true"})
    for fine in (
        {"endingOffsets": "latest"},
        {"maxOffsetsPerTrigger": "5"},
        {"endingOffsets": "x", "minOffsetsPerTrigger": "y"},
    ):
        check_options(BASE | fine)
    check_options({"topic": "t"})


def test_every_option_says_what_it_is() -> None:
    for option in OPTIONS:
        assert option.doc.strip()
        assert isinstance(option.default_shown, str)


def test_settings_on_which_somebody_may_rely_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092"}
    SinkOptions.parse(servers | {"kafka.acks": "all", "topic": "t"})
    assert not caplog.records
    SinkOptions.parse(servers | {"kafka.acks": "1", "topic": "t"})
    SourceOptions.parse(servers | {"kafka.group.id": "g", "subscribe": "t"}, is_streaming=True)
    assert [record.getMessage() for record in caplog.records] == [
        "option 'kafka.acks' is 1, but every row waits for all in-sync replicas",
        "option 'kafka.group.id' has no effect: no offset is committed to a group",
    ]


def test_all_that_a_client_can_be_told_of_security_is_an_option() -> None:
    known = {option.name.removeprefix("kafka.") for option in OPTIONS}
    told = {field.name.replace("_", ".") for field in fields(Security)}
    assert told - known == {"sasl.oauth.token"}, "a function"
