"""Time-outs and delayed operations, as pure machines: they are told the time and say what is due.

``wheel``      :class:`TimingWheel`, hierarchical: a million pending :class:`TimerTask`, each set and cancelled in O(1)
``purgatory``  :class:`Purgatory`, where a :class:`DelayedOperation` waits for an event on its keys, or its time-out
``allowance``  :class:`Allowance`, a bound per second that holds in the long run

A driver owns one wheel, which any number of purgatories and other timers share. It sleeps until ``next_deadline_ms``
and then calls ``expire_due``; there is never more than that one timer in the event loop.
"""

from __future__ import annotations

from minikafka.timing.allowance import Allowance
from minikafka.timing.purgatory import DelayedOperation, Purgatory
from minikafka.timing.wheel import TimerTask, TimingWheel

__all__ = ["Allowance", "DelayedOperation", "Purgatory", "TimerTask", "TimingWheel"]
