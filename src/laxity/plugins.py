"""Policies by name, ours and anybody's: the entry-point group `laxity.policies`.

A package adds one with, in its pyproject.toml:

    [project.entry-points."laxity.policies"]
    my-policy = "my_package:MyPolicy"
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from laxity.core.errors import LaxityError, UnknownPolicyError
from laxity.core.policies import Policy

GROUP = "laxity.policies"


class BrokenPolicyError(LaxityError, TypeError):
    """An entry point that does not lead to a policy."""


def policy_names() -> list[str]:
    return sorted({point.name for point in entry_points(group=GROUP)})


def load_policy(policy: str | Policy) -> Policy:
    """The policy of that name; a policy object is taken as it is."""
    if not isinstance(policy, str):
        return _checked(policy, repr(policy))
    name = policy.strip().lower()
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _checked(_build(point), f"entry point {point.value!r}")
    raise UnknownPolicyError(
        f"no policy is named {policy!r}; installed are {', '.join(policy_names()) or 'none'}"
    )


def _build(point: EntryPoint) -> object:
    try:
        return point.load()()
    except Exception as error:
        raise BrokenPolicyError(
            f"policy {point.name!r} cannot be loaded from {point.value!r}: {error}"
        ) from error


def _checked(candidate: object, origin: str) -> Policy:
    if isinstance(candidate, Policy) and not isinstance(candidate, type):
        return candidate
    raise BrokenPolicyError(
        f"{origin} is not a policy: it must be an object with name, needs_tokens and "
        "rule(situation)"
    )
