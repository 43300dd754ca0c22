"""The effects of a group coordinator: those that all coordinators have, and two questions of consumer groups.

They are answered later, outside of the step:

``ResolveRegexes``  match the names of all topics with the expressions, and call ``on_regexes_resolved`` with what was
                    found
``MakeAssignment``  find the answer to the question in a thread, and call ``on_assigned`` with both
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.coordination.effects import Effect as CommonEffect
from minikafka.groups.consumer.question import AssignmentQuestion


class ResolveRegexes(NamedTuple):
    """Which topics do the regular expressions of this group match?"""

    group_id: str
    regexes: tuple[str, ...]
    version: int
    """To give back with the answer."""
    user: str
    """Of the member that the question is asked for: what it may not describe, they do not match."""
    host: str


class MakeAssignment(NamedTuple):
    """Who gets what? The group is too large for the loop."""

    question: AssignmentQuestion


Effect = CommonEffect | ResolveRegexes | MakeAssignment
