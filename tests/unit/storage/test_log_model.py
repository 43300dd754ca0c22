"""A log against its twin, a list of batches, under random work, kills, orderly restarts and torn tails."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from at_once import delete_old_segments
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from storage_batches import NOW_MS, batch, headers_in, read_all, stage

from minikafka.model import Compression, TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=200, retention_ms=-1)
VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=4)
CODECS = st.sampled_from([Compression.NONE, Compression.GZIP, Compression.LZ4])


class LogAndTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="minikafka-log-"))
        self.disk = OsDisk()
        self.twin: list[tuple[int, bytes]] = []  # (base offset, batch)
        self.staged: list[tuple[int, bytearray]] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.recovery_point = 0  # as checkpointed
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> Log:
        return Log.open(
            self.disk,
            str(self.root / "t-0"),
            TopicPartition("t", 0),
            CONFIG,
            last_stop=LastStop(is_clean=clean, log_start_offset=self.start, recovery_point=self.recovery_point),
        )

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        assert self.log.log_end_offset == 0

    @rule(values=VALUES, codec=CODECS)
    def stage(self, values: list[bytes], codec: Compression) -> None:
        data = batch(*values, compression=codec, timestamp=NOW_MS + self.end)
        info = stage(self.log, data, leader_epoch=self.epoch)
        assert info.base_offset == self.end
        self.end = info.last_offset + 1
        self.staged.append((info.base_offset, data))

    @rule()
    def commit(self) -> None:
        self.log.commit()
        self.twin += [(base, bytes(data)) for base, data in self.staged]
        for _base, data in self.staged:
            data[:] = bytes(len(data))  # the receive buffer is used for something else
        self.staged.clear()
        assert self.log.log_end_offset == self.end

    @rule(values=VALUES)
    def follow(self, values: list[bytes]) -> None:
        self.commit()
        sent = batch(*values, base_offset=self.end, leader_epoch=self.epoch)
        self.log.append_as_follower(memoryview(sent))
        self.twin.append((self.end, bytes(sent)))
        self.end += len(values)

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.commit()
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.commit()
        self.log.flush()
        assert self.log.recovery_point == self.end
        self.recovery_point = self.end

    @precondition(lambda self: self.twin)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.commit()
        offset = data.draw(st.integers(self.start, self.end))
        self.recovery_point = min(self.recovery_point, offset)  # what the hook checkpoints
        self.log.truncate_to(offset)
        kept = [(base, each) for base, each in self.twin if headers_in(each)[0].next_offset <= offset]
        cut = self.twin[len(kept)][0] if len(kept) < len(self.twin) else offset
        self.twin, self.end = kept, min(offset, cut)
        self.start = min(self.start, self.end)
        self.recovery_point = min(self.recovery_point, self.end)
        self.epoch += 1

    @precondition(lambda self: self.twin)
    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        self.commit()
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.maybe_increment_log_start_offset(self.start)
        delete_old_segments(self.log, self.end, NOW_MS)
        first = self.log.segments[0].base_offset
        self.twin = [(base, each) for base, each in self.twin if base >= first]

    @precondition(lambda self: self.twin)
    @rule(data=st.data())
    def verify(self, data: st.DataObject) -> None:
        self.commit()
        job = self.log.prepare_verification(
            data.draw(st.integers(self.start, self.end)), data.draw(st.integers(1, 2000))
        )
        if job is not None:
            job.run()
            self.log.complete_read(job)
        assert self.log.corruption is None

    @rule()
    def kill(self) -> None:
        self.commit()
        self.log = self.open(clean=False)
        assert self.log.corruption is None

    @rule(torn=st.binary(min_size=1, max_size=200))
    def kill_in_the_middle_of_a_write(self, torn: bytes) -> None:
        self.commit()
        path = Path(self.log.segments.active.path(".log"))
        path.write_bytes(path.read_bytes() + torn)
        self.log = self.open(clean=False)
        assert self.log.corruption is None

    @rule()
    def stop_and_start(self) -> None:
        self.commit()
        self.log.close()
        self.recovery_point = self.end
        self.log = self.open(clean=True)

    @invariant()
    def they_agree(self) -> None:
        if self.staged:
            return
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.start
        expected = [(base, each) for base, each in self.twin if headers_in(each)[0].next_offset > self.start]
        assert read_all(self.log) == b"".join(each for _base, each in expected)
        for base, each in expected[-3:]:
            assert self.log.epoch_for_offset(max(base, self.start)) == headers_in(each)[0].leader_epoch


LogAndTwin.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLogAndTwin = LogAndTwin.TestCase
