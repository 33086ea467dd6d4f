"""The configuration of a host loop, from a TOML file or from flags.

```toml
name = "host"                     # of the journal; one loop a name
period = "1s"

[[engine]]
kind = "flink"                    # spark, flink or generic
url = "http://localhost:8081"

[[policy]]
kind = "laxity"                   # qs, hr, fcfs, random, constant, laxity
translator = "shares+nice"        # nice, shares, quota, rr, shares+nice
group_policy = "constant"

[targets]                         # by query name; patterns may be used
"alerts*" = "800ms"
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from laxity.core.durations import parse_target
from laxity.host.binding import Binding
from laxity.host.drivers.api import Driver, Targets
from laxity.host.errors import InvalidHostConfigError
from laxity.host.journal import Journal
from laxity.host.kernel import Kernel
from laxity.host.notices import Notices
from laxity.host.policies import Level, make_policy
from laxity.host.schedule import GroupBy
from laxity.host.translators import make_translator
from laxity.host.translators.api import Tools


@dataclass(frozen=True)
class HostConfig:
    engines: tuple[Mapping[str, Any], ...]
    policies: tuple[Mapping[str, Any], ...]
    targets: Mapping[str, Any] = field(default_factory=dict)
    name: str = "host"
    period: float = 1.0

    def __post_init__(self) -> None:
        if not self.engines:
            raise InvalidHostConfigError("no engine is given; add an [[engine]] or --engine")
        if not self.policies:
            raise InvalidHostConfigError("no policy is given; add a [[policy]] or --policy")


def load_config(path: Path) -> HostConfig:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidHostConfigError(f"{path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidHostConfigError(f"{path}: {error}") from None
    known = {"name", "period", "engine", "policy", "targets"}
    _refuse_unknown(content, known, str(path))
    return HostConfig(
        engines=tuple(content.get("engine", ())),
        policies=tuple(content.get("policy", ())),
        targets=content.get("targets", {}),
        name=str(content.get("name", "host")),
        period=parse_target(content.get("period", 1.0), name="period"),
    )


def make_drivers(config: HostConfig) -> list[Driver]:
    targets = Targets.parse(config.targets)
    drivers: list[Driver] = []
    for options in config.engines:
        settings = dict(options)
        kind = settings.pop("kind", None)
        maker = _DRIVERS.get(str(kind))
        if maker is None:
            raise InvalidHostConfigError(
                f"no engine is of kind {kind!r}; known are {', '.join(_DRIVERS)}"
            )
        settings.setdefault("name", kind)
        try:
            drivers.append(maker(settings, targets))
        except TypeError as error:
            raise InvalidHostConfigError(f"engine {kind!r}: {error}") from None
    names = [driver.name for driver in drivers]
    for name in names:
        if names.count(name) > 1:
            raise InvalidHostConfigError(f"two engines are named {name!r}; give one a name")
    return drivers


def make_bindings(
    config: HostConfig, kernel: Kernel, journal: Journal, notices: Notices
) -> list[Binding]:
    bindings: list[Binding] = []
    for options in config.policies:
        settings = dict(options)
        kind = str(settings.pop("kind", ""))
        name = str(settings.pop("name", kind))
        level = _choice(Level, settings.pop("level", "logical"), "level")
        translator = str(settings.pop("translator", "nice"))
        normalisation = str(settings.pop("normalisation", "auto"))
        group_policy = settings.pop("group_policy", None)
        group_weights = settings.pop("group_weights", None)
        tools = Tools(kernel, journal, notices, f"{config.name}-{name}")
        chosen = {key: settings.pop(key) for key in ("queries", "engines") if key in settings}
        grouped = {"weights": group_weights} if group_weights else {}
        bindings.append(
            Binding(
                name=name,
                translator=make_translator(
                    translator,
                    tools,
                    normalisation=normalisation,
                    **settings.pop("translator_options", {}),
                ),
                period=parse_target(settings.pop("period", config.period), name="period"),
                enabled=bool(settings.pop("enabled", True)),
                group_by=_choice(GroupBy, settings.pop("group_by", "query"), "group_by"),
                group_policy=make_policy(group_policy, **grouped) if group_policy else None,
                policy=make_policy(kind, level=level, **settings),
                **chosen,
            )
        )
    return bindings


def _generic(settings: dict[str, Any], targets: Targets) -> Driver:
    from laxity.host.drivers.generic import GenericDriver
    from laxity.host.drivers.pages import PageReader

    source = settings.pop("metrics", None)
    names = settings.pop("names", None)
    labels = tuple(settings.pop("labels", ("query", "operator")))
    page = PageReader(source, names, (labels[0], labels[1])) if source else None
    return GenericDriver(page=page, targets=targets, **settings)


def _flink(settings: dict[str, Any], targets: Targets) -> Driver:
    from laxity.host.drivers.flink import FlinkDriver

    return FlinkDriver(targets=targets, **settings)


def _spark(settings: dict[str, Any], targets: Targets) -> Driver:
    from laxity.host.drivers.spark import SparkDriver

    return SparkDriver(targets=targets, **settings)


_DRIVERS: Mapping[str, Callable[[dict[str, Any], Targets], Driver]] = {
    "spark": _spark,
    "flink": _flink,
    "generic": _generic,
}


E = TypeVar("E", bound=StrEnum)


def _choice(kind: type[E], written: object, name: str) -> E:
    try:
        return kind(str(written))
    except ValueError:
        raise InvalidHostConfigError(
            f"{name} cannot be {written!r}; choose from {', '.join(kind)}"
        ) from None


def _refuse_unknown(content: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(content.keys() - known)
    if unknown:
        raise InvalidHostConfigError(
            f"{where}: unknown setting {unknown[0]!r}; known are {', '.join(sorted(known))}"
        )
