"""The detector and the summary, against generated signals of which the truth is known."""

from __future__ import annotations

import functools
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laxity.bench.workloads.vitals.ecg import Beat, Memory, PanTompkins
from laxity.bench.workloads.vitals.signals import (
    ECG_RATE,
    THORAX_RATE,
    Match,
    Patient,
    match,
    samples,
)
from laxity.bench.workloads.vitals.thorax import HISTORY, Chest

SECONDS = 120


def detected(patient: int, mv: np.ndarray) -> list[float]:
    return [beat.sample / ECG_RATE for beat in PanTompkins(ECG_RATE).feed(0, mv)]


def against_truth(patient: int, mv: np.ndarray) -> Match:
    """All but the first seconds, in which it learns, and the last, which it has not seen whole."""
    truth = [t for t in Patient(patient).beats(SECONDS) if 3 < t < SECONDS - 1]
    found = [t for t in detected(patient, mv) if 2.9 < t < SECONDS - 0.9]
    return match(found, truth)


def test_nearly_all_beats_are_found_and_little_else() -> None:
    total = Match(0, 0, 0)
    for patient in range(10):
        one = against_truth(patient, samples(patient, 0, SECONDS * ECG_RATE))
        assert one.sensitivity > 0.95, (patient, one)
        assert one.precision > 0.95, (patient, one)
        total += one
    assert total.sensitivity > 0.99, total
    assert total.precision > 0.99, total


def test_the_score_tells_a_signal_without_beats() -> None:
    noise = np.random.default_rng(1).normal(0, 0.3, SECONDS * ECG_RATE)
    one = against_truth(3, noise)
    assert one.precision < 0.6


def test_a_beat_that_was_too_low_is_found_when_it_is_overdue() -> None:
    patient = Patient(0)
    mv = samples(0, 0, SECONDS * ECG_RATE)
    weak = patient.beats(SECONDS)[40]
    t = np.arange(mv.size) / ECG_RATE
    mv = np.where(abs(t - weak) < 0.1, 0.45 * mv, mv)
    assert any(abs(found - weak) < 0.075 for found in detected(0, mv))


def test_a_gap_begins_anew_and_does_not_invent_beats() -> None:
    detector = PanTompkins(ECG_RATE)
    begin = samples(1, 0, 20 * ECG_RATE)
    later = samples(1, 60 * ECG_RATE, 20 * ECG_RATE)
    found = detector.feed(0, begin) + detector.feed(60 * ECG_RATE, later)
    assert [b for b in found if 20 < b.sample / ECG_RATE < 60] == []
    after = [b for b in found if b.sample >= 60 * ECG_RATE]
    assert len(after) > 20
    assert after[0].rr is None


@functools.cache
def whole() -> tuple[np.ndarray, list[Beat]]:
    mv = samples(7, 0, 30 * ECG_RATE)
    return mv, PanTompkins(ECG_RATE).feed(0, mv)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 400), min_size=1))
def test_how_the_samples_are_cut_changes_nothing(cuts: list[int]) -> None:
    """With the memory going through a row of plain numbers each time, as in Spark's state."""
    mv, expected = whole()
    found: list[Beat] = []
    memory, at = Memory(), 0
    for cut in [*cuts, mv.size]:
        detector = PanTompkins(ECG_RATE, Memory(*astuple(memory)))
        found += detector.feed(at, mv[at : at + cut])
        memory, at = detector.memory, min(at + cut, mv.size)
    assert found == expected


def test_the_chest_is_summarised_over_all_and_kept_for_ten_seconds() -> None:
    patient, chest = Patient(4), Chest()
    times = np.arange(90 * THORAX_RATE) / THORAX_RATE
    extensions = patient.chest(times, np)
    for begin in range(0, times.size, 37):
        chest.feed(times[begin : begin + 37], extensions[begin : begin + 37])
        seen, now = extensions[: begin + 37], times[: begin + 37][-1]
        assert (chest.least, chest.most) == (seen.min(), seen.max())
        assert chest.mean == pytest.approx(seen.mean())
        recent = times[: begin + 37] > now - HISTORY
        assert chest.extensions == extensions[: begin + 37][recent].tolist()
    assert chest.breaths_a_minute == pytest.approx(60 * patient.breaths_a_second, abs=7)


def test_matching_counts_each_beat_once() -> None:
    assert match([1.0, 1.05, 2.0], [1.02, 2.5]) == Match(found=1, missed=1, false=2)
    assert match([], []).sensitivity == 0.0
