"""The hash of a group's topics."""

from __future__ import annotations

from consumer_driver import SomeTopics

from minikafka.groups.consumer.topics import NoTopics, TopicHashes, Topics


def metadata_hash(topics: Topics, names: list[str]) -> int:
    return TopicHashes(topics).of(names)


def test_every_change_of_a_topic_is_another_hash() -> None:
    topics = SomeTopics()
    assert metadata_hash(topics, ["t"]) == metadata_hash(NoTopics(), ["t"]) == 0
    seen = [0]
    for partitions, racks in ((1, ()), (2, ()), (2, (frozenset("a"), frozenset("b"))), (2, (frozenset("a"),) * 2)):
        topics.make("t", partitions, racks)
        seen.append(metadata_hash(topics, ["t"]))
    del topics.by_name["t"]
    topics.make("t", 2)
    seen.append(metadata_hash(topics, ["t"]))
    assert len(set(seen)) == len(seen), "made again, it has another id"
    topics.make("u", 1)
    assert metadata_hash(topics, ["u", "t"]) == metadata_hash(topics, ["t", "u"]) != seen[-1]
    assert all(-(2**63) <= each < 2**63 for each in seen)


def test_a_topic_is_hashed_once_until_topics_change() -> None:
    topics = SomeTopics()
    topics.make("t", 1)
    hashes = TopicHashes(topics)
    before = hashes.of(["t", "nowhere"])
    assert hashes.partitions_of(["t", "nowhere"]) == 1
    topics.make("t", 2)
    assert hashes.of(["t"]) == before
    hashes.forget()
    assert hashes.of(["t"]) != before
    assert hashes.partitions_of(["t"]) == 2
