"""The assignors that the coordinator runs, as pure functions (KIP-848).

============== =====================================================================================
``model.py``   what an assignor is told, and what it answers
``uniform.py`` ``uniform``: even, and as few moves as possible; the default
``range.py``   ``range``: each topic in consecutive ranges, so that equal topics are cut alike
============== =====================================================================================

Every partition of a subscribed topic goes to exactly one subscriber (row G4). Where brokers and members tell their
racks, a member gets partitions with a replica in its own rack, as far as that does not make the assignment less even,
nor moves what is assigned already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minikafka.groups.consumer.assignors.model import Assignor
from minikafka.groups.consumer.assignors.range import range_assign
from minikafka.groups.consumer.assignors.uniform import uniform_assign

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform_assign, "range": range_assign}
"""By the names that members ask for."""
