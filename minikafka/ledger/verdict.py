"""Outcome of a judgement, by the checker in memory or the audit on Spark.

A verdict has one of four outcomes. Only the first is *ok*:

* ``kept``            no rule was broken, and a reader looked for every acknowledged record
* ``broken``          a rule was broken
* ``not judged``      no rule was broken, but no reader looked for some acknowledged records
* ``nothing proved``  no record was acknowledged, or none was read: a dead cluster breaks no rule
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Literal

RESENT: Final = "there more than once, as their producer sent them"
DELETED: Final = "of them deleted on purpose"

Outcome = Literal["kept", "broken", "not judged", "nothing proved"]


class Judgement(ABC):
    """Figures and violations -> the outcome and a sentence."""

    @property
    @abstractmethod
    def figures(self) -> Mapping[str, int]:
        """``sent``, ``acknowledged``, ``read``, ``unknown``, ``unjudged``; and ``resent``, ``deleted``, of records."""

    @property
    @abstractmethod
    def broken(self) -> Mapping[str, int]:
        """Violations by rule; only broken rules."""

    @property
    def outcome(self) -> Outcome:
        """See the module."""
        if self.broken:
            return "broken"
        if self.figures["unjudged"]:
            return "not judged"
        return "kept" if self.figures["acknowledged"] and self.figures["read"] else "nothing proved"

    @property
    def ok(self) -> bool:
        """True when every promise was kept and judged."""
        return self.outcome == "kept"

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        figures, outcome = self.figures, self.outcome
        if outcome == "broken":
            found = ", ".join(f"{rule} {count:,}" for rule, count in self.broken.items())
            return f"the cluster broke its word: {found}"
        if outcome == "not judged":
            return (
                f"not judged: no reader that read to the end looked for {figures['unjudged']:,} of "
                f"{figures['acknowledged']:,} acknowledged records"
            )
        if outcome == "nothing proved":
            return "this proves nothing: nothing was acknowledged, or nothing was read"
        unknown = f" ({figures['unknown']:,} of unknown fate)" if figures["unknown"] else ""
        remarks = (("resent", RESENT), ("deleted", DELETED))
        more = "".join(f"; {figures[name]:,} {what}" for name, what in remarks if figures.get(name))
        return f"{figures['acknowledged']:,} acknowledged records{unknown}: none lost, duplicated or reordered{more}"
