"""The fleet level: on which Spark application does a query live? Neptune's online scheduling.

The names listed here are the library: pure, numbers in, decisions out (`docs/fleet.md`). They are
loaded when asked for, since they need numpy and the command line must not. The modules that run a
fleet (`orchestrator`, `agent`, `fencing` …) are in `docs/fleet-on-spark.md`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laxity.fleet.decisions import (
        Decision,
        DecisionSettings,
        FleetPlanner,
        Migrate,
        MigrationRequest,
        NodeReport,
        Nominations,
        Reason,
        Reject,
        ScaleOut,
        Steps,
        threshold_for,
    )
    from laxity.fleet.footprint import Conditions, Footprint
    from laxity.fleet.forecasts import Forecaster, ForecastSettings, HoltWinters
    from laxity.fleet.interference import InterferenceScore, ScoreSettings
    from laxity.fleet.node import Handover, NodeManager, Round
    from laxity.fleet.rings import DEFAULT_SHAPE, PredictionRing, RingShape

__all__ = [
    "DEFAULT_SHAPE",
    "Conditions",
    "Decision",
    "DecisionSettings",
    "FleetPlanner",
    "Footprint",
    "ForecastSettings",
    "Forecaster",
    "Handover",
    "HoltWinters",
    "InterferenceScore",
    "Migrate",
    "MigrationRequest",
    "NodeManager",
    "NodeReport",
    "Nominations",
    "PredictionRing",
    "Reason",
    "Reject",
    "RingShape",
    "Round",
    "ScaleOut",
    "ScoreSettings",
    "Steps",
    "threshold_for",
]

_LIBRARY = (
    "decisions",
    "footprint",
    "forecasts",
    "interference",
    "node",
    "rings",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _LIBRARY:
            loaded = import_module(f"laxity.fleet.{module}")
            if hasattr(loaded, name):
                return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
