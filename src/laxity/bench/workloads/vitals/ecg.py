"""Pan-Tompkins QRS detection, fed with a few samples at a time.

Band-pass 5–15 Hz, derivative, square, moving-window integration; then thresholds that follow the
signal, a refractory period, a look at the slope that tells T waves, and a search back where a beat
is overdue (Pan & Tompkins 1985). What it finds does not depend on how the samples were cut: it is
run over micro-batches and must not notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

INTEGRATED = 0.15
"""Seconds of the integration window: a wide QRS complex."""
REFRACTORY = 0.2
T_WAVE = 0.36
"""A peak so soon after a beat may be its T wave."""
LEARNING = 2.0
OVERDUE = 1.66
"""Times the mean RR interval."""


class Beat(NamedTuple):
    sample: int
    """Number of the sample of the R wave."""
    rr: float | None
    """Seconds since the beat before."""
    amplitude: float
    """Of the band-passed wave there."""


@dataclass(slots=True)
class Memory:
    """All that lasts from one batch to the next; plain numbers, as a state store wants them."""

    next_sample: int = 0
    began: int = 0
    band_zi: list[float] = field(default_factory=list)
    slope_zi: list[float] = field(default_factory=list)
    mean_zi: list[float] = field(default_factory=list)
    band: list[float] = field(default_factory=list)
    """The last second and a half of each signal, oldest first."""
    slope: list[float] = field(default_factory=list)
    strain: list[float] = field(default_factory=list)
    learned: bool = False
    signal: float = 0.0
    noise: float = 0.0
    candidate: int = -1
    candidate_height: float = 0.0
    last_peak: int = -1
    """On the integrated signal, of the last beat."""
    last_r: int = -1
    last_slope: float = 0.0
    rr: list[float] = field(default_factory=list)
    spare: int = -1
    """The highest peak since the last beat that was taken for noise; a search back begins there."""
    spare_height: float = 0.0
    spare_r: int = -1
    spare_amplitude: float = 0.0
    spare_slope: float = 0.0


@lru_cache(maxsize=8)
def _band_pass(rate: int) -> tuple[Any, int]:
    """The filter, and by how many samples it delays the top of a narrow wave."""
    from scipy import signal

    sos = signal.butter(2, (5.0, 15.0), btype="bandpass", fs=rate, output="sos")
    t = np.arange(-rate, rate) / rate
    wave = np.exp(-0.5 * (t / 0.015) ** 2)
    return sos, int(signal.sosfilt(sos, wave).argmax()) - rate


class PanTompkins:
    """One patient. `memory` is its whole state; give it back and it goes on."""

    def __init__(self, rate: int, memory: Memory | None = None) -> None:
        self._rate = rate
        self._sos, self._delay = _band_pass(rate)
        self._window = round(INTEGRATED * rate)
        self._kept = round(1.5 * rate)
        self.memory = memory or Memory()
        # The derivative is the paper's five points; integration is a running mean.
        self._five_points = np.array([2.0, 1.0, 0.0, -1.0, -2.0]) * rate / 8
        self._mean = np.full(self._window, 1 / self._window)

    def feed(self, first: int, millivolts: Array) -> list[Beat]:
        """Samples that follow those before; after a gap it begins anew. Beats whose samples have
        all been seen, up to half a second late."""
        if not millivolts.size:
            return []
        if first != self.memory.next_sample or not self.memory.band_zi:
            self._begin(first, float(millivolts[0]))
        learnt_at = self.memory.began + round(LEARNING * self._rate)
        beats: list[Beat] = []
        if first < learnt_at < first + millivolts.size:  # in two: what was learnt counts from there
            beats += self._feed(first, millivolts[: learnt_at - first])
            first, millivolts = learnt_at, millivolts[learnt_at - first :]
        return beats + self._feed(first, millivolts)

    def _begin(self, first: int, level: float) -> None:
        from scipy import signal

        settled = signal.sosfilt_zi(self._sos) * level
        self.memory = Memory(
            next_sample=first,
            began=first,
            band_zi=settled.ravel().tolist(),
            slope_zi=[0.0] * 4,
            mean_zi=[0.0] * (self._window - 1),
        )

    def _feed(self, first: int, millivolts: Array) -> list[Beat]:
        from scipy import signal

        m = self.memory
        band, zi = signal.sosfilt(self._sos, millivolts, zi=np.reshape(m.band_zi, (-1, 2)))
        m.band_zi = zi.ravel().tolist()
        slope, zi = signal.lfilter(self._five_points, 1.0, band, zi=m.slope_zi)
        m.slope_zi = zi.tolist()
        strain, zi = signal.lfilter(self._mean, 1.0, slope**2, zi=m.mean_zi)
        m.mean_zi = zi.tolist()

        before = len(m.strain)
        self._base = first - before
        self._band = np.concatenate([m.band, band])
        self._slope = np.concatenate([m.slope, slope])
        self._strain = np.concatenate([m.strain, strain])
        m.next_sample = end = first + millivolts.size
        learning = round(LEARNING * self._rate)
        beats: list[Beat] = []
        looked_at = before if m.learned else 0  # what was kept to learn from has beats as well
        if not m.learned and end >= m.began + learning:
            seen = self._strain[-min(learning, self._strain.size) :]
            m.signal, m.noise, m.learned = float(seen.max()) / 3, float(seen.mean()) / 2, True
        if m.learned:
            for peak in self._tops(looked_at):
                self._consider(peak, beats)
            if m.candidate >= 0 and end - 1 - m.candidate > REFRACTORY * self._rate:
                self._settle(beats)
        kept = self._kept if m.learned else learning
        m.band, m.slope = self._band[-kept:].tolist(), self._slope[-kept:].tolist()
        m.strain = self._strain[-kept:].tolist()
        return beats

    def _tops(self, before: int) -> list[int]:
        """Samples of the integrated signal higher than the one before and not lower than the one
        after, of which the later one is new."""
        y = self._strain[max(0, before - 2) :]
        tops = np.flatnonzero((y[1:-1] > y[:-2]) & (y[1:-1] >= y[2:])) + 1
        return [int(top) + max(0, before - 2) + self._base for top in tops]

    def _consider(self, peak: int, beats: list[Beat]) -> None:
        """The highest of all that are close together is the candidate."""
        m, height = self.memory, float(self._strain[peak - self._base])
        if m.candidate >= 0 and peak - m.candidate > REFRACTORY * self._rate:
            self._settle(beats)
        if m.candidate < 0 or height > m.candidate_height:
            m.candidate, m.candidate_height = peak, height

    def _settle(self, beats: list[Beat]) -> None:
        """Is the candidate a beat?"""
        m = self.memory
        peak, height = m.candidate, m.candidate_height
        m.candidate, m.candidate_height = -1, 0.0
        r, amplitude, steepness = self._r_wave(peak)
        threshold = m.noise + 0.25 * (m.signal - m.noise)
        since = (peak - m.last_peak) / self._rate if m.last_peak >= 0 else float("inf")
        t_wave = since < T_WAVE and steepness < 0.5 * m.last_slope
        if height > threshold and since > REFRACTORY and not t_wave:
            # Before this beat, one that was too low may have been missed.
            if self._overdue(since) and m.spare >= 0 and m.spare_height > 0.5 * threshold:
                m.signal += 0.25 * (m.spare_height - m.signal)
                spare = (m.spare, m.spare_r, m.spare_amplitude, m.spare_slope)
                self._beat(*spare, beats)
            m.signal += 0.125 * (height - m.signal)
            self._beat(peak, r, amplitude, steepness, beats)
            return
        m.noise += 0.125 * (height - m.noise)
        if height > m.spare_height and since > T_WAVE:
            m.spare, m.spare_height = peak, height
            m.spare_r, m.spare_amplitude, m.spare_slope = r, amplitude, steepness

    def _overdue(self, since: float) -> bool:
        rr = self.memory.rr
        return bool(rr) and since > OVERDUE * float(np.mean(rr))

    def _r_wave(self, peak: int) -> tuple[int, float, float]:
        """Where the band-passed wave is highest under the integration window, its amplitude, and
        its steepest slope."""
        end = peak - self._base + 1
        begin = max(0, end - self._window - 4)
        piece = self._band[begin:end]
        top = int(piece.argmax())
        r = begin + top + self._base - self._delay
        return r, float(piece[top]), float(np.abs(self._slope[begin:end]).max())

    def _beat(
        self, peak: int, r: int, amplitude: float, steepness: float, beats: list[Beat]
    ) -> None:
        m = self.memory
        rr = (r - m.last_r) / self._rate if m.last_r >= 0 else None
        if rr is not None:
            m.rr = [*m.rr[-7:], rr]
        m.last_peak, m.last_r, m.last_slope = peak, r, steepness
        m.spare, m.spare_height = -1, 0.0
        beats.append(Beat(r, rr, amplitude))
