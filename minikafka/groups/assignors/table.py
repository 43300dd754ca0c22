"""The assignors by the names that members propose them under."""

from __future__ import annotations

from typing import Final

from minikafka.groups.assignors.range import range_assign
from minikafka.groups.assignors.roundrobin import roundrobin_assign
from minikafka.groups.assignors.sticky import cooperative_sticky_assign
from minikafka.groups.assignors.subscriber import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": range_assign,
    "roundrobin": roundrobin_assign,
    "cooperative-sticky": cooperative_sticky_assign,
}
