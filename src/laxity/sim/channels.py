"""The network between nodes: a delay, a bandwidth, and channels that never reorder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laxity.sim.cluster import Cluster
    from laxity.sim.engine import Engine
    from laxity.sim.operators import Message, Operator

_BYTES_PER_ROW = 100.0


class Network:
    def __init__(self, engine: Engine, cluster: Cluster) -> None:
        self._engine = engine
        self._delay = cluster.network_delay
        self._per_row = _BYTES_PER_ROW / cluster.bandwidth
        self._free: dict[tuple[int, int], float] = {}
        """When each channel has sent all it was given, by sender and receiver."""

    def send(self, now: float, sender: Operator, message: Message) -> None:
        """Bring `message` to another node: it leaves when the channel is free, and bytes take
        their time, so what was sent first arrives first."""
        channel = (sender.number, message.operator.number)
        left = max(now, self._free.get(channel, 0.0)) + message.rows * self._per_row
        self._free[channel] = left
        self._engine.at(left + self._delay, _deliver, message)


def _deliver(now: float, message: Message) -> None:
    message.operator.node.submit(now, message)
