"""Translators and journal on a machine in memory, with faults."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from laxity.host.entities import Thread
from laxity.host.errors import HostBusyError, InvalidHostConfigError
from laxity.host.journal import Journal, recover
from laxity.host.kernel import DryKernel, Kernel
from laxity.host.normalise import Spacing
from laxity.host.notices import Notices
from laxity.host.schedule import Group, GroupingSchedule, NestedSchedule, SinglePrioritySchedule
from laxity.host.testing import FakeKernel
from laxity.host.translators import Translator, make_translator
from laxity.host.translators.api import Tools

from .conftest import thread

A, B, C = thread(11), thread(12), thread(13)
MAIN = thread(1)


class Bench:
    """A translator with all it needs, and what was said."""

    def __init__(self, kernel: Kernel, name: str, **options: object) -> None:
        self.said: list[str] = []
        self.journal = Journal(kernel, pause=lambda _: None)
        self.tools = Tools(kernel, self.journal, Notices(self.said.append), "test")
        self.translator: Translator = make_translator(name, self.tools, **options)  # type: ignore[arg-type]


def ratios(**priorities: float) -> SinglePrioritySchedule:
    threads = {"a": A, "b": B, "c": C}
    return SinglePrioritySchedule({threads[k]: p for k, p in priorities.items()}, Spacing.LOG)


def groups(**priorities: float) -> GroupingSchedule:
    threads = {"a": A, "b": B, "c": C}
    return GroupingSchedule(
        {f"e/{k}": Group(p, frozenset({threads[k]})) for k, p in priorities.items()}, Spacing.LOG
    )


def test_nice_gives_exact_values_for_ratios_and_touches_only_what_changed() -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "nice")
    bench.translator.apply(ratios(a=4, b=1))
    assert (kernel.nices[11], kernel.nices[12], kernel.nices[1]) == (-20, -14, 0)
    kernel.calls.clear()
    assert bench.translator.apply(ratios(a=4, b=1)) == []
    assert kernel.calls == []


def test_nice_uses_min_max_for_linear_priorities() -> None:
    kernel = FakeKernel(MAIN, A, B, C)
    bench = Bench(kernel, "nice")
    bench.translator.apply(SinglePrioritySchedule({A: 0.0, B: 50.0, C: 100.0}))
    assert [kernel.nices[t] for t in (11, 12, 13)] == [19, 0, -20]


def test_a_thread_that_leaves_the_schedule_gets_its_value_back() -> None:
    kernel = FakeKernel(MAIN, A, B)
    kernel.nices[12] = 3
    bench = Bench(kernel, "nice")
    bench.translator.apply(ratios(a=4, b=1))
    bench.translator.apply(ratios(a=4))
    assert kernel.nices[12] == 3
    bench.translator.release()
    assert kernel.nices == {1: 0, 11: 0, 12: 3}
    assert len(bench.journal) == 0


def test_a_thread_that_ends_between_reading_and_setting_is_passed_over() -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "nice")
    kernel.fail["set_nice"] = lambda tid, value: (
        ProcessLookupError(errno.ESRCH, "gone") if tid == 11 else None
    )
    bench.translator.apply(ratios(a=4, b=1))
    assert kernel.nices[12] == -14
    assert bench.said == []


def test_a_reused_tid_is_never_touched() -> None:
    kernel = FakeKernel(MAIN, Thread(2, 11, 999))
    bench = Bench(kernel, "nice")
    bench.translator.apply(ratios(a=4, b=1))
    assert kernel.nices[11] == 0
    kernel.living = [MAIN, A]
    bench.translator.apply(ratios(a=4, b=1))
    kernel.living = [MAIN, Thread(2, 11, 999)]
    bench.translator.release()
    assert kernel.nices[11] == -20, "the stranger keeps what it has"


def test_without_the_right_to_raise_the_lax_are_lowered_and_it_is_said_once() -> None:
    kernel = FakeKernel(MAIN, A, B, most_urgent_nice=20)
    bench = Bench(kernel, "nice")
    bench.translator.apply(ratios(a=4, b=1))
    assert (kernel.nices[11], kernel.nices[12]) == (0, 6)
    bench.translator.apply(ratios(a=1, b=4))
    assert (kernel.nices[11], kernel.nices[12]) == (6, 6), "what is lowered stays lowered"
    assert len(bench.said) == 1
    assert "no right to raise priorities" in bench.said[0]


def test_threads_of_another_user_are_reported_once() -> None:
    kernel = FakeKernel(MAIN, A, B)
    kernel.fail["set_nice"] = PermissionError(errno.EPERM, "not yours")
    bench = Bench(kernel, "nice")
    bench.translator.apply(ratios(a=4, b=1))
    bench.translator.apply(ratios(a=4, b=1))
    assert len(bench.said) == 1
    assert "not allowed to set nice" in bench.said[0]


def test_threads_born_with_a_value_of_ours_are_put_back_to_the_processs_own() -> None:
    kernel = FakeKernel(MAIN, A)
    kernel.nices[1] = 2
    bench = Bench(kernel, "nice")
    bench.translator.apply(ratios(a=4, b=1))
    scheduled, unseen = Thread(1, 12, 50), Thread(1, 14, 51)
    worker = Thread(70, 70, 52)
    kernel.birth(scheduled, parent=11)
    kernel.birth(unseen, parent=11)
    kernel.birth(worker, parent=11)
    kernel.children[1] = [70]
    bench.translator.apply(SinglePrioritySchedule({A: 4.0, scheduled: 1.0}, Spacing.LOG))
    assert kernel.nices[12] == -14
    bench.translator.release()
    assert kernel.nices == {1: 2, 11: 0, 12: 2, 14: 2, 70: 2}


@pytest.mark.parametrize("unified", [False, True])
def test_groups_get_weights_in_the_ratio_of_priorities(unified: bool) -> None:
    kernel = FakeKernel(MAIN, A, B, unified=unified)
    bench = Bench(kernel, "shares")
    bench.translator.apply(groups(a=4, b=1))
    root = "/cg/laxity-test"
    file = "cpu.weight" if unified else "cpu.shares"
    assert kernel.where[11] == f"{root}/e_a"
    assert kernel.where[12] == f"{root}/e_b"
    assert kernel.where[1] == "/cg", "threads nobody ranked stay where they are"
    weights = [int(kernel.files[f"{root}/e_{g}/{file}"]) for g in "ab"]
    assert weights[0] / weights[1] == pytest.approx(4, rel=0.02)
    if unified:
        assert kernel.files[f"{root}/e_a/cgroup.type"] == "threaded"
        assert kernel.files[f"{root}/cgroup.subtree_control"] == "cpu"
    before = FakeKernel(MAIN, A, B, unified=unified)
    bench.translator.release()
    assert (kernel.where, kernel.dirs, kernel.files) == (before.where, before.dirs, before.files)


def test_groups_nest_below_the_home_of_their_process() -> None:
    kernel = FakeKernel(MAIN, A)
    kernel.make_dir("/cg/docker")
    kernel.where = {1: "/cg/docker", 11: "/cg/docker"}
    bench = Bench(kernel, "shares")
    bench.translator.apply(groups(a=1))
    assert kernel.where[11] == "/cg/docker/laxity-test/e_a"
    bench.translator.release()
    assert kernel.where[11] == "/cg/docker"


def test_a_query_that_vanishes_takes_its_group_along() -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "shares")
    bench.translator.apply(groups(a=4, b=1))
    kernel.end(12)
    bench.translator.apply(groups(a=4))
    assert "/cg/laxity-test/e_b" not in kernel.dirs
    bench.translator.apply(groups(a=4, c=2))
    assert "/cg/laxity-test/e_b" not in kernel.dirs


def test_threads_born_inside_a_group_leave_it_at_the_end() -> None:
    kernel = FakeKernel(MAIN, A)
    bench = Bench(kernel, "shares")
    bench.translator.apply(groups(a=1))
    kernel.birth(Thread(1, 15, 60), parent=11)
    bench.translator.release()
    assert kernel.where[15] == "/cg"
    assert kernel.dirs == {"/cg"}


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("call", ["make_dir", "write"])
def test_a_full_or_read_only_tree_is_reported_once_and_recovers(call: str, code: int) -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "shares")
    kernel.fail[call] = OSError(code, os.strerror(code), "/cg")
    for _ in range(3):
        bench.translator.apply(groups(a=4, b=1))
    assert len(bench.said) == 1
    assert os.strerror(code) in bench.said[0]
    del kernel.fail[call]
    bench.translator.apply(groups(a=4, b=1))
    assert kernel.where[11] == "/cg/laxity-test/e_a"
    assert bench.said[1:] == ["control groups can be changed again"]
    bench.translator.release()
    assert kernel.dirs == {"/cg"}


def test_a_group_somebody_removed_is_made_again() -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "shares")
    bench.translator.apply(groups(a=4))
    kernel.where[11] = "/cg"
    kernel.remove_dir("/cg/laxity-test/e_a")
    for _ in range(2):
        bench.translator.apply(GroupingSchedule({"e/a": Group(4, frozenset({A, B}))}))
    assert kernel.where[12] == "/cg/laxity-test/e_a"


def test_without_writable_groups_it_falls_back_to_nice_with_a_notice() -> None:
    kernel = FakeKernel(MAIN, A)
    kernel.fail["is_writable"] = PermissionError(errno.EACCES, "no")
    bench = Bench(kernel, "shares")
    assert bench.translator.name == "nice"
    assert "not writable" in bench.said[0]
    assert "using nice instead" in bench.said[0]


def test_quota_parts_the_cores() -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "quota", cores=2)
    bench.translator.apply(groups(a=3, b=1))
    quotas = [kernel.files[f"/cg/laxity-test/e_{g}/cpu.cfs_quota_us"] for g in "ab"]
    assert quotas == ["150000", "50000"]


def test_quota_on_version_2() -> None:
    kernel = FakeKernel(MAIN, A, B, unified=True)
    bench = Bench(kernel, "quota", cores=2)
    bench.translator.apply(groups(a=3, b=1))
    assert kernel.files["/cg/laxity-test/e_a/cpu.max"] == "150000 100000"


def test_round_robin_orders_by_real_time_priority_and_goes_back() -> None:
    kernel = FakeKernel(MAIN, A, B)
    bench = Bench(kernel, "rr")
    bench.translator.apply(ratios(a=100, b=1))
    assert kernel.schedulers[11] == (os.SCHED_RR, 40)
    assert kernel.schedulers[12] == (os.SCHED_RR, 1)
    bench.translator.apply(ratios(a=100))
    assert kernel.schedulers[12] == (0, 0)
    bench.translator.release()
    assert kernel.schedulers[11] == (0, 0)


def test_round_robin_needs_rights() -> None:
    bench = Bench(FakeKernel(MAIN, A, most_urgent_nice=20), "rr")
    assert bench.translator.name == "nice"


def test_combined_uses_the_whole_nice_range_inside_each_group() -> None:
    kernel = FakeKernel(MAIN, A, B, C)
    bench = Bench(kernel, "shares+nice")
    nested = NestedSchedule(
        GroupingSchedule({"x": Group(1, frozenset({A, B})), "y": Group(1, frozenset({C}))}),
        SinglePrioritySchedule({A: 1.0, B: 2.0, C: 1000.0}),
    )
    bench.translator.apply(nested)
    assert [kernel.nices[t] for t in (11, 12, 13)] == [19, -20, 0]
    assert kernel.where[11] == kernel.where[12] != kernel.where[13]
    bench.translator.release()
    assert [kernel.nices[t] for t in (11, 12, 13)] == [0, 0, 0]
    assert kernel.dirs == {"/cg"}


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InvalidHostConfigError, match=r"'chrt'.*shares\+nice"):
        Bench(FakeKernel(), "chrt")
    with pytest.raises(InvalidHostConfigError, match=r"'linear'.*log-min-max"):
        Bench(FakeKernel(), "nice", normalisation="linear")


def test_a_dry_run_says_what_it_would_do_and_does_nothing() -> None:
    kernel = FakeKernel(MAIN, A, B, C)
    said: list[str] = []
    dry = DryKernel(kernel, said.append)
    bench = Bench(dry, "shares+nice")
    both = {"e/a": Group(4, frozenset({A, B})), "e/c": Group(1, frozenset({C}))}
    nested = NestedSchedule(GroupingSchedule(both, Spacing.LOG), ratios(a=4, b=1, c=1))
    bench.translator.apply(nested)
    assert "mkdir /cg/laxity-test/e_a" in said
    assert "/cg/laxity-test/e_a/cpu.shares <- 2048" in said
    assert "nice of thread 11: 0 -> -20" in said
    assert kernel.nices[11] == 0
    assert kernel.dirs == {"/cg"}
    count = len(said)
    bench.translator.apply(nested)
    assert len(said) == count


def test_the_journal_survives_its_owner_and_is_taken_over(tmp_path: Path) -> None:
    kernel = FakeKernel(MAIN, A, B)
    journal = Journal(kernel, tmp_path, "host")
    tools = Tools(kernel, journal, Notices(lambda _: None), "p")
    make_translator("nice", tools).apply(ratios(a=4, b=1))
    make_translator("shares", tools).apply(groups(a=4, b=1))
    assert recover(kernel, tmp_path).restored == 0, "the owner lives"
    with pytest.raises(HostBusyError, match="--name"):
        Journal(kernel, tmp_path, "host")
    os.close(journal._lock)  # as a kill -9 would
    with (tmp_path / "host.journal").open("a") as file:
        file.write('{"kind": "nice", "ow')
    report = recover(kernel, tmp_path)
    assert report.failed == []
    assert kernel.nices == {1: 0, 11: 0, 12: 0}
    assert kernel.dirs == {"/cg"}
    assert list(tmp_path.iterdir()) == []


def test_a_journal_of_an_earlier_boot_is_dropped(tmp_path: Path) -> None:
    kernel = FakeKernel(MAIN, A)
    line = '{"kind":"nice","owner":"p","pid":1,"tid":11,"started":0,"path":"","was":5}'
    (tmp_path / "host.journal").write_text('{"boot":"another"}\n' + line + "\n")
    assert recover(kernel, tmp_path).restored == 0
    assert kernel.nices[11] == 0


def test_what_cannot_be_put_back_stays_in_the_journal(tmp_path: Path) -> None:
    kernel = FakeKernel(MAIN, A)
    journal = Journal(kernel, tmp_path, "host")
    tools = Tools(kernel, journal, Notices(lambda _: None), "p")
    make_translator("nice", tools).apply(ratios(a=4, b=1))
    kernel.fail["set_nice"] = PermissionError(errno.EPERM, "no longer root")
    assert journal.restore().failed == ["nice of thread 11 of process 1: no longer root"]
    journal.close()
    del kernel.fail["set_nice"]
    assert recover(kernel, tmp_path).restored == 1
    assert kernel.nices[11] == 0


def test_a_long_run_does_not_grow_the_journal(tmp_path: Path) -> None:
    kernel = FakeKernel(MAIN)
    journal = Journal(kernel, tmp_path, "host")
    tools = Tools(kernel, journal, Notices(lambda _: None), "p")
    translator = make_translator("nice", tools)
    for round_ in range(3000):
        tid = 100 + round_
        kernel.living = [MAIN, Thread(1, tid, round_)]
        kernel.nices[tid] = 0
        translator.apply(SinglePrioritySchedule({MAIN: 4.0, kernel.living[1]: 1.0}, Spacing.LOG))
    lines = (tmp_path / "host.journal").read_text().count("\n")
    assert lines < 2100
    journal.restore()
    journal.close()
