"""The two-level queue of §5.2.

Level one: the messages of an operator, by local priority. Level two: the operators that have
messages and are not running, by the global priority of their *next* message. Ties at both
levels go by arrival. An operator runs one message at a time: `pop` takes it out of level two,
`release` puts it back.

Two heaps with lazy deletion. A pending message is one list, [local, sequence, global, message],
which is also the handle its owner may re-prioritise or remove it by. The head of an operator
stands outside its heap: an operator with one message, the common case, costs one heap only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush, heappushpop
from typing import Any, Generic, Protocol, TypeVar, cast

from laxity.core.errors import SchedulingError, UnknownOperatorError

M = TypeVar("M")

Handle = list[Any]
"""A pending message: [local, sequence, global, message]. Opaque to callers."""

_LOCAL, _SEQUENCE, _GLOBAL, _MESSAGE = range(4)


class _Removed:
    """Stands in for the message of a dead entry. Comparable with anything, because a message
    that was moved away and back meets its own dead entry with an equal key."""

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return "<removed>"


_REMOVED: Any = _Removed()


Next = tuple[Hashable, M, float]
"""What `pop` took: the operator it made busy, the message and its global priority. A plain tuple:
building a named one would be a sixth of the whole cost of a pop."""


class _Operator:
    """`head` is the entry with the least (local, sequence) or None; `rest` is a heap of the
    others, `dead` of which are spent, or None until there is one: of many operators most never
    need it. `listed` is the operator's live entry in level two: set exactly while it is idle and
    has a head. Entries there that are not `listed` are dead."""

    __slots__ = ("busy", "dead", "head", "key", "listed", "rest")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.head: Handle | None = None
        self.rest: list[Handle] | None = None
        self.listed: tuple[float, int, _Operator] | None = None
        self.busy = False
        self.dead = 0


class OperatorQueue(Protocol[M]):
    """What a scheduler needs of a queue."""

    def __len__(self) -> int: ...
    def add_operator(self, operator: Hashable, group: Hashable = None) -> None: ...
    def remove_group(self, group: Hashable) -> list[M]: ...
    def push(self, operator: Hashable, message: M, local: float, priority: float) -> object: ...
    def pop(self) -> Next[M] | None: ...
    def pop_from(self, operator: Hashable) -> Next[M] | None: ...
    def release(self, operator: Hashable) -> None: ...
    def release_and_pop(self, operator: Hashable) -> Next[M] | None: ...
    def pending(self, operator: Hashable) -> int: ...


class TwoLevelQueue(Generic[M]):
    """Operators belong to a group (a job), so that a group can leave with all it has queued."""

    def __init__(self) -> None:
        self._operators: dict[Hashable, _Operator] = {}
        self._groups: dict[Hashable, set[Hashable]] = {}
        self._ready: list[tuple[float, int, _Operator]] = []
        self._dead = 0
        self._pushed = 0  # also the sequence number of the newest message
        self._taken = 0

    def __len__(self) -> int:
        """Pending messages, those of busy operators included."""
        return self._pushed - self._taken

    # Operators.

    def add_operator(self, operator: Hashable, group: Hashable = None) -> None:
        if operator in self._operators:
            raise SchedulingError(f"operator {operator} is there already")
        self._operators[operator] = _Operator(operator)
        self._groups.setdefault(group, set()).add(operator)

    def remove_group(self, group: Hashable) -> list[M]:
        """Forget a group's operators; what they had queued is returned in order of arrival.
        Work already popped may still be `release`d, to no effect, unless an operator of the same
        name has been added since: then the caller must tell the old work from the new."""
        removed: list[Handle] = []
        for key in self._groups.pop(group, ()):
            operator = self._operators.pop(key)
            self._unlist(operator)
            removed += self._entries(operator)
            operator.head = operator.rest = None
        self._taken += len(removed)
        removed.sort(key=lambda entry: cast("int", entry[_SEQUENCE]))
        messages = [cast("M", entry[_MESSAGE]) for entry in removed]
        for entry in removed:
            entry[_MESSAGE] = _REMOVED
        return messages

    # Messages.

    def push(self, operator: Hashable, message: M, local: float, priority: float) -> Handle:
        try:
            state = self._operators[operator]
        except KeyError:
            raise self._unknown(operator) from None
        self._pushed = sequence = self._pushed + 1
        entry: Handle = [local, sequence, priority, message]
        head = state.head
        if head is None:
            state.head = entry
            if not state.busy:
                state.listed = listed = (priority, sequence, state)
                heappush(self._ready, listed)
        elif local < head[0]:  # the newer of two equals never overtakes
            self._put_behind(state, head)
            state.head = entry
            if not state.busy:
                self._relist(state, entry)
        elif (rest := state.rest) is not None:
            heappush(rest, entry)
        else:
            state.rest = [entry]
        return entry

    def pop(self) -> Next[M] | None:
        """The next message of the most urgent idle operator, which becomes busy."""
        ready = self._ready
        while ready:
            listed = heappop(ready)
            state = listed[2]
            if state.listed is listed:
                state.listed = None
                state.busy = True
                return state.key, self._take_head(state), listed[0]
            self._dead -= 1
        return None

    def pop_from(self, operator: Hashable) -> Next[M] | None:
        """The next message of an operator that is busy and goes on within its quantum."""
        state = self._operators.get(operator)
        if state is None or state.head is None:
            return None
        if not state.busy:
            raise SchedulingError(f"operator {operator} is not running")
        priority = state.head[_GLOBAL]
        return operator, self._take_head(state), priority

    def release(self, operator: Hashable) -> None:
        """The operator's current message is done: it may be chosen again."""
        state = self._operators.get(operator)
        if state is None:
            return  # its group left while it ran
        if not state.busy:
            raise SchedulingError(f"operator {operator} is not running")
        state.busy = False
        head = state.head
        if head is not None:
            state.listed = listed = (head[2], head[1], state)
            heappush(self._ready, listed)

    def release_and_pop(self, operator: Hashable) -> Next[M] | None:
        """`release` and `pop` in one step on the heap: what a worker does between messages."""
        try:
            state = self._operators[operator]
        except KeyError:
            return self.pop()  # its group left while it ran
        if not state.busy:
            raise SchedulingError(f"operator {operator} is not running")
        state.busy = False
        ready = self._ready
        head = state.head
        if head is not None:
            state.listed = listed = (head[2], head[1], state)
            listed = heappushpop(ready, listed)
        elif ready:
            listed = heappop(ready)
        else:
            return None
        while (state := listed[2]).listed is not listed:
            self._dead -= 1
            if not ready:
                return None
            listed = heappop(ready)
        state.listed = None
        state.busy = True
        return state.key, self._take_head(state), listed[0]

    def peek(self) -> float | None:
        """The global priority that `pop` would find."""
        ready = self._ready
        while ready:
            listed = ready[0]
            if listed[2].listed is listed:
                return listed[0]
            heappop(ready)
            self._dead -= 1
        return None

    def peek_from(self, operator: Hashable) -> float | None:
        """The global priority of an operator's own next message, busy or not."""
        state = self._operators.get(operator)
        return None if state is None or state.head is None else state.head[_GLOBAL]

    def reprioritise(
        self, handle: Handle, operator: Hashable, local: float, priority: float
    ) -> Handle:
        """Give a waiting message other priorities; it keeps its place among equals. Returns the
        handle to use from now on."""
        state = self._state_of(handle, operator)
        if local == handle[_LOCAL]:
            handle[_GLOBAL] = priority
            if state.head is handle and not state.busy:
                self._relist(state, handle)
            return handle
        before = state.head
        entry: Handle = [local, handle[_SEQUENCE], priority, handle[_MESSAGE]]
        self._discard(state, handle)
        self._taken -= 1  # it only moved
        head = state.head
        if head is None or entry < head:
            if head is not None:
                self._put_behind(state, head)
            state.head = entry
        else:
            self._put_behind(state, entry)
        if not state.busy and state.head is not before:
            self._relist(state, state.head)
        return entry

    def remove(self, handle: Handle, operator: Hashable) -> M:
        """Take a waiting message out."""
        state = self._state_of(handle, operator)
        message = cast("M", handle[_MESSAGE])
        was_head = state.head is handle
        self._discard(state, handle)
        if was_head and not state.busy:
            self._relist(state, state.head)
        return message

    def pending(self, operator: Hashable) -> int:
        """How many messages wait at an operator."""
        state = self._operators.get(operator)
        if state is None or state.head is None:
            return 0
        return 1 + len(state.rest or ()) - state.dead

    def messages(self, operator: Hashable) -> Iterator[M]:
        """What waits at an operator, in the order it would be served."""
        state = self._operators.get(operator)
        if state is None:
            raise self._unknown(operator)
        for entry in sorted(self._entries(state)):
            yield cast("M", entry[_MESSAGE])

    # Inside.

    def _take_head(self, state: _Operator) -> M:
        head: Any = state.head
        message = head[3]
        head[3] = _REMOVED  # the handle is spent
        self._taken += 1
        rest = state.rest
        while rest:
            following = heappop(rest)
            if following[3] is not _REMOVED:
                state.head = following
                return message  # type: ignore[no-any-return]
            state.dead -= 1
        state.head = None
        return message  # type: ignore[no-any-return]

    @staticmethod
    def _put_behind(state: _Operator, entry: Handle) -> None:
        if state.rest is None:
            state.rest = [entry]
        else:
            heappush(state.rest, entry)

    def _discard(self, state: _Operator, entry: Handle) -> None:
        """Take a live entry out of level one; level two is left to the caller."""
        if state.head is entry:
            self._take_head(state)
            return
        entry[_MESSAGE] = _REMOVED
        self._taken += 1
        state.dead += 1
        rest = state.rest or []
        if state.dead > 64 and state.dead * 2 > len(rest):
            state.rest = [e for e in rest if e[_MESSAGE] is not _REMOVED]
            heapify(state.rest)
            state.dead = 0

    def _relist(self, state: _Operator, head: Handle | None) -> None:
        """Level two follows a head that changed while its operator is idle."""
        self._unlist(state)
        if head is not None:
            state.listed = listed = (head[_GLOBAL], head[_SEQUENCE], state)
            heappush(self._ready, listed)

    def _unlist(self, state: _Operator) -> None:
        if state.listed is None:
            return
        state.listed = None
        self._dead += 1
        if self._dead > 64 and self._dead * 2 > len(self._ready):
            self._ready = [e for e in self._ready if e[2].listed is e]
            heapify(self._ready)
            self._dead = 0

    def _entries(self, state: _Operator) -> list[Handle]:
        live = [entry for entry in state.rest or () if entry[_MESSAGE] is not _REMOVED]
        return live if state.head is None else [state.head, *live]

    def _state_of(self, handle: Handle, operator: Hashable) -> _Operator:
        state = self._operators.get(operator)
        if state is None:
            raise self._unknown(operator)
        if handle[_MESSAGE] is _REMOVED:
            raise SchedulingError(f"that message of {operator} no longer waits")
        return state

    def _unknown(self, operator: Hashable) -> UnknownOperatorError:
        return UnknownOperatorError(f"operator {operator} is not in the queue; add it first")
