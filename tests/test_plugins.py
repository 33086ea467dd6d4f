from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from laxity import plugins
from laxity.core.errors import UnknownPolicyError
from laxity.core.policies import LeastLaxityFirst
from laxity.plugins import BrokenPolicyError, load_policy


def test_a_policy_is_found_by_name_and_an_object_is_taken_as_it_is() -> None:
    assert isinstance(load_policy(" LLF "), LeastLaxityFirst)
    mine = LeastLaxityFirst()
    assert load_policy(mine) is mine


def test_an_unknown_policy_is_named_with_those_installed() -> None:
    with pytest.raises(UnknownPolicyError, match=r"no policy is named 'vip'; installed are .*llf"):
        load_policy("vip")


@pytest.mark.parametrize("thing", [object(), LeastLaxityFirst, 7])
def test_what_is_no_policy_is_refused(thing: object) -> None:
    with pytest.raises(BrokenPolicyError, match="is not a policy: it must be an object with name"):
        load_policy(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("leads_to", "says"),
    [("no.such.module:X", "cannot be loaded from"), ("builtins:object", "is not a policy")],
)
def test_a_broken_entry_point_is_named(
    leads_to: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("mine", leads_to, plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    with pytest.raises(BrokenPolicyError, match=f"{leads_to}.*{says}|{says}.*{leads_to}"):
        load_policy("mine")
