"""The contract, for every policy that is installed: ours and the example's."""

from __future__ import annotations

import pytest

from laxity.core.policies import Policy
from laxity.plugins import load_policy, policy_names
from laxity.testing import PolicyContract


@pytest.mark.parametrize("name", policy_names())
class TestInstalledPolicies(PolicyContract):
    @pytest.fixture(autouse=True)
    def _policy(self, name: str) -> None:
        self.name = name

    def make_policy(self) -> Policy:
        return load_policy(self.name)


def test_the_policies_of_the_paper_and_the_example_are_found() -> None:
    expected = {"llf", "edf", "sjf", "fifo", "token", "deadline-monotonic"}
    assert expected <= set(policy_names())
    assert all(load_policy(name).name == name for name in expected)
