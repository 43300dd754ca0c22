"""The effects of a group coordinator: those that all coordinators have, and a question of consumer groups.

``ResolveRegexes``  match the names of all topics with the expressions, and call ``on_regexes_resolved`` with what was
                    found; later, and outside of the step
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.coordination.effects import Effect as CommonEffect


class ResolveRegexes(NamedTuple):
    """Which topics do the regular expressions of this group match?"""

    group_id: str
    regexes: tuple[str, ...]
    version: int
    """To give back with the answer."""


Effect = CommonEffect | ResolveRegexes
