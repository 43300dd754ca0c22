"""The metadata quorum: Raft in KRaft's pull-based form, with a static set of voters and any number of observers.

Pure: no clock, no randomness, no I/O. A driver feeds a :class:`RaftNode` with events and carries out the effects that
it returns. The theory is in the role modules. This page is the map, and the contract with the driver.

Modules
-------
``node``         RaftNode: the events in, the effects out, the rules for requests (votes, epochs, cluster id)
``quorum``       QuorumState: every change of role; its docstring lists all legal transitions
``unattached``, ``prospective``, ``candidate``, ``leader``, ``resigned``, ``follower``   one role each
``role``         the base of the roles, and the transitions they may ask for
``core``         state that outlives roles: identity, election state, log summary, high watermark, outbox
``poll``         a round of votes or pre-votes; the base of prospective and candidate
``progress``     the replicas' progress as the leader sees it; the answer to DescribeQuorum
``download``     the receiving end of a snapshot
``log``          LogSummary: offsets, epochs, divergence and truncation points; the log itself is the driver's
``messages``     requests and answers, to and from msgpack-able lists
``effects``      orders to the driver
``state``        ElectionState: the content of ``quorum-state``
``voters``       VoterSet, and the arithmetic of majorities
``config``       RaftConfig: ``controller.quorum.*``

The driver's contract
---------------------
*Start.* Recover the log and fsync it; read ``quorum-state``; list the finished snapshots. When the log ends below the
latest snapshot, or does not hold its (offset, epoch), empty it and let it start there. Build
``LogSummary.recovered(log_end_offset, epochs, log_start_offset, snapshots)``. Load the latest snapshot into the state
machine. Set ``vote_disabled`` in three cases: the log is damaged anywhere but in a torn tail above its flushed
part; ``quorum-state`` is missing and the log is not empty; the mark of an unfinished repair exists. Write that mark
before ``start``. Set ``is_new`` when there is neither a log nor ``quorum-state``, until
``RepairCompleted``; it needs a mark, too. Then ``RaftNode(Core(...))`` and ``start(now_ms)``.

*Effects* go three ways (see :mod:`minikafka.raft.effects`). The election state goes into a slot. Effects with
``at_once`` are carried out at once. All others go into one FIFO queue, worked off by one task: an effect marked durable
is on disk before the next one starts. So the machine is ahead of the disk by slot and queue. A crash loses the slot and
a suffix of the queue, and no message that depends on them has been sent. The machine takes further events meanwhile,
and must: ``propose`` while an fsync runs.

*Events*, with ``now_ms`` from a monotonic clock:

- ``tick`` at ``next_deadline_ms()`` (ask again after every event; early or late is harmless);
- ``on_request(token, message)`` for a request; the ``Respond`` effect with that token comes at once or, for a parked
  fetch, up to ``fetch_max_wait_ms`` later. The driver drops a token whose connection is gone. To a ``Respond`` with
  ``read`` it sends ``effect.filled(bytes)``;
- ``on_response(peer, request_id, message)`` for the answer to ``Send``;
- ``on_connection_lost(peer, refused)`` when the connection to a node breaks, cannot be made, or an answer is overdue
  (``request_timeout_ms`` and more; close the connection then). ``Send`` opens connections on demand. When a used
  one breaks, connect again at once: a refused port makes failover fast;
- ``on_election_durable(state)`` when ``quorum-state`` holds that state on disk;
- ``on_flushed(effect.end)`` after an fsync of the log, with the last append effect written before it began. Truncating
  waits for a running fsync;
- ``propose(values)`` for commands as leader; park the reply until ``HighWatermark(offset)`` reaches the offset
  returned, and fail all parked ones at ``LostLeadership`` (their outcome is not known);
- ``on_snapshot_created`` once a snapshot of the applied state, at an offset not above ``log.flushed_offset``, has its
  final name; ``resign`` on controlled shutdown, then linger until its ``Send`` effects are out.

*State machine.* Apply records below each ``HighWatermark``; ``InstallSnapshot`` replaces the whole state. After
``BecameLeader`` act as controller once the record at ``epoch_start_offset`` is applied.

*Faults.* ``CommittedDataLostError`` from any call, an I/O error, or a snapshot that does not check: stop the node.
``MalformedMessageError`` (``message_from_wire``): close the connection.
"""

from __future__ import annotations

from minikafka.raft.config import RaftConfig
from minikafka.raft.core import BatchSpan, Core
from minikafka.raft.log import CommittedDataLostError, EpochEntry, LogSummary, Snapshot
from minikafka.raft.messages import MalformedMessageError, message_from_wire
from minikafka.raft.node import RaftNode
from minikafka.raft.state import ElectionState
from minikafka.raft.voters import VoterSet

__all__ = [
    "BatchSpan",
    "CommittedDataLostError",
    "Core",
    "ElectionState",
    "EpochEntry",
    "LogSummary",
    "MalformedMessageError",
    "RaftConfig",
    "RaftNode",
    "Snapshot",
    "VoterSet",
    "message_from_wire",
]
