"""The ledger: what clients did and saw, and the judgement of it. Pure: lines in, events; events in, a verdict out.

* ``events``   one event of a history, and the lines of a file that holds them
* ``checker``  the rules, and the verdict on a history that fits in memory

``chaos.history`` collects events while they happen; ``spark.pipelines.audit`` judges histories larger than memory by
the same rules.
"""
