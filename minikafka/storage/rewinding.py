"""What producers had written before a cut, found without replaying the log from its last snapshot.

Of a producer that wrote behind the cut, the last five batches are known. Those before the cut, if there are any, are
what it needs: it has no more than five in flight, so a batch that is older than those is not sent again. Where all five
are gone, the newest before the cut is sought backward from there. Producers that wrote nothing behind the cut are as
they were. Only transactions need the replay: their markers tell of batches that are far away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.storage.producer_state import ProducerEntry, ProducerState
from minikafka.storage.scan import scan_headers
from minikafka.storage.segment import Segment

Rewound = dict[int, ProducerEntry | None]

FIRST_STEP_BYTES: Final = 64 * 1024


def rewound(
    touched: Sequence[ProducerEntry], segment: Segment, end_offset: int, snapshot: ProducerState
) -> Rewound | None:
    """What was known of the ``touched`` producers when the log ended at ``end_offset``, in ``segment``.

    ``snapshot``: what was known where the segment begins. None when only a replay tells, for there are transactions.
    """
    known = {entry.producer_id: entry.before(end_offset) for entry in touched}
    missing = {producer_id for producer_id, entry in known.items() if entry is None}
    stop, step = segment.size, FIRST_STEP_BYTES
    while missing and stop > 0:
        start = segment.index.offsets.boundary_at_or_before(max(0, stop - step))
        found = ProducerState()
        for _position, header in scan_headers(segment.file, start, stop):
            if header.producer_id in missing:
                if header.is_control or header.is_transactional:
                    return None
                found.append(header, header.base_offset)
        known.update((entry.producer_id, entry) for entry in found.entries)
        missing.difference_update(entry.producer_id for entry in found.entries)
        stop, step = start, 2 * step
    known.update((producer_id, snapshot.get(producer_id)) for producer_id in missing)
    return known
