"""Who is measured when: in turns, round by round, each round beginning with another one, so that a
machine that is slower for a while is slower for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class Titled(Protocol):
    @property
    def title(self) -> str: ...


T = TypeVar("T")
E = TypeVar("E", bound=Titled)

OnShare = Callable[[float], None]
"""Told the share done of one turn."""


def scaled(on_share: OnShare, whole: float) -> Callable[[float], None]:
    """For who tells seconds."""
    return lambda done: on_share(done / whole)


def in_turns(entries: Sequence[T], rounds: int, done: int = 0) -> list[T]:
    """`done` rounds have been before."""
    order: list[T] = []
    for number in range(done, done + rounds):
        first = number % len(entries)
        order += [*entries[first:], *entries[:first]]
    return order


def shown_turns(
    console: Console, entries: Sequence[E], rounds: int, done: int = 0
) -> Iterator[tuple[E, OnShare]]:
    """The same with a bar that follows."""
    order = in_turns(entries, rounds, done)
    columns = TextColumn("{task.description:<42}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(order))

        def follow(number: int) -> OnShare:
            return lambda share: progress.update(bar, completed=number + min(1.0, share))

        for number, entry in enumerate(order):
            text = f"{number + 1}/{len(order)} {entry.title}"
            progress.update(bar, completed=number, description=text)
            yield entry, follow(number)
        progress.update(bar, completed=len(order))
