"""Where keys live: a key space of positions, sets of ranges in it, and consistent hashing.

A key has a position; an operator owns a set of ranges of positions. Ranges are half-open, so that a
space cut in two has neither a gap nor an overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from laxity.control.errors import InvalidKeyRangeError

SPACE = 2**32
"""Positions are the integers from 0 to here."""

Positioner = Callable[[Hashable], int]


def hashed(key: Hashable) -> int:
    """The position of a key: the same in every process and every run."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=4).digest(), "big")


def alphabetical(key: Hashable) -> int:
    """Positions by first letter, `a` to `z` over the whole space: for examples one can read."""
    letter = min(max(ord(str(key)[:1].lower() or "a") - ord("a"), 0), 25)
    return letter * (SPACE // 26)


POSITIONERS: dict[str, Positioner] = {"hashed": hashed, "alphabetical": alphabetical}


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A set of positions, as disjoint half-open intervals in ascending order."""

    intervals: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for low, high in self.intervals:
            if not 0 <= low < high <= SPACE:
                raise InvalidKeyRangeError(
                    f"a key range runs from a position of at least 0 to a higher one of at most "
                    f"{SPACE}, not from {low} to {high}"
                )
        joined: list[tuple[int, int]] = []
        for low, high in sorted(self.intervals):
            if joined and low <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
            else:
                joined.append((low, high))
        object.__setattr__(self, "intervals", tuple(joined))

    @classmethod
    def letters(cls, first: str, last: str) -> KeyRange:
        """The words from one first letter to another, as `alphabetical` places them."""
        width = SPACE // 26
        low, high = ord(first) - ord("a"), ord(last) - ord("a") + 1
        return cls(((low * width, SPACE if high == 26 else high * width),))

    def __contains__(self, position: int) -> bool:
        index = bisect_right(self.intervals, (position, SPACE + 1)) - 1
        return index >= 0 and self.intervals[index][0] <= position < self.intervals[index][1]

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __or__(self, other: KeyRange) -> KeyRange:
        return KeyRange(self.intervals + other.intervals)

    def __and__(self, other: KeyRange) -> KeyRange:
        found: list[tuple[int, int]] = []
        i = j = 0
        while i < len(self.intervals) and j < len(other.intervals):
            (a, b), (c, d) = self.intervals[i], other.intervals[j]
            if max(a, c) < min(b, d):
                found.append((max(a, c), min(b, d)))
            if b < d:
                i += 1
            else:
                j += 1
        return KeyRange(tuple(found))

    def __sub__(self, other: KeyRange) -> KeyRange:
        return self & ~other

    def __invert__(self) -> KeyRange:
        gaps: list[tuple[int, int]] = []
        reached = 0
        for low, high in self.intervals:
            if reached < low:
                gaps.append((reached, low))
            reached = high
        if reached < SPACE:
            gaps.append((reached, SPACE))
        return KeyRange(tuple(gaps))

    @property
    def width(self) -> int:
        """How many positions are in it."""
        return sum(high - low for low, high in self.intervals)


EVERY_KEY = KeyRange(((0, SPACE),))
NO_KEY = KeyRange()


def even_ranges(parts: int) -> list[KeyRange]:
    """The key space in so many contiguous parts."""
    if parts < 1:
        raise InvalidKeyRangeError(f"the key space cannot be cut into {parts} parts")
    cuts = [SPACE * i // parts for i in range(parts + 1)]
    return [KeyRange(((low, high),)) for low, high in pairwise(cuts)]


def consistent_ranges(members: Sequence[str], points: int = 64) -> dict[str, KeyRange]:
    """Consistent hashing: who owns what, if each member takes the arcs that end at its points.

    A member that joins takes from the others and gives nothing; one that leaves gives and takes
    nothing. State therefore only moves in one direction and a meta-topology gets no cycle from it.
    """
    if not members:
        raise InvalidKeyRangeError("the key space needs at least one owner")
    marks = sorted(
        {hashed((member, point)): member for member in members for point in range(points)}.items()
    )
    arcs: dict[str, list[tuple[int, int]]] = {member: [] for member in members}
    start = 0
    for end, member in marks:
        if start < end:
            arcs[member].append((start, end))
        start = end
    if start < SPACE:
        arcs[marks[0][1]].append((start, SPACE))  # the arc that runs over the end of the circle
    return {member: KeyRange(tuple(found)) for member, found in arcs.items()}


def take_over(
    owners: dict[str, KeyRange], members: Iterable[str], points: int = 64
) -> dict[str, KeyRange]:
    """Who owns what when the stage's members become these, from whatever ranges they have now.

    Newcomers take what consistent hashing gives them; the ranges of those who leave go where
    consistent hashing says. What stayed with a member that stays is not touched.
    """
    after = list(members)
    ideal = consistent_ranges(after, points)
    joining = [m for m in after if m not in owners]
    claimed = NO_KEY
    for member in joining:
        claimed = claimed | ideal[member]
    left = NO_KEY
    for member, keys in owners.items():
        if member not in after:
            left = left | keys
    return {
        member: (ideal[member] if member not in owners else (owners[member] - claimed))
        | ((left & ideal[member]) - claimed if member in owners else NO_KEY)
        for member in after
    }
