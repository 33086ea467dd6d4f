"""Algorithm 3 and the catalogue, with the paper's Figure 4."""

from __future__ import annotations

import pytest

from laxity.host.catalogue import CATALOGUE
from laxity.host.entities import Deployment, LogicalOperator, PhysicalOperator, Query
from laxity.host.errors import MissingMetricError
from laxity.host.metrics import Inputs, Metric, MetricProvider, Snapshot
from laxity.host.testing import FakeDriver


def pipeline(*operators: str, engine: str = "e") -> Deployment:
    downs = [*operators[1:], None]
    return Deployment(
        engine,
        (Query("q", engine),),
        tuple(
            LogicalOperator(op, "q", (down,) if down else ())
            for op, down in zip(operators, downs, strict=True)
        ),
        tuple(PhysicalOperator(f"p{op}", "q", (op,)) for op in operators),
    )


PIPE = pipeline("a", "b", "c")


def compute(metric: str, raw: dict[str, dict[str, float]], at: float = 0.0) -> dict[str, float]:
    return dict(MetricProvider(CATALOGUE).update(Snapshot(PIPE, at, raw), [metric])[metric])


def test_figure_4_spe_a_computes_path_selectivity_and_takes_path_cost_as_given() -> None:
    driver = FakeDriver(PIPE, {"path_cost": {"a": 4.0}, "selectivity": {"a": 0.5, "b": 1, "c": 1}})
    provider = MetricProvider(CATALOGUE)
    needs = provider.raw_needs(["highest_rate"], driver)
    assert needs == {"path_cost", "selectivity"}
    values = provider.update(driver.snapshot(0.0, needs), ["highest_rate"])
    assert values["highest_rate"] == {"a": 0.5 / 4.0}


def test_figure_4_spe_b_computes_everything_from_the_leaves() -> None:
    driver = FakeDriver(PIPE, {name: {} for name in ("records_in", "records_out", "cpu_seconds")})
    provider = MetricProvider(CATALOGUE)
    needs = provider.raw_needs(["highest_rate"], driver)
    assert needs == {"records_in", "records_out", "cpu_seconds"}
    driver.raw = {
        "records_in": {"a": 0, "b": 0, "c": 0},
        "records_out": {"a": 0, "b": 0, "c": 0},
        "cpu_seconds": {"a": 0, "b": 0, "c": 0},
    }
    assert provider.update(driver.snapshot(10.0, needs), ["highest_rate"]) == {"highest_rate": {}}
    driver.raw = {
        "records_in": {"a": 100, "b": 50, "c": 100},
        "records_out": {"a": 50, "b": 100, "c": 0},
        "cpu_seconds": {"a": 0.1, "b": 0.1, "c": 0.1},
    }
    rates = provider.update(driver.snapshot(12.0, needs), ["highest_rate"])["highest_rate"]
    # costs 1, 2, 1 ms; selectivities 0.5, 2 and (egress) 1
    assert rates["c"] == pytest.approx(1 / 0.001)
    assert rates["b"] == pytest.approx(2 / (0.002 + 2 * 0.001))
    assert rates["a"] == pytest.approx(1 / (0.001 + 0.5 * 0.004))


def test_missing_primitive_metric_is_one_clear_configuration_error() -> None:
    driver = FakeDriver(PIPE, {"records_in": {}, "cpu_seconds": {}})
    with pytest.raises(MissingMetricError, match=r"'e'.*'records_out'.*'highest_rate'.*cpu_sec"):
        MetricProvider(CATALOGUE).raw_needs(["highest_rate"], driver)
    with pytest.raises(MissingMetricError, match="records_out"):
        compute("output_rate", {})


def test_unknown_metric_is_named() -> None:
    with pytest.raises(MissingMetricError, match=r"no metric is named 'qeue_size'.*queue_size"):
        compute("qeue_size", {})


def test_a_metric_is_computed_once_a_period_and_driver() -> None:
    calls: list[str] = []

    def twice(inputs: Inputs) -> dict[str, float]:
        calls.append(inputs.deployment.engine)
        return {key: 2 * value for key, value in inputs.now["raw"].items()}

    provider = MetricProvider(
        [
            Metric("raw"),
            Metric("shared", ("raw",), twice),
            Metric("left", ("shared",), lambda i: i.now["shared"]),
            Metric("right", ("shared",), lambda i: i.now["shared"]),
        ]
    )
    for engine in ("one", "two"):
        snapshot = Snapshot(pipeline("a", engine=engine), 0.0, {"raw": {"a": 1.0}})
        values = provider.update(snapshot, ["left", "right"])
        assert values == {"left": {"a": 2.0}, "right": {"a": 2.0}}
    assert calls == ["one", "two"]


def test_a_metric_of_the_driver_wins_over_computing_it() -> None:
    raw = {"cost": {"a": 7.0}, "cpu_use": {"a": 1.0}, "input_rate": {"a": 1.0}}
    assert compute("cost", raw) == {"a": 7.0}


def test_rates_skip_restarted_counters_and_need_two_looks() -> None:
    provider = MetricProvider(CATALOGUE)
    first = Snapshot(PIPE, 0.0, {"records_in": {"a": 100.0, "b": 5.0}})
    assert provider.update(first, ["input_rate"])["input_rate"] == {}
    second = Snapshot(PIPE, 2.0, {"records_in": {"a": 3.0, "b": 9.0, "c": 1.0}})
    assert provider.update(second, ["input_rate"])["input_rate"] == {"b": 2.0}


def test_selectivity_counts_an_egress_as_one() -> None:
    raw = {"input_rate": {"a": 10.0, "c": 5.0}, "output_rate": {"a": 5.0, "c": 0.0}}
    assert compute("selectivity", raw) == {"a": 0.5, "c": 1.0}


def test_head_age_adds_the_waits_on_the_way() -> None:
    provider = MetricProvider(CATALOGUE)
    raw = {"queue_size": {"a": 10.0, "b": 4.0, "c": 0.0}, "input_rate": {"a": 5, "b": 4, "c": 4}}
    ages = provider.update(Snapshot(PIPE, 0.0, raw), ["head_age"])["head_age"]
    assert ages == {"a": 2.0, "b": 3.0, "c": 3.0}


def test_a_queue_nobody_served_has_waited_at_least_a_period() -> None:
    provider = MetricProvider(CATALOGUE)
    raw = {"queue_size": {"a": 3.0}, "input_rate": {"a": 0.0}}
    provider.update(Snapshot(PIPE, 0.0, raw), ["queue_wait"])
    waits = provider.update(Snapshot(PIPE, 2.0, raw), ["queue_wait"])["queue_wait"]
    assert waits == {"a": 6.0}


def test_laxity_is_target_less_age_less_path_cost() -> None:
    raw = {
        "target": {"a": 1.0, "b": 1.0},
        "head_age": {"a": 0.3},
        "path_cost": {"a": 0.2, "b": 0.1},
    }
    assert compute("laxity", raw) == pytest.approx({"a": 0.5, "b": 1.0})


def test_paths_branch_by_sum_and_replicate_by_mean(figure_2: Deployment) -> None:
    ops = {op.id for op in figure_2.logical} | {op.id for op in figure_2.physical}
    raw = {"cost": dict.fromkeys(ops, 1.0), "selectivity": dict.fromkeys(ops, 1.0)}
    raw["cost"]["e/q/F1"] = 3.0
    provider = MetricProvider(CATALOGUE)
    costs = provider.update(Snapshot(figure_2, 0.0, raw), ["path_cost"])["path_cost"]
    assert costs["B"] == 1 + (1 + 1 + 1 + 1) + (1 + 1)
    assert costs["e/q/B"] == 1 + (1 + 1) + ((3 + 1) + (1 + 1)) / 2


def test_a_cycle_does_not_hang() -> None:
    loop = Deployment(
        "e",
        (Query("q", "e"),),
        (LogicalOperator("a", "q", ("b",)), LogicalOperator("b", "q", ("a",))),
    )
    raw = {"cost": {"a": 1.0, "b": 2.0}, "selectivity": {"a": 1.0, "b": 1.0}}
    values = MetricProvider(CATALOGUE).update(Snapshot(loop, 0.0, raw), ["path_cost"])
    assert values["path_cost"]["a"] == 3.0
