"""Whether those who read along got as far as a reader who came at the end. Pure.

One who is handed nothing more, and no error, lost no record by the rules of the ledger; its application stands still.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from minikafka.ledger.events import COMMITTED, Event

READER: Final = "reader"


def left_behind(events: Iterable[Event], followers: Collection[str]) -> list[str]:
    """A sentence of each follower and place where a reader of its isolation was handed later records. Processes are
    the followers' names, or begin with them and a dot: a client, and its successors.
    """
    reached: dict[tuple[str, bool], dict[str, int]] = {}
    for event in events:
        is_committed, function = event.function in COMMITTED, COMMITTED.get(event.function, event.function)
        who = event.process.partition(".")[0], is_committed
        if function == "assign":
            reached[who] = {}
        elif function == "poll" and who in reached:
            reached[who].update((place, offset) for place, _, offset in event.value)
    sentences = []
    for (name, is_committed), own in reached.items():
        if name in followers:
            ends = reached.get((f"{READER}_committed" if is_committed else READER, is_committed), {})
            for place, end in sorted(ends.items()):
                last = own.get(place)
                if last is None or last < end:
                    got = "none" if last is None else f"offset {last:,} last"
                    sentences.append(f"{name} was handed {got} of {place}, which has {end:,}")
    return sentences
