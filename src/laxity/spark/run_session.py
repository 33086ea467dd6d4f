"""The Spark session of `laxity run`: from settings, with a log that starts quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from laxity.core.errors import LaxityError
from laxity.spark.run_settings import RunSettings

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class SessionError(LaxityError, RuntimeError):
    """Spark could not be started."""


def start_session(name: str, settings: RunSettings) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SessionError("PySpark is missing: pip install 'laxity[spark]'") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run what the driver runs
    builder = SparkSession.builder.appName(settings.name or name)
    if settings.master is not None:
        builder = builder.master(settings.master)
    for key, value in session_conf(settings, os.environ).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise SessionError(
            f"Spark cannot be started, for the reason above or this: {reason}; try: laxity doctor"
        ) from error
    spark.sparkContext.setLogLevel(settings.spark_log)
    return spark


def session_conf(settings: RunSettings, environment: Mapping[str, str]) -> dict[str, str]:
    conf = {
        "spark.ui.showConsoleProgress": "false",
        # A query that does not stop must not keep the others from stopping.
        "spark.sql.streaming.stopTimeout": f"{max(1, int(settings.grace))}s",
        **settings.conf,
    }
    if settings.checkpoints is not None:
        conf["spark.sql.streaming.checkpointLocation"] = settings.checkpoints
    options = conf.get(_JAVA_OPTIONS, "")
    if "log4j" not in options and not _has_own_log_settings(environment):
        file = resources.files("laxity.spark").joinpath("log4j2.properties")
        level = settings.spark_log.lower()
        failures = "off" if level in ("error", "fatal", "off") else level
        quiet = f"-Dlaxity.log={level} -Dlaxity.failures={failures}"
        quiet = f'"-Dlog4j2.configurationFile={file}" {quiet}'
        conf[_JAVA_OPTIONS] = f"{options} {quiet}".strip()
    return conf


def _has_own_log_settings(environment: Mapping[str, str]) -> bool:
    folders = [environment.get("SPARK_CONF_DIR")]
    if home := environment.get("SPARK_HOME"):
        folders.append(f"{home}/conf")
    names = ("log4j2.properties", "log4j2.xml", "log4j2.yaml")
    return any(Path(folder, name).exists() for folder in folders if folder for name in names)
