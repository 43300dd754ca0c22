"""Content of a topic: amounts, times, balance, sizes and keys; as values, a table, or a page with plots.

==============  =====================================================================================================
``measures``    the values of a report (pure)
``scan``        one pass of Spark over the records
``making``      from the rows of the scan to the report
``plots``       columns, lines and bars as SVG (pure)
``page``        the self-contained HTML page (pure)
==============  =====================================================================================================

``make_report(spark, "orders", bootstrap_servers="...")`` makes a :class:`TopicReport`; ``to_html(report)`` its page.
"""

from minikafka.spark.pipelines.report.making import make_report
from minikafka.spark.pipelines.report.measures import TopicReport
from minikafka.spark.pipelines.report.page import to_html

__all__ = ["TopicReport", "make_report", "to_html"]
