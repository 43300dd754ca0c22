"""The report of a chaos run: what was broken, what became of the records, and how the cluster did meanwhile. Pure.

==================  ================================================================================================
``run``             all that is known of a run, and its outcome
``unavailability``  times without an acknowledged write
``page``            the self-contained HTML page
``timeline``        faults over what the cluster did, on one axis of time
``values``          the same as JSON
==================  ================================================================================================

``to_html(run)`` needs pygal (extra ``chaos``); ``as_dict(run)`` needs nothing.
"""

from minikafka.chaos.report.run import ChaosRun, Fault, Finding, PartitionState, Sample
from minikafka.chaos.report.values import as_dict

__all__ = ["ChaosRun", "Fault", "Finding", "PartitionState", "Sample", "as_dict"]
