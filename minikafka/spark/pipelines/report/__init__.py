"""Content of a topic: amounts, times, balance, sizes and keys; as values, a table, or a page with plots.

==============  =====================================================================================================
``measures``    the values of a report (pure)
``scan``        one pass of Spark over the records, and the report from its rows
``page``        the self-contained HTML page, with the plots of ``minikafka.plots`` (pure)
==============  =====================================================================================================

``make_report(spark, "orders", bootstrap_servers="...")`` makes a :class:`TopicReport`; ``to_html(report)`` its page.
"""

from minikafka.spark.pipelines.report.measures import TopicReport
from minikafka.spark.pipelines.report.page import to_html
from minikafka.spark.pipelines.report.scan import make_report

__all__ = ["TopicReport", "make_report", "to_html"]
