"""Signals of patients, as formulas: the same in numpy, where the truth is told, and in Spark's own
expressions, where they are the rows of a stream.

A patient is a number. Everything about one follows from it, and from the time in the record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

ECG_RATE = 125
"""Samples a second, as in the MIMIC recordings of the paper."""
THORAX_RATE = 10

_WAVES = (
    # place in the beat, width (both parts of a beat), height in mV: P, Q, R, S, T
    (0.16, 0.025, 0.12),
    (0.27, 0.010, -0.10),
    (0.30, 0.012, 1.00),
    (0.33, 0.010, -0.25),
    (0.55, 0.055, 0.30),
)
_R = _WAVES[2][0]


@dataclass(frozen=True, slots=True)
class Patient:
    number: int

    @property
    def beats_a_second(self) -> float:
        return 0.9 + 0.11 * (self.number * 7 % 10)

    @property
    def breaths_a_second(self) -> float:
        return 0.2 + 0.012 * (self.number * 3 % 10)

    @property
    def sway(self) -> float:
        """How irregular the heart is: the part of a beat by which breathing moves it."""
        return 0.03 + 0.012 * (self.number % 5)

    @property
    def noise(self) -> float:
        """Of muscles, in mV."""
        return 0.02 + 0.02 * (self.number % 4)

    def phase(self, t: Any, m: ModuleType) -> Any:
        """Beats since the beginning; never runs backwards."""
        turn = 2 * math.pi * self.breaths_a_second
        slow = 2 * math.pi * 0.1
        moved = self.sway * m.sin(t * turn) + 0.5 * self.sway * m.sin(t * slow)
        return t * self.beats_a_second + moved + 0.137 * self.number

    def ecg(self, t: Any, m: ModuleType) -> Any:
        """mV: waves, drift of the electrodes, the mains and muscles. `m` is numpy or
        pyspark.sql.functions."""
        phase = self.phase(t, m)
        within = phase - m.floor(phase)
        beat = t * 0.0
        for place, width, height in _WAVES:
            beat = beat + height * m.exp(-0.5 * ((within - place) / width) ** 2)
        breath = m.sin(t * (2 * math.pi * self.breaths_a_second))
        mains = 0.04 * m.sin(t * (2 * math.pi * 50.0))
        return (
            beat * (1 + 0.1 * breath)
            + 0.25 * breath
            + mains
            + self.noise * 2 * _hiss(t, self.number, m)
        )

    def chest(self, t: Any, m: ModuleType) -> Any:
        """Extension of the chest, in mm: breaths of changing depth."""
        breath = m.sin(t * (2 * math.pi * self.breaths_a_second))
        depth = 4.0 + 1.5 * m.sin(t * (2 * math.pi * 0.021) + float(self.number))
        return 20.0 + depth * breath + 0.3 * _hiss(t, self.number + 50, m)

    def beats(self, until: float) -> NDArray[np.float64]:
        """The truth: when its R waves are, from 0 on."""
        first = math.ceil(float(self.phase(0.0, np)) - _R)
        last = math.floor(float(self.phase(until, np)) - _R)
        wanted = np.arange(first, last + 1) + _R
        low, high = np.zeros(wanted.size), np.full(wanted.size, until)
        for _ in range(60):  # the phase only grows: halve
            middle = (low + high) / 2
            early = self.phase(middle, np) < wanted
            low, high = np.where(early, middle, low), np.where(early, high, middle)
        found: NDArray[np.float64] = (low + high) / 2
        return found


def _hiss(t: Any, seed: int, m: ModuleType) -> Any:
    """Noise of about a bell's shape, between −1.5 and 1.5, from the time alone."""
    total = t * 0.0 - 1.5
    for turn in (1, 2, 3):
        angle = t * (1297.13 * turn) + float(seed * 12.9898 + turn * 78.233)
        swing = m.sin(angle) * 43758.5453
        total = total + (swing - m.floor(swing))
    return total


def samples(patient: int, first: int, count: int) -> NDArray[np.float64]:
    """Of the electrocardiogram, by their numbers."""
    t = np.arange(first, first + count) / ECG_RATE
    mv: NDArray[np.float64] = Patient(patient).ecg(t, np)
    return mv


@dataclass(frozen=True, slots=True)
class Match:
    found: int
    missed: int
    false: int

    @property
    def sensitivity(self) -> float:
        return self.found / max(self.found + self.missed, 1)

    @property
    def precision(self) -> float:
        return self.found / max(self.found + self.false, 1)

    def __add__(self, other: Match) -> Match:
        return Match(self.found + other.found, self.missed + other.missed, self.false + other.false)


def match(detected: Sequence[float], truth: Sequence[float], *, within: float = 0.075) -> Match:
    """Each beat is found by at most one detection (AAMI allows 150 ms; this is stricter)."""
    found, i, j = 0, 0, 0
    seen, true = sorted(detected), sorted(truth)
    while i < len(seen) and j < len(true):
        if abs(seen[i] - true[j]) <= within:
            found, i, j = found + 1, i + 1, j + 1
        elif seen[i] < true[j]:
            i += 1
        else:
            j += 1
    return Match(found, len(true) - found, len(seen) - found)
