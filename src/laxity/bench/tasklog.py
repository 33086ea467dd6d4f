"""Which query ran which task when: the timeline of a contest, as figure 7c of Cameo shows it."""

from __future__ import annotations

from typing import Any

from laxity.bench.compiled import new_object


class TaskLog:
    """Listens from now on. The listener is a few dozen lines of Java that note two times a task."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._listener = new_object(spark, "TaskLog")
        spark._jsparkSession.sparkContext().addSparkListener(self._listener)

    def between(self, began: float, until: float) -> list[tuple[str, int, float, float]]:
        """(query, stage of its batch, start, end) with times from `began` on."""
        names = {query.id: query.name for query in self._spark.streams.active}
        tasks = []
        for line in self._listener.take().splitlines():
            query, stage, start, end = line.split(",")
            at, ended = int(start) / 1000 - began, int(end) / 1000 - began
            if query in names and ended >= 0 and at < until - began:
                tasks.append((names[query], int(stage), at, ended))
        return sorted(tasks, key=lambda task: task[2])
