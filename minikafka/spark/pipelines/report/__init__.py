"""What is in a topic: how much, when, how even, how large, under which keys; as values, a table, or a page with plots.

==============  =====================================================================================================
``measures``    what a report says (pure values)
``scan``        one pass of Spark over the records
``making``      the report, made of the rows of the scan
``plots``       columns, lines and bars as SVG (pure)
``page``        the HTML page, which needs nothing beside itself (pure)
==============  =====================================================================================================

``make_report(spark, "orders", bootstrap_servers="...")`` makes a :class:`TopicReport`; ``to_html(report)`` its page.
"""

from minikafka.spark.pipelines.report.making import make_report
from minikafka.spark.pipelines.report.measures import TopicReport
from minikafka.spark.pipelines.report.page import to_html

__all__ = ["TopicReport", "make_report", "to_html"]
