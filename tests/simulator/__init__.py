"""What tests of a cluster stand on: virtual time, an in-memory network and a disk that forgets what was not synced.

* ``loop``: :class:`~simulator.loop.Simulator` and :class:`~simulator.loop.Process`, an asyncio event
  loop per process in virtual time; ``threads``: what its executors run; ``kernel``: sendfile over all that
* ``network``: :class:`~simulator.network.Network`, TCP with delays, cuts and resets
* ``disk``: :class:`~simulator.disk.SimulatedDisk`, a machine's disk through crashes, losses of power and damage
* ``killed``: what ends code in the middle when its process is killed

Whatever takes its time from its event loop, its randomness from an rng that is handed in, its files through
``storage.disk.Disk`` and its sockets from ``create_server`` and ``create_connection`` runs on them unchanged.
"""
