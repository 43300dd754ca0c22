"""Plots as SVG, drawn by pygal (extras ``chaos`` and ``spark``), and the pages that hold them. Pure.

* ``charts``    columns, lines and bars, and short numbers
* ``timeline``  plots over one axis of time, one above the other: lines, and spans with names
* ``page``      the skeleton of a page: its style, tiles, cards and tables

A page loads nothing and has no script. Its style has the colours as variables, so plots follow light and dark. The tip
of a mark is a ``<title>``, which browsers show by themselves.
"""

from minikafka.plots.charts import STYLE, Format, Mark, bars, columns, lines, nice_ticks, short, short_bytes

__all__ = ["STYLE", "Format", "Mark", "bars", "columns", "lines", "nice_ticks", "short", "short_bytes"]
