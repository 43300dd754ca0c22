"""The ledger: what clients did and saw, and the judgement of it. Pure: lines in, events; events in, a verdict out.

* ``events``     one event of a history, and the lines of a file that holds them
* ``partition``  the events of one partition, brought together
* ``rules``      the rules, each over one partition
* ``sentences``  how violations are put: the one list of rules, for this checker and for the one on Spark
* ``verdict``    what a judgement says: kept, broken, not judged, or nothing proved
* ``checker``    the theory, and the verdict on a history that fits in memory

``chaos.history`` collects events while they happen; ``spark.pipelines.audit`` judges histories larger than memory by
the same rules.
"""
