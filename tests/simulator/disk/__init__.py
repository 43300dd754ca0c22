"""A machine's disk in memory, for simulations: it outlives processes, and forgets what was not synced.

:class:`SimulatedDisk` is the machine's; :meth:`SimulatedDisk.mount` gives each process that runs on it the
:class:`~minikafka.storage.disk.Disk` that it works with. ``kill`` ends a process: what it wrote stays, in the page
cache. ``lose_power`` ends the machine: what was not synced may be there, torn or gone.

* ``platter``: what is on a machine's disk; ``inodes``: the model of what a power cut leaves of it
* ``mounts``: the disk of one process; ``files``: its open files; ``operations``: what it asks for; ``paths``
* ``damage``: what media do by themselves: wrong, missing and unreadable bytes, lost files and directories

Every system call that changes or syncs something is announced to the mount's ``before`` hook as an
:class:`Operation`. What the hook raises happens instead: an ``OSError`` is the disk's failure (a failed sync also lies
from then on, as Linux does), :class:`~simulator.killed.Killed` the end of the process just before the
operation, :class:`KilledInside` the end in the middle of an append. The hook may also let time pass
(:meth:`simulator.loop.Process.spend`): a sync covers what was written before it began.
"""

from simulator.disk.files import MountedFile
from simulator.disk.mounts import MountedDisk, MountedLock
from simulator.disk.operations import Hook, KilledInside, Kind, Operation
from simulator.disk.platter import SimulatedDisk

__all__ = ["Hook", "KilledInside", "Kind", "MountedDisk", "MountedFile", "MountedLock", "Operation", "SimulatedDisk"]
