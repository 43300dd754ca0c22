"""Topics in answers to Metadata, encoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage, TopicImage
from minikafka.wire.hot import EncodedTopics
from minikafka.wire.messages.metadata import MetadataResponseTopic


class TopicEncodings:
    """The last encoding of each topic. It also depends on the brokers that are alive."""

    def __init__(self) -> None:
        self._brokers: object = None
        self._encoded = EncodedTopics()

    def encoded(
        self,
        image: MetadataImage,
        topic: TopicImage,
        version: int,
        asked: Hashable,
        make: Callable[[], MetadataResponseTopic],
    ) -> bytes:
        """The topic's part of a response; ``make`` encodes it if it is not known. What else of the request it depends
        on is ``asked``."""
        if image.brokers is not self._brokers:
            self._brokers = image.brokers
            self._encoded = EncodedTopics()
        return self._encoded.encoded(version, topic.name, asked, topic, make)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Topics are deleted."""
        for topic in delta.deleted_topics:
            self._encoded.forget(topic.name)
