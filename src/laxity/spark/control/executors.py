"""More and fewer executors, while queries run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laxity.spark.control.errors import BoundaryTimeoutError, UnfitOperationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Resized:
    before: int
    after: int
    seconds: float


def resize(spark: SparkSession, wanted: int, timeout: float = 60.0) -> Resized:
    """Ask the cluster for so many executors in all, and wait until it has them. Tasks of one that
    goes are run again elsewhere; Spark does not count that as a failure."""
    context: Any = spark._jsparkSession.sparkContext()
    if type(wanted) is not int or wanted < 1:
        raise UnfitOperationError(f"executors are a whole number from 1 on, got {wanted!r}")
    if context.isLocal():
        raise UnfitOperationError(
            f"{context.master()} runs everything in the driver; executors can be changed on a "
            f"cluster (spark://…, yarn, k8s://…)"
        )
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UnfitOperationError(
            "spark.dynamicAllocation.enabled is true: Spark decides on executors by itself, and "
            "would take a change back"
        )
    started = time.monotonic()
    running = _executors(context)
    jvm: Any = spark._jvm
    if wanted >= len(running):
        context.requestTotalExecutors(wanted, 0, jvm.scala.Predef.Map().empty())
    else:
        ids = jvm.java.util.ArrayList()
        for executor in running[wanted:]:  # the ones that came last have the least cached
            ids.add(executor)
        context.killExecutors(jvm.scala.jdk.javaapi.CollectionConverters.asScala(ids).toSeq())
    while (now := len(_executors(context))) != wanted:
        if time.monotonic() - started > timeout:
            raise BoundaryTimeoutError(
                f"the cluster has {now} executors, not {wanted}, after {timeout:.0f} s: has it "
                f"free cores and memory (spark.executor.cores, spark.executor.memory)?"
            )
        time.sleep(0.1)
    return Resized(len(running), wanted, time.monotonic() - started)


def _executors(context: Any) -> list[str]:
    """Their ids, oldest first."""
    found = context.getExecutorIds()
    ids = [str(found.apply(at)) for at in range(found.size())]
    return sorted(ids, key=lambda i: (len(i), i))
