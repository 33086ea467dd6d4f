"""Control operations: a class with handlers at the controller and at operators (Chi §4.2.2).

A new operation is a dataclass that derives from `ControlOperation`, takes a name, and overrides the
handlers it needs. Its fields must be plain JSON data: they travel in every message and are kept in
the durable store, and each operator makes its own instance from them. What a handler wants to
remember until the next one goes into `ctx.session`, never into the instance.

At an operator, of one operation and in this order:

* `on_begin_at_operator(ctx, message)` once, with the first message to arrive;
* `on_next_at_operator(ctx, message)` for every message, the first and the last among them;
* `on_complete_at_operator(ctx)` once, when each of the operator's inputs has delivered one. After
  it the message goes on to all outputs, with whatever `ctx.attach` put in;
* `on_dispose_at_operator(ctx)` once, when the controller has seen the operation complete.

At the controller: `on_init_at_controller(ctx)` drafts the message; `on_begin…`, `on_next…` and
`on_complete_at_controller` follow the reports of the sinks in the same way; `on_dispose…` is last.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.control.errors import InvalidOperationError, UnknownOperationError

if TYPE_CHECKING:
    from laxity.control.contexts import ControllerContext, OperatorContext
    from laxity.control.draft import Draft
    from laxity.control.messages import ControlMessage

_NAMES: dict[str, type[ControlOperation]] = {}


@dataclass(frozen=True)
class ControlOperation:
    """Base of all operations, and itself the smallest one: a message that visits everybody."""

    name: ClassVar[str] = ""
    """What messages and the store call it; unique."""

    blocking: ClassVar[bool] = True
    """Whether a channel waits behind its message (a barrier) or data may overtake it."""

    exclusive: ClassVar[bool] = False
    """Whether it refuses to run beside another exclusive one on the same dataflow. Operations
    that change graph, state or functions are."""

    reads_state_anywhere: ClassVar[bool] = False
    """A *safe* blocking operation touches state in `on_complete_at_operator` only, which makes it
    equal to freezing the world; elsewhere `ctx` refuses. True gives that up."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = cls.__dict__.get("name", "")
        if not name:
            return  # a base for others
        taken = _NAMES.get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (
            cls.__module__,
            cls.__qualname__,
        ):
            raise InvalidOperationError(
                f"{taken.__qualname__} has taken the operation name {name!r}; choose another"
            )
        _NAMES[name] = cls

    def arguments(self) -> dict[str, Any]:
        """The fields, as they are sent and stored."""
        return asdict(self)

    def on_init_at_controller(self, ctx: ControllerContext) -> Draft:
        """Decide: a draft of the message with a configuration for whoever needs one. Raise here
        what is wrong with the operation; nothing has happened yet."""
        return ctx.draft()

    def on_begin_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None: ...

    def on_next_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None: ...

    def on_complete_at_controller(self, ctx: ControllerContext) -> None: ...

    def on_dispose_at_controller(self, ctx: ControllerContext) -> None: ...

    def on_begin_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None: ...

    def on_next_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None: ...

    def on_complete_at_operator(self, ctx: OperatorContext) -> None: ...

    def on_dispose_at_operator(self, ctx: OperatorContext) -> None: ...


def operation_from(name: str, arguments: Mapping[str, Any]) -> ControlOperation:
    """The operation that a message or the store tells of."""
    try:
        cls = _NAMES[name]
    except KeyError:
        known = ", ".join(sorted(_NAMES)) or "none"
        raise UnknownOperationError(
            f"there is no operation {name!r}; import the module that defines it. Known: {known}"
        ) from None
    try:
        return cls(**arguments)
    except TypeError as error:
        takes = ", ".join(p for p in inspect.signature(cls).parameters)
        raise InvalidOperationError(f"{name!r} takes ({takes}): {error}") from None


def check_operation(operation: ControlOperation) -> None:
    """That it can be sent and stored at all."""
    cls = type(operation)
    if not cls.__dict__.get("name"):
        raise InvalidOperationError(f"{cls.__qualname__} needs a name of its own: name = '…'")
    if not is_dataclass(cls) or _NAMES.get(cls.name) is not cls:
        raise InvalidOperationError(f"{cls.__qualname__} must be a dataclass deriving from this")


@dataclass
class Session:
    """Variables that live from one handler to the next: `ctx.session.total = 0`."""

    _values: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(
                f"no session variable {name!r}; set it in the begin handler"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._values[name] = value
