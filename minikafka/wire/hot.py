"""Ways around encoding the same thing, or copying a large thing, again and again.

- :func:`encode_fetch_response`: a Fetch response as a list of segments, so that records go from file to socket.
- :class:`ProduceResponses`: the answer to a produce of one batch, from a template.
- :class:`EncodedTopics`: topics of Metadata responses, which are put together from them (``codec.encode_around``).

Produce requests need nothing of this kind: their compiled decoder takes 1 to 2 microseconds (``benchmarks/wire.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from struct import Struct
from typing import Any, Final, cast
from uuid import UUID

from minikafka.model import ZERO_TOPIC_ID, TopicPartition
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.encoder import Encoder, compile_encoder
from minikafka.wire.headers import encode_response, response_prefix
from minikafka.wire.messages.fetch import FetchResponse
from minikafka.wire.messages.metadata import MetadataResponseTopic
from minikafka.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from minikafka.wire.schema import Buffer, RecordsSlot

Segment = Buffer | RecordsSlot

FIRST_VERSION_WITH_LOG_START: Final = 5

_fetch_encoders: dict[int, Encoder] = {}


def records_slot(size: int, handle: object) -> Buffer:
    """A value for ``PartitionData.records`` that stands for `size` bytes elsewhere, usually in a file.

    It is a :class:`RecordsSlot`, typed as a buffer so that readers of responses need not know of slots;
    only :func:`encode_fetch_response` accepts it.
    """
    return cast(Buffer, RecordsSlot(size, handle))


def encode_fetch_response(response: FetchResponse, version: int, correlation_id: int) -> list[Segment]:
    """A whole Fetch response, size prefix included, as what to send one after the other.

    Slots come out as they went in, records above 4 KiB uncopied; everything between them is joined.
    """
    try:
        encoder = _fetch_encoders[version]
    except KeyError:
        encoder = _fetch_encoders[version] = compile_encoder(FetchResponse, version, segmented=True)
    segments: list[Any] = encoder(response)
    body_size = sum(map(len, segments))
    segments[0] = response_prefix(ApiKey.FETCH, version, correlation_id, body_size) + segments[0]
    if not segments[-1]:
        del segments[-1]
    return segments


class _ProduceTemplate:
    """A whole response with one partition's success: the values that differ stand side by side in it."""

    __slots__ = ("behind", "between", "has_log_start", "pack", "size")

    _SENTINELS = (0x1122334455667788, 0x2233445566778811, 0x3344556677881122)

    def __init__(self, version: int, topic: str, partition: int, topic_id: UUID) -> None:
        base_offset, append_time, log_start = self._SENTINELS
        row = PartitionProduceResponse(
            index=partition, base_offset=base_offset, log_append_time_ms=append_time, log_start_offset=log_start
        )
        response = ProduceResponse(
            responses=[TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[row])]
        )
        encoded = encode_response(ApiKey.PRODUCE, version, 0, encode(response, version))
        self.has_log_start = version >= FIRST_VERSION_WITH_LOG_START
        values = self._SENTINELS if self.has_log_start else self._SENTINELS[:2]
        layout = Struct(f">{len(values)}q")
        at = encoded.index(layout.pack(*values))
        self.size, self.between, self.behind = encoded[:4], encoded[8:at], encoded[at + layout.size :]
        self.pack = Struct(f">4si{len(self.between)}s{len(values)}q{len(self.behind)}s").pack


class ProduceResponses:
    """Whole responses to a produce of one batch that succeeded, a fifth of the cost of building and encoding one."""

    def __init__(self, entries_max: int = 10_000) -> None:
        self._entries_max = entries_max
        self._templates: dict[tuple[int, TopicPartition] | tuple[int, TopicPartition, UUID], _ProduceTemplate] = {}

    def success(
        self,
        version: int,
        correlation_id: int,
        tp: TopicPartition,
        topic_id: UUID,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
    ) -> bytes:
        """The frame, size prefix included; equal to what :func:`encode_response` would make."""
        key = (version, tp) if topic_id is ZERO_TOPIC_ID else (version, tp, topic_id)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= self._entries_max:
                self._templates.clear()
            template = self._templates[key] = _ProduceTemplate(version, *tp, topic_id)
        size, between, behind = template.size, template.between, template.behind
        if not template.has_log_start:
            return template.pack(size, correlation_id, between, base_offset, log_append_time, behind)
        return template.pack(size, correlation_id, between, base_offset, log_append_time, log_start_offset, behind)


class EncodedTopics:
    """Encoded topics of Metadata responses, each valid as long as the object it was made from is the current one."""

    def __init__(self, entries_max: int = 10_000) -> None:
        self._entries_max = entries_max
        self._entries: dict[str, dict[tuple[int, Hashable], tuple[object, bytes]]] = {}
        self._count = 0

    def encoded(
        self, version: int, name: str, asked: Hashable, source: object, build: Callable[[], MetadataResponseTopic]
    ) -> bytes:
        """The topic `name` in `version`; built and encoded again when `source` is another object than last time.

        `source` is the topic in an immutable metadata image. `asked` is whatever else of the request the content
        depends on.
        """
        of_topic = self._entries.get(name, {})
        entry = of_topic.get((version, asked))
        if entry is not None and entry[0] is source:
            return entry[1]
        if self._count >= self._entries_max:
            self._entries.clear()
            self._count, of_topic = 0, {}
        encoded = encode(build(), version)
        self._count += (version, asked) not in of_topic
        of_topic[version, asked] = (source, encoded)
        self._entries[name] = of_topic
        return encoded

    def forget(self, name: str) -> None:
        """There is no such topic any more: one of a thousand partitions takes half a megabyte."""
        self._count -= len(self._entries.pop(name, ()))
