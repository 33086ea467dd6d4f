from __future__ import annotations

from pathlib import Path

from laxity.sim.files import Scenario, read_scenario
from laxity.sim.whatif import WhatIf

# Two queries on one core each: 40 % and 25 % of a core.
TEXT = """\
cores: 2
queries:
  - name: tight
    target: 60ms
    rate: 4000
    batch: 100ms
    stages: [{name: only, per_row: 100us, spread: 0}]
  - name: lax
    target: 1h
    rate: 2500
    batch: 100ms
    stages: [{name: only, per_row: 100us, spread: 0}]
"""


def _scenario(folder: Path, text: str = TEXT) -> Scenario:
    path = folder / "file.yaml"
    path.write_text(text, encoding="utf-8")
    return read_scenario(path)


def test_an_answer_has_it_all(tmp_path: Path) -> None:
    answer = WhatIf(_scenario(tmp_path), duration=20.0).answer()
    assert answer.result.jobs["tight"].success == 1.0
    assert 0.30 < answer.result.busy < 0.35
    # On one core a batch of `lax` that has begun (25 ms) would stand before one of `tight` (40 ms).
    assert answer.cores == 2
    # A batch of `tight` takes 40 ms of its 60: half as much again is too much for the deadline.
    assert answer.breaks is not None
    assert answer.breaks.queries[0] == "tight"
    assert 1.4 < answer.breaks.load < 1.6
    assert answer.loads[0][0] == 1.0


def test_input_that_piles_up_breaks_even_a_lax_target(tmp_path: Path) -> None:
    """An operator runs one message at a time: 4 times 25 % of a core is all it can do."""
    text = TEXT.replace("target: 60ms", "target: 1h")
    answer = WhatIf(_scenario(tmp_path, text), duration=20.0).answer()
    assert answer.breaks is not None
    assert answer.breaks.queries[0] == "tight"
    assert 2.3 < answer.breaks.load < 2.9


def test_a_target_no_number_of_cores_can_meet(tmp_path: Path) -> None:
    what_if = WhatIf(_scenario(tmp_path, TEXT.replace("60ms", "10ms")), duration=5.0)
    answer = what_if.answer()
    assert answer.cores is None
    assert answer.breaks is not None
    assert (answer.breaks.load, answer.breaks.queries) == (1.0, ("tight",))


def test_more_load_takes_more_cores(tmp_path: Path) -> None:
    stages = "stages: [{name: only, parallelism: 8, per_row: 100us}]"
    one = "stages: [{name: only, per_row: 100us, spread: 0}]"
    text = TEXT.replace(one, stages).replace("rate: 4000", "rate: 40000").replace("60ms", "200ms")
    cores = WhatIf(_scenario(tmp_path, text), duration=10.0).smallest_cores()
    assert cores is not None
    assert 4 < cores <= 8


def test_best_effort_queries_never_break(tmp_path: Path) -> None:
    text = TEXT.replace("    target: 60ms\n", "").replace("    target: 1h\n", "")
    assert WhatIf(_scenario(tmp_path, text), duration=2.0).answer().breaks is None


def test_the_same_seed_gives_the_same_answer(tmp_path: Path) -> None:
    first, second = (WhatIf(_scenario(tmp_path), duration=5.0, seed=7).answer() for _ in range(2))
    assert first.loads == second.loads
    assert first.cores == second.cores
