"""Deadlines for Spark streams.

import laxity

lx = laxity.attach(spark)
alerts = lx.start(alerts_df.writeStream.format("kafka")…, name="alerts", target="800ms")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laxity._version import __version__
from laxity.pipeline import query

if TYPE_CHECKING:
    from pathlib import Path

    from laxity.core.policies import Policy
    from laxity.server.serving import Server
    from laxity.spark import Laxity
    from laxity.spark.recorder import Recorder

__all__ = ["__version__", "attach", "query", "record", "serve"]


def attach(spark: Any, policy: str | Policy = "llf", **settings: Any) -> Laxity:
    """Give the streaming queries of this Spark application deadlines; see `laxity.spark`."""
    from laxity.spark import attach  # only here is PySpark needed

    return attach(spark, policy, **settings)


def record(path: str | Path) -> Recorder:
    """Record the attached application to a file that `laxity simulate` reads."""
    from laxity.spark import current

    return current().record(path)


def serve(laxity: Laxity, address: str = "127.0.0.1:8642", *, token: str | None = None) -> Server:
    """Dashboard, REST API and metrics of an attached application; `stop()` ends it."""
    from laxity.server.serving import Server
    from laxity.spark.service import SparkService

    return Server(SparkService(laxity), address, token=token).start()
