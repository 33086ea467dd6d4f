"""What a user may set when attaching, with defaults meant to be left alone."""

from __future__ import annotations

from dataclasses import dataclass

from laxity.core.durations import Duration, parse_duration, parse_target
from laxity.spark.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class Settings:
    period: float = 0.2
    """Seconds between two decisions."""
    quantum: float = 0.1
    """How long a task of a lax query may keep an urgent one from a slot."""
    horizon: float = 2.0
    """Work with less laxity than this is urgent: it may use reserved slots and is never held."""
    best_effort: float = 600.0
    """The target of queries and jobs nobody gave one."""
    max_hold: float = 30.0
    """The longest a micro-batch is ever held back."""
    reserve: int | None = None
    """Extra slots an executor has for urgent work; None chooses by its cores."""
    planners: int | None = None
    """Lax batches the driver plans at a time; None chooses by the driver's cores."""
    order: bool = True
    moment: bool = True
    size: bool = True
    files: bool = True
    interpret: bool = True
    """Small batches run without generated code, which would cost more than it saves."""
    lean: bool = True
    """Small broadcasts get small blocks, and each function is tried for serialisation once."""
    host: bool = True
    """Operating-system priorities for the driver's threads (on Linux, as far as allowed)."""
    latency_period: float = 300.0
    """Latencies are summarised over this sliding period."""
    stale_after: float = 5.0
    """Without a decision for this long, Spark schedules on its own."""

    @classmethod
    def of(cls, **given: object) -> Settings:
        """Settings from what the user wrote: durations in any form, unknown names refused."""
        known = cls.__dataclass_fields__
        for name in given:
            if name not in known:
                raise InvalidSettingError(
                    f"attach() has no option {name!r}; it has {', '.join(sorted(known))}"
                )
        values = dict(given)
        for name in ("period", "quantum", "horizon", "best_effort", "latency_period"):
            if name in values:
                values[name] = parse_target(_duration(values[name]), name=name)
        for name in ("max_hold", "stale_after"):
            if name in values:
                values[name] = parse_duration(_duration(values[name]), name=name)
        for name in ("reserve", "planners"):
            value = values.get(name)
            least = 1 if name == "planners" else 0
            if value is not None and (not isinstance(value, int) or value < least):
                raise InvalidSettingError(
                    f"{name} must be a whole number from {least} on, got {value!r}"
                )
        for name in ("order", "moment", "size", "files", "interpret", "lean", "host"):
            if name in values and not isinstance(values[name], bool):
                raise InvalidSettingError(f"{name} must be True or False, got {values[name]!r}")
        settings = cls(**values)  # type: ignore[arg-type]
        if settings.stale_after < 4 * settings.period:
            raise InvalidSettingError(
                f"stale_after ({settings.stale_after} s) must be at least four periods "
                f"({4 * settings.period} s)"
            )
        return settings


def _duration(value: object) -> Duration:
    return value  # type: ignore[return-value]  # parse_duration refuses what is none
