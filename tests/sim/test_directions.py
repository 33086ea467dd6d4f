"""Three experiments of the paper, made small: the directions must hold on every change."""

from __future__ import annotations

import pytest

from laxity.sim.reproduce.mix import Mix, run_mix
from laxity.sim.reproduce.shares import TOKENS, run_tokens
from laxity.sim.reproduce.single import run_query
from laxity.sim.workloads import GROUP_1


def test_beside_bulk_jobs_cameo_keeps_targets_that_the_others_miss() -> None:
    """Figure 8c with one thread a node: overload."""
    group = {
        name: run_mix(*Mix(name, workers=1, duration=5.0, warmup=2.0)).group(GROUP_1)
        for name in ("cameo", "orleans", "fifo")
    }
    assert group["cameo"].success == 1.0
    for name in ("orleans", "fifo"):
        assert group[name].success < 0.5
        assert group[name].latencies.p50 > 2 * group["cameo"].latencies.p50
        assert group[name].latencies.p99 > 2 * group["cameo"].latencies.p99


def test_within_one_query_cameo_is_ahead_and_sjf_is_not() -> None:
    """Figures 7a and 11, IPQ1."""
    p50 = {
        name: run_query("IPQ1", name, 6.0, 1).group("IPQ1").latencies.p50
        for name in ("cameo", "orleans", "fifo", "edf", "sjf")
    }
    assert p50["cameo"] < p50["orleans"] < p50["sjf"]
    assert p50["cameo"] < p50["fifo"]
    assert p50["edf"] == pytest.approx(p50["cameo"], rel=0.2)


def test_tokens_share_throughput() -> None:
    """Figure 6: three dataflows, 5 s apart."""
    rates = run_tokens(5.0, 15.0, 1.0, 1)
    assert rates[3][0] == pytest.approx(2e6, rel=0.05)
    contended = rates[11:15]
    total = sum(map(sum, contended))
    for n, tokens in enumerate(TOKENS):
        share = sum(line[n] for line in contended) / total
        assert share == pytest.approx(tokens / sum(TOKENS), abs=0.08)
