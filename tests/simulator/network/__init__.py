"""An in-memory TCP between simulated processes: it delays, splits, holds back and resets, and never reorders.

Machines are known by name (``host``). What one writes arrives at the other after the delay of the directed link
between the two, now and then in pieces. :meth:`Network.cut` a link and what is under way on it waits, as
unacknowledged segments do, until :meth:`Network.mend`; cut only one direction for the partitions that are hardest to
reason about. A killed process ends its connections. A machine without power says nothing: its peers learn of it when
it is back and they write, or have written. Connecting to a port where nobody listens is refused; to a machine without
power it hangs. What a cut link or a
machine without power leaves unacknowledged for too long ends the connection with a time-out on the side that wrote it,
and there only. A port whose process accepts too slowly lets others knock again.

* ``network``: :class:`Network`, all of it, and what is done to it
* ``links``: a direction between two machines, and what is under way on it
* ``servers``: ports that listen
* ``sockets``: the ends of connections, and their transports
"""

from simulator.network.links import Link
from simulator.network.network import Network
from simulator.network.sockets import KERNEL_BUFFER_BYTES, Socket

__all__ = ["KERNEL_BUFFER_BYTES", "Link", "Network", "Socket"]
