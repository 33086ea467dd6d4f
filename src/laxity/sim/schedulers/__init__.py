"""Schedulers behind one interface: Cameo, FIFO, Orleans and slot-based."""

from laxity.sim.schedulers.api import RunQueue, Scheduler
from laxity.sim.schedulers.cameo import Cameo
from laxity.sim.schedulers.fifo import Fifo
from laxity.sim.schedulers.orleans import Orleans
from laxity.sim.schedulers.slots import Slots

__all__ = ["Cameo", "Fifo", "Orleans", "RunQueue", "Scheduler", "Slots"]
