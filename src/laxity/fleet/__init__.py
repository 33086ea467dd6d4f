"""The fleet level: on which Spark application does a query live? Neptune's online scheduling.

Pure: numbers in, decisions out. `docs/fleet.md` shows how the parts go together.
"""

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
