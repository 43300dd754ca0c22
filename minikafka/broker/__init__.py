"""One node: everything assembled.

- ``run``, ``__main__``   the process: configuration, signals, exit status
- ``node``                the composition root: every part is made and wired here
- ``dispatch``            frame -> handler -> reply; ``context`` is what a handler is given
- ``handlers``            one module per API
- ``partition``           one local replica and its role; ``replicas`` is all of them, with the purgatories
- ``delayed``             the operations that wait: produce for replicas, fetch for bytes
- ``drivers``             asyncio around the pure machines
- ``maintenance``         checkpoints, ISR checks, retention, flushing
- ``timers``, ``clock``, ``backoff``, ``logs``   time, retries, logging
"""
