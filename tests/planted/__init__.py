"""Suites of random schedules, and the planted bugs that prove them: a suite that notices none proves nothing.

``registry``   :class:`Suite` and :class:`Sabotage`, the one form that all of them have
``found``      every suite there is: those in each ``tests/**/*_sabotages.py``
``sweep``      runs schedules by the thousand, in several processes
``table``      shows which suite notices which sabotage, and how soon

``make planted`` shows the table, ``make schedules N=1000000`` sweeps.
"""
