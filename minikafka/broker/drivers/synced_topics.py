"""Topics that lose nothing in a power cut: those with ``flush.messages=1``, once their logs here are synced (KIP-966).

Theirs may be the setting of the brokers, ``log.flush.interval.messages``.

Records of such a topic are synced before they count, except those from before the setting. So their logs are synced
first. Only then the topic is claimed in the ``registration`` file, for the next process and through it the controller.

When the setting is removed, the claim is given up durably before the next append. This happens on the loop, because
nothing may be appended meanwhile, and costs a sync of a small file in each log directory. Claims are made in a thread,
and so are those of deleted topics removed: they have no records to lose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.replicas import Replicas
from minikafka.broker.threads import RunInThread, run_job
from minikafka.config import BrokerConfig, TopicConfig
from minikafka.event_log import get_logger
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import broker_config, concern_brokers
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.storage.errors import StorageFailure
from minikafka.storage.registration import RecordJob, Registrations

log = get_logger()

FLUSH_MESSAGES = TopicConfig.flush_messages.name


class SyncedTopics:
    """Call ``begin`` before the replicas are opened, and ``on_metadata`` before they learn of a change."""

    def __init__(
        self,
        config: BrokerConfig,
        registrations: Registrations,
        replicas: Replicas,
        jobs: LogJobs,
        wait_all_told: Callable[[], Awaitable[None]],
        run_in_thread: RunInThread,
    ) -> None:
        """``wait_all_told``: waits until ``replicas`` has all replicas that metadata places here, with settings."""
        self._config = config
        self._registrations = registrations
        self._replicas = replicas
        self._jobs = jobs
        self._wait_all_told = wait_all_told
        self._run_in_thread = run_in_thread
        self._wanted: frozenset[UUID] = frozenset()
        self._syncing: frozenset[UUID] = frozenset()  # none of them was given up since the sync began
        self._has_begun = False
        self._due: RecordJob | None = None  # for want of a descriptor nothing is claimed until it has run
        self._changed = asyncio.Event()

    def begin(self, image: MetadataImage) -> None:
        """This broker is registered and follows ``image``; until now the claims of the former process held."""
        self._has_begun = True
        self._look_at(image, image.topics_by_name)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Give up topics that may lose records from now on, and let the new ones be synced."""
        if not self._has_begun:
            return
        configured = {each.name for each in delta.configs if each.resource_type is ConfigResourceType.TOPIC}
        there = delta.after.topics_by_name.keys()
        changed = there if concern_brokers(delta.configs) else (configured | delta.created_topics) & there
        self._wanted -= {topic.topic_id for topic in delta.deleted_topics}
        if changed or delta.deleted_topics:
            self._look_at(delta.after, changed)

    def _look_at(self, image: MetadataImage, names: Iterable[str]) -> None:
        """Check topics of the image; claims on unknown or deleted topics stay for now."""
        topics = [image.topics_by_name[name] for name in names]
        default = str(broker_config(image, self._config).log_flush_interval_messages)
        synced = {
            topic.topic_id for topic in topics if image.topic_overrides(topic.name).get(FLUSH_MESSAGES, default) == "1"
        }
        given_up = {topic.topic_id for topic in topics} - synced
        self._wanted = (self._wanted - given_up) | synced
        self._syncing -= given_up
        job = self._registrations.claim(self._registrations.synced_topics - given_up)
        self._due = job if job.must_repeat else self._due
        self._changed.set()

    async def run(self) -> None:
        """Sync and claim, for ever, once the replicas here have their settings."""
        while True:
            await self._changed.wait()
            await self._record_due()
            await self._wait_all_told()
            self._changed.clear()
            try:
                synced = await self._synced(self._wanted - self._registrations.synced_topics)
                await self._claim((self._registrations.synced_topics | synced) & self._wanted)
            except OSError:
                self._changed.set()
                raise

    async def _record_due(self) -> None:
        while (job := self._due) is not None:
            log.warning("registration withdrawn", effect="after a kill no replica is whole, until it is written again")
            await run_job(self._run_in_thread, job)
            self._registrations.complete(job)
            if self._due is job:
                self._due = None

    async def _claim(self, topics: frozenset[UUID]) -> None:
        job = self._registrations.prepare_claim(topics)
        await run_job(self._run_in_thread, job)
        self._registrations.complete(job)

    async def _synced(self, topics: frozenset[UUID]) -> frozenset[UUID]:
        """Topics whose logs are synced now, without those that were given up meanwhile (even if wanted again).

        Their first logs may have been synced before unsynced records were appended.
        """
        self._syncing, failed = topics, set()
        for partition in list(self._replicas):
            topic_id = partition.log.topic_id
            if topic_id in topics:
                try:
                    await self._jobs.sync(partition)
                except StorageFailure:
                    failed.add(topic_id)
        return self._syncing - failed
