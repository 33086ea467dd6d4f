"""The same core in virtual time: reproduces Cameo's evaluation and answers "would it hold?"."""

from laxity.sim.cluster import Cluster
from laxity.sim.dataflow import Dataflow, SourceSpec, StageCost
from laxity.sim.simulation import Simulation, simulate

__all__ = ["Cluster", "Dataflow", "Simulation", "SourceSpec", "StageCost", "simulate"]
