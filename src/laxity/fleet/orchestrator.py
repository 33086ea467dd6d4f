"""The orchestrator's mind: which query lives where, and how it gets there. Pure: reports and the
time go in, orders come out; `service` gives it a network, a clock and a store.

What is *wanted* (assignments, moves) is its own and is saved; what is *observed* comes with every
report and is never saved. After a restart the first round of reports brings it back; until then
nothing is decided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from laxity.fleet.checkpoint import Progress
from laxity.fleet.membership import Membership, Node, Reach
from laxity.fleet.migration import Migration, Step
from laxity.fleet.protocol import Observation, Order, Phase, Reply, Report, Want
from laxity.fleet.refusals import (
    QueryUnknownError,
    RefusedError,
    VersionMismatchError,
)

_ALIVE = (Phase.RUNNING, Phase.STARTING, Phase.STOPPING)


@dataclass(frozen=True, slots=True)
class OrchestratorSettings:
    silent_after: float = 4.0
    lost_after: float = 12.0
    learn_for: float = 3.0
    """After a start: reports are listened to, nothing is decided."""
    prepare_within: float = 180.0
    stop_within: float = 120.0
    start_within: float = 120.0
    nodes: int = 1
    """How many agents there must be before anything is placed."""


@dataclass
class Assignment:
    query: str
    pipeline: str
    digest: str
    node: str | None = None
    number: int = 0
    token: str | None = None
    """Of the last lease heard of: proof that the checkpoint exists, and which one it is."""
    wanted: bool = True
    pinned: str | None = None
    """Where the user asked for it to be placed at first."""
    target: float | None = None


@dataclass
class Event:
    at: float
    text: str


@dataclass
class _Saved:
    """All that outlives the process."""

    next_number: int = 1
    assignments: dict[str, Assignment] = field(default_factory=dict)
    migrations: dict[str, Migration] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)


class Orchestrator:
    def __init__(
        self, settings: OrchestratorSettings, now: float, saved: dict[str, Any] | None = None
    ) -> None:
        self.settings = settings
        self.members = Membership(
            silent_after=settings.silent_after, lost_after=settings.lost_after
        )
        self._began = now
        self._saved = _load(saved) if saved else _Saved()
        self.history: deque[Migration] = deque(maxlen=200)
        self.events: deque[Event] = deque(maxlen=500)
        self._versions: dict[str, tuple[int, tuple[Order, ...]]] = {}
        self._rejections: dict[str, dict[str, float]] = {}
        self.changed = False
        """Something that must be saved has changed; whoever saves it clears this."""

    # What comes in.

    def hear(self, report: Report, now: float) -> None:
        before = self.members.get(report.node)
        fresh = before is None or before.report.incarnation != report.incarnation
        node = self.members.hear(report, now)
        if fresh:
            self._tell(now, f"{node.name} joined ({report.engine} {report.version})")
        for seen in report.queries:
            self._learn(node, seen, now)
        self.tick(now)

    def _learn(self, node: Node, seen: Observation, now: float) -> None:
        """What an agent sees outranks what was remembered."""
        self._saved.next_number = max(
            self._saved.next_number, seen.number + 1, seen.newest_order + 1
        )
        known = self._saved.assignments.get(seen.query)
        if known is None:
            if seen.phase in _ALIVE or seen.phase in (Phase.WAITING, Phase.FAILED):
                self._saved.assignments[seen.query] = Assignment(
                    seen.query, seen.pipeline, seen.digest, node.name, seen.number, seen.token
                )
                self.changed = True
                self._tell(now, f"learned from {node.name} that {seen.query} lives there")
            return
        if seen.token and seen.phase in _ALIVE and seen.number >= known.number:
            self.changed |= known.token != seen.token
            known.token = seen.token
        if (
            seen.phase is Phase.RUNNING
            and known.node != node.name
            and known.wanted
            and seen.query not in self._saved.migrations
            and not self._runs_at(known)
        ):
            # It was offered to others while its node was cut off; nobody took it.
            self._tell(now, f"{seen.query} still runs on {node.name}: it stays there")
            known.node, known.number = node.name, seen.number
            self.changed = True
        if seen.newest_order >= known.number and known.node == node.name:
            known.number = self._next()

    def _runs_at(self, known: Assignment) -> bool:
        node = self.members.get(known.node)
        seen = node.sees(known.query) if node else None
        return seen is not None and seen.phase in _ALIVE and seen.number == known.number

    def tick(self, now: float) -> None:
        """Decide whatever the last reports allow. Called with each report and by a timer."""
        if now - self._began < self.settings.learn_for:
            return
        for migration in list(self._saved.migrations.values()):
            self._advance(migration, now)
        self._place(now)
        self._rescue(now)
        self._drain(now)
        self._note_first_batches()

    # Requests.

    def submit(
        self,
        pipeline: str,
        digest: str,
        queries: Iterable[dict[str, Any]],
        now: float,
        *,
        place: dict[str, str] | None = None,
    ) -> None:
        """Queries to run from now on. A known query with a new file is taken up at its next
        start."""
        place = place or {}
        found = list(queries)
        for wanted in place:
            if wanted not in {q["name"] for q in found}:
                raise QueryUnknownError(f"{pipeline} has no query {wanted!r}")
        for query in found:
            name = query["name"]
            known = self._saved.assignments.get(name)
            if known is None:
                self._saved.assignments[name] = Assignment(
                    name, pipeline, digest, pinned=place.get(name), target=query.get("target")
                )
            else:
                known.pipeline, known.digest, known.wanted = pipeline, digest, True
                known.target = query.get("target")
        self.changed = True
        self._tell(now, f"{pipeline}: {', '.join(q['name'] for q in found)}")
        self.tick(now)

    def move(self, query: str, target: str, now: float, *, by: str = "user") -> Migration:
        """Begin to move a query; what can be refused at once is."""
        known = self.assignment(query)
        node = self.members[target]
        if query in self._saved.migrations:
            going = self._saved.migrations[query]
            raise RefusedError(f"{query} is on its way to {going.target}; wait for that to end")
        if known.node == target:
            raise RefusedError(f"{query} is on {target} already")
        source = self.members.get(known.node)
        if source is None or not self._runs_at(known):
            raise RefusedError(
                f"{query} does not run now, so there is nothing to move; see: laxity fleet show"
            )
        for one in (source, node):
            reach = self.members.reach(one.name, now)
            if reach is not Reach.UP:
                raise RefusedError(f"{one.name} is {reach}: it must answer for {query} to move")
        if target in self._saved.drained and by != "user":
            raise RefusedError(f"{target} is being drained")
        check_versions(source.report, node.report)
        migration = Migration(
            query, source.name, target, self._next(), by, began=now, step_began=now
        )
        self._saved.migrations[query] = migration
        self.changed = True
        self._tell(now, f"{query}: {source.name} → {target}, asked for by {by}")
        return migration

    def drain(self, name: str, now: float, *, on: bool = True) -> None:
        """Move everything away from a node and place nothing there; or take that back."""
        node = self.members[name]
        if on:
            others = [n for n in self.members.up(now) if n.name != name]
            if not [n for n in others if n.name not in self._saved.drained]:
                raise RefusedError(
                    f"nobody is left to take what {node.name} runs: start another agent first"
                )
            self._saved.drained.add(name)
        else:
            self._saved.drained.discard(name)
        self.changed = True
        self._tell(now, f"{name} is {'being drained' if on else 'open again'}")
        self.tick(now)

    def retire(self, query: str, now: float) -> None:
        """Stop a query for good; its checkpoint stays."""
        known = self.assignment(query)
        if query in self._saved.migrations:
            raise RefusedError(f"{query} is on its way; wait for that to end")
        known.wanted = False
        self.changed = True
        self._tell(now, f"{query} is to stop")

    def assignment(self, query: str) -> Assignment:
        known = self._saved.assignments.get(query)
        if known is None:
            names = ", ".join(sorted(self._saved.assignments)) or "none yet"
            raise QueryUnknownError(
                f"no query named {query!r}; this fleet has: {names}. Add a file with: "
                f"laxity fleet place FILE"
            )
        return known

    @property
    def assignments(self) -> dict[str, Assignment]:
        return self._saved.assignments

    @property
    def migrations(self) -> dict[str, Migration]:
        return self._saved.migrations

    @property
    def drained(self) -> set[str]:
        return self._saved.drained

    # Decisions.

    def _next(self) -> int:
        number = self._saved.next_number
        self._saved.next_number += 1
        self.changed = True
        return number

    def open_nodes(self, now: float, like: Report | None = None) -> list[Node]:
        """Nodes that may be given queries; with `like`, only of that application's version."""
        return [
            n
            for n in self.members.up(now)
            if n.name not in self._saved.drained
            and (like is None or versions_match(like, n.report))
        ]

    def _place(self, now: float) -> None:
        if len(self.members.up(now)) < self.settings.nodes:
            return
        for known in self._saved.assignments.values():
            if known.node is not None or not known.wanted:
                continue
            pinned = self.members.get(known.pinned)
            if known.pinned is not None and (
                pinned is None or self.members.reach(pinned.name, now) is not Reach.UP
            ):
                continue  # the user said where
            node = pinned or self._emptiest(now, but=self._refused_by(known))
            if node is not None:
                self._assign(known, node, now, "placed")

    def _refused_by(self, known: Assignment) -> set[str]:
        return {
            n.name
            for n in self.members
            if (seen := n.sees(known.query)) is not None and seen.phase is Phase.REFUSED
        }

    def _emptiest(
        self, now: float, *, but: set[str] | None = None, like: Report | None = None
    ) -> Node | None:
        nodes = [n for n in self.open_nodes(now, like) if n.name not in (but or set())]
        return min(
            nodes, key=lambda n: (self._count(n.name) / n.report.cores, n.name), default=None
        )

    def _count(self, node: str) -> int:
        going = sum(m.target == node for m in self._saved.migrations.values())
        return going + sum(a.node == node and a.wanted for a in self._saved.assignments.values())

    def _assign(self, known: Assignment, node: Node, now: float, how: str) -> None:
        known.node, known.number = node.name, self._next()
        self._tell(now, f"{known.query} {how} on {node.name}")

    def _rescue(self, now: float) -> None:
        """Queries of nodes that are lost, or that refused them, are offered to others. A lost
        node may still run them: then it holds their leases, and the others wait."""
        for known in self._saved.assignments.values():
            if known.node is None or not known.wanted or known.query in self._saved.migrations:
                continue
            node = self.members.get(known.node)
            reach = self.members.reach(known.node, now)
            if node is None and now - self._began < self.settings.lost_after:
                continue  # since before our time; it has not had its chance to speak
            seen = node.sees(known.query) if node else None
            refused = (
                seen is not None and seen.phase is Phase.REFUSED and seen.number == known.number
            )
            if reach not in (Reach.LOST, Reach.LEFT) and not refused:
                continue
            like = node.report if node else None
            other = self._emptiest(now, but={known.node, *self._refused_by(known)}, like=like)
            if other is not None:
                why = f"refused by {known.node}" if refused else f"{known.node} is {reach}"
                self._assign(known, other, now, f"({why}) offered to be run")

    def _drain(self, now: float) -> None:
        for name in self._saved.drained:
            if any(name in (m.source, m.target) for m in self._saved.migrations.values()):
                continue  # one after the other: each pause stays short
            for known in self._saved.assignments.values():
                if known.node != name or not known.wanted or not self._runs_at(known):
                    continue
                source = self.members[name]
                failed = {
                    m.target
                    for m in self.history
                    if m.query == known.query and m.step is Step.ENDED and now - m.began < 60
                }
                other = self._emptiest(now, but={name, *failed}, like=source.report)
                if other is not None:
                    self.move(known.query, other.name, now, by="drain")
                    break

    def _advance(self, m: Migration, now: float) -> None:
        source, target = self.members.get(m.source), self.members.get(m.target)
        at_source = source.sees(m.query) if source else None
        at_target = target.sees(m.query) if target else None
        if at_target is not None and at_target.number != m.number:
            at_target = None  # about an earlier visit
        target_gone = self.members.reach(m.target, now) in (Reach.LOST, Reach.LEFT) or (
            target is not None and target.joined > m.step_began and m.step is not Step.PREPARE
        )
        source_gone = self.members.reach(m.source, now) in (Reach.LOST, Reach.LEFT)
        waited = now - m.step_began
        if m.step is Step.PREPARE:
            if at_target is not None and at_target.phase is Phase.PREPARED:
                self._to(m, Step.STOP, now)
            elif at_target is not None and at_target.phase is Phase.REFUSED:
                self._end(m, now, f"{m.target} refused: {at_target.reason}")
            elif target_gone:
                self._end(m, now, f"{m.target} was lost while it prepared")
            elif source_gone:
                self._end(m, now, f"{m.source} was lost before it was asked to stop")
            elif waited > self.settings.prepare_within:
                self._end(m, now, f"{m.target} did not get ready within {waited:.0f} s")
        elif m.step is Step.STOP:
            if at_source is not None and at_source.phase is Phase.STOPPED:
                m.stopped = Progress(at_source.offsets, at_source.commits)
                m.stopped_at = at_source.stopped_at
                self._to(m, Step.START, now)
            elif target_gone:
                self._back(m, now, f"{m.target} was lost before {m.source} had stopped")
            elif source_gone or (source is not None and source.joined > m.step_began):
                self._to(m, Step.START, now)  # as soon as its lease lapses
            elif waited > self.settings.stop_within:
                self._back(m, now, f"{m.source} did not stop within {waited:.0f} s")
        elif m.step is Step.START:
            if at_target is not None and at_target.phase is Phase.RUNNING:
                m.started_at, m.first_batch_at = at_target.started_at, at_target.first_batch_at
                known = self._saved.assignments[m.query]
                known.node, known.number, known.token = m.target, m.number, at_target.token
                self._finish(m, Step.DONE, now)
                pause = "" if m.pause is None else f", paused for {m.pause:.2f} s"
                self._tell(now, f"{m.query} runs on {m.target}{pause}")
            elif target_gone:
                self._back(m, now, f"{m.target} was lost before {m.query} ran there")
            elif at_target is not None and at_target.phase in (Phase.REFUSED, Phase.FAILED):
                self._back(m, now, f"{m.target}: {at_target.reason}")
            elif waited > self.settings.start_within:
                self._back(m, now, f"{m.target} did not start it within {waited:.0f} s")

    def _to(self, m: Migration, step: Step, now: float) -> None:
        m.step, m.step_began = step, now
        self.changed = True
        self._tell(now, f"{m.query}: {step}")

    def _end(self, m: Migration, now: float, why: str) -> None:
        """The source was never asked to stop."""
        m.why = why
        self._finish(m, Step.ENDED, now)
        self._tell(now, f"{m.query} stays on {m.source}: {why}")

    def _back(self, m: Migration, now: float, why: str) -> None:
        """The source may have stopped: a new order lets it run again, and outranks the target's.
        If the source is gone as well, the next tick offers the query to others."""
        known = self._saved.assignments[m.query]
        known.node, known.number = m.source, self._next()
        m.why = why
        self._finish(m, Step.ENDED, now)
        self._tell(now, f"{m.query} goes back to {m.source}: {why}")

    def _finish(self, m: Migration, step: Step, now: float) -> None:
        m.step, m.ended = step, now
        self._saved.migrations.pop(m.query, None)
        self.history.append(m)
        self.changed = True

    def _note_first_batches(self) -> None:
        for m in reversed(self.history):
            if m.step is Step.DONE and m.first_batch_at is None:
                node = self.members.get(m.target)
                seen = node.sees(m.query) if node else None
                if seen is not None and seen.number == m.number:
                    m.first_batch_at = seen.first_batch_at

    # What goes out.

    def orders(self, name: str) -> tuple[Order, ...]:
        node = self.members[name]
        found = []
        for known in self._saved.assignments.values():
            m = self._saved.migrations.get(known.query)
            if m is not None and name == m.target:
                want = Want.RUN if m.step is Step.START else Want.PREPARE
                found.append(self._order(known, want, m.number, m.stopped))
            elif m is not None and name == m.source:
                want = Want.RUN if m.step is Step.PREPARE else Want.STOP
                found.append(self._order(known, want, known.number))
            elif m is None and name == known.node:
                want = Want.RUN if known.wanted else Want.DROP
                found.append(self._order(known, want, known.number))
            elif m is None and (seen := node.sees(known.query)) is not None:
                # One that ran waits until it runs elsewhere: until then it may have to return.
                idle = seen.phase in (Phase.PREPARED, Phase.REFUSED, Phase.WAITING)
                if idle or not known.wanted or self._runs_at(known):
                    found.append(self._order(known, Want.DROP, known.number))
        return tuple(found)

    def _order(
        self, known: Assignment, want: Want, number: int, at: Progress | None = None
    ) -> Order:
        at = at or Progress(-1, -1)
        return Order(
            known.query,
            want,
            number,
            known.pipeline,
            known.digest,
            expect_token=known.token,
            expect_offsets=at.offsets,
            expect_commits=at.commits,
        )

    def reply(self, name: str, term: int) -> Reply:
        """Orders for an agent, with a version that changes when they do."""
        orders = self.orders(name)
        version, last = self._versions.get(name, (0, ()))
        if orders != last or version == 0:
            version += 1
            self._versions[name] = (version, orders)
        return Reply(term, version, orders, dict(self._rejections.get(name, {})))

    def runs(self, query: str, node: str) -> bool:
        known = self._saved.assignments.get(query)
        return known is not None and known.node == node and self._runs_at(known)

    def reject(self, query: str, node: str, now: float) -> None:
        """Tell a node that no better place was found for a query of its."""
        self._rejections.setdefault(node, {})[query] = now

    def learning(self, now: float) -> bool:
        return now - self._began < self.settings.learn_for

    def _tell(self, now: float, text: str) -> None:
        self.events.append(Event(now, text))

    def save(self) -> dict[str, Any]:
        return {
            "next_number": self._saved.next_number,
            "assignments": [asdict(a) for a in self._saved.assignments.values()],
            "migrations": [m.to_wire() for m in self._saved.migrations.values()],
            "drained": sorted(self._saved.drained),
        }


def _load(data: dict[str, Any]) -> _Saved:
    return _Saved(
        int(data["next_number"]),
        {a["query"]: Assignment(**a) for a in data["assignments"]},
        {m["query"]: Migration.from_wire(m) for m in data["migrations"]},
        set(data["drained"]),
    )


def versions_match(one: Report, other: Report) -> bool:
    """Checkpoints and state are safe to share within a feature release."""
    return release(one) == release(other)


def release(report: Report) -> tuple[str, str]:
    """Of what engine, and which feature release."""
    return report.engine, _feature(report.version)


def _feature(version: str) -> str:
    return ".".join(version.split(".")[:2])


def check_versions(source: Report, target: Report) -> None:
    if not versions_match(source, target):
        raise VersionMismatchError(
            f"{source.node} runs {source.engine} {source.version}, {target.node} runs "
            f"{target.engine} {target.version}: a checkpoint moves only within one feature "
            f"release; install {source.engine} {_feature(source.version)} there, or move it by "
            f"hand"
        )
