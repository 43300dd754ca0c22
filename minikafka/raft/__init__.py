"""The metadata quorum: Raft as KRaft has it, pull-based, over a static set of voters plus any number of observers.

Pure: no clock, no randomness, no I/O of its own. A driver feeds a :class:`RaftNode` with events and does the effects
it returns. The theory is in the role modules; this is the map, and the contract with the driver.

Modules
-------
``node``         RaftNode: the events in, the effects out, the rules for requests (votes, epochs, cluster id)
``quorum``       QuorumState: every change of role; its docstring lists all legal transitions
``unattached``, ``prospective``, ``candidate``, ``leader``, ``resigned``, ``follower``   one role each
``role``         what roles share, and the transitions they may ask for
``core``         what outlives roles: identity, election state, log summary, high watermark, the outbox
``poll``         a round of votes or pre-votes, and what prospective and candidate share
``progress``     what a leader knows of its replicas; the answer to DescribeQuorum
``download``     the receiving end of a snapshot
``log``          LogSummary: offsets, epochs, divergence and truncation points; the log itself is the driver's
``messages``     requests and answers, to and from msgpack-able lists
``effects``      what the driver is told to do
``state``        ElectionState: what ``quorum-state`` holds
``voters``       VoterSet, and the arithmetic of majorities
``config``       RaftConfig: ``controller.quorum.*``

The driver's contract
---------------------
*Start.* Recover the log and fsync it; read ``quorum-state``; list the finished snapshots. When the log ends below the
latest snapshot, or does not hold its (offset, epoch), empty it and let it start there. Build
``LogSummary.recovered(log_end_offset, epochs, log_start_offset, snapshots)``. Load the latest snapshot into the state
machine. Set ``vote_disabled`` when the log was found damaged anywhere but in a torn tail above what was flushed, when
``quorum-state`` is missing beside a log that is not empty, or when the mark of an unfinished repair is there; write
that mark before ``start``. Set ``is_new`` when there is nothing at all, neither log nor ``quorum-state``, until
``RepairCompleted``; it needs a mark, too. Then ``RaftNode(Core(...))`` and ``start(now_ms)``.

*Effects* go three ways (:mod:`minikafka.raft.effects` says which goes where): the election state into a slot, what is
``at_once`` out at once, all others into one FIFO queue, worked off by one task: an effect marked durable is on disk
before the next one starts, and effects of later events queue behind. The machine is thus ahead of the disk by slot and
queue, and a crash loses what is in the slot and a suffix of the queue: nothing that depended on it has left. Handing
the machine further events meanwhile is fine, and needed: ``propose`` while an fsync runs.

*Events*, with ``now_ms`` from a monotonic clock:

- ``tick`` when ``next_deadline_ms()`` is reached (ask anew after every event; early or late is harmless);
- ``on_request(token, message)`` for a request; the ``Respond`` effect with that token comes at once or, for a parked
  fetch, up to ``fetch_max_wait_ms`` later. A token whose connection is gone is dropped by the driver. The token of an
  answer with ``read`` is answered with ``effect.filled(bytes)``;
- ``on_response(peer, request_id, message)`` for the answer to ``Send``;
- ``on_connection_lost(peer, refused)`` when the connection to a node breaks, cannot be made, or an answer is overdue
  (``request_timeout_ms`` and more; close the connection then). Connections are made on demand by ``Send``. When one
  breaks that was in use, try at once to connect again: a refused port is what makes failover fast;
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
