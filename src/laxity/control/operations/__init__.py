"""Ready operations. Each is built like anyone's would be: a class with handlers."""

from laxity.control.operations.checkpoint import Checkpoint
from laxity.control.operations.monitor import Monitor
from laxity.control.operations.noop import BlockingNoOp, NoOp
from laxity.control.operations.reconfigure import Reconfiguration
from laxity.control.operations.scale import ScaleTo
from laxity.control.operations.skew import RepairSkew
from laxity.control.operations.tune import SwapFunction, Tune

__all__ = [
    "BlockingNoOp",
    "Checkpoint",
    "Monitor",
    "NoOp",
    "Reconfiguration",
    "RepairSkew",
    "ScaleTo",
    "SwapFunction",
    "Tune",
]
