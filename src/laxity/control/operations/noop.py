"""Operations that do nothing but travel: to measure the control plane alone (Chi §7.2)."""

from __future__ import annotations

from dataclasses import dataclass

from laxity.control.operation import ControlOperation


@dataclass(frozen=True)
class NoOp(ControlOperation):
    name = "no-op"
    blocking = False


@dataclass(frozen=True)
class BlockingNoOp(ControlOperation):
    name = "blocking-no-op"
