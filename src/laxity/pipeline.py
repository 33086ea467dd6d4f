"""Pipeline files: plain Python with functions that say what they promise.

    @laxity.query(target="800ms", tenant="ads")
    def alerts(spark):
        return spark.readStream....writeStream.format("kafka")

The decorator leaves the function as it is. `load_pipeline` imports a file and finds what was
decorated; who runs it (one session, or an agent of a fleet) is not its business.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from laxity.core.durations import Duration, parse_duration, parse_target
from laxity.core.errors import LaxityError

_MARK = "__laxity_query__"
_Build = TypeVar("_Build", bound=Callable[..., Any])


class PipelineError(LaxityError, ValueError):
    """A pipeline file that cannot be used, with the line to look at."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query of a pipeline: what it promises, and the function that builds its writer."""

    name: str
    build: Callable[[Any], Any]
    """Takes a SparkSession, returns a DataStreamWriter that has not been started."""
    target: float | None = None
    tenant: str = "default"
    window: float | None = None
    slide: float | None = None
    delay: float | None = None
    regular: bool = False

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `lx.start` beside the writer."""
        names = ("name", "target", "tenant", "window", "slide", "delay", "regular")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Pipeline:
    path: Path
    queries: tuple[QuerySpec, ...]
    digest: str
    """Tells two versions of a file apart."""

    def __getitem__(self, name: str) -> QuerySpec:
        for query in self.queries:
            if query.name == name:
                return query
        known = ", ".join(q.name for q in self.queries)
        raise PipelineError(f"{self.path} has no query {name!r}; it has {known}")

    def check_names(self, names: Iterable[str], where: str) -> None:
        """Refuse settings for a query that there is not."""
        for name in names:
            try:
                self[name]
            except PipelineError as error:
                raise PipelineError(f"{where}: {error}") from None

    def check_tenants(self, names: Iterable[str]) -> None:
        known = sorted({query.tenant for query in self.queries})
        for name in names:
            if name not in known:
                raise PipelineError(
                    f"tenants: {self.path} has no tenant {name!r}; it has {', '.join(known)}"
                )


def query(
    bare: object = None,
    /,
    *,
    name: str | None = None,
    target: Duration | None = None,
    tenant: str = "default",
    window: Duration | None = None,
    slide: Duration | None = None,
    delay: Duration | None = None,
    regular: bool = False,
) -> Callable[[_Build], _Build]:
    """Mark a function of a pipeline file as a query. Its name is the function's unless given;
    the other arguments are those of `lx.start`."""
    if bare is not None:
        raise PipelineError("write @laxity.query(target=...), with brackets, above the function")

    def mark(build: _Build) -> _Build:
        called = name or build.__name__
        spec = QuerySpec(
            name=called,
            build=build,
            target=None if target is None else parse_target(target, name=f"target of {called!r}"),
            tenant=tenant,
            window=None if window is None else parse_target(window, name="window"),
            slide=None if slide is None else parse_target(slide, name="slide"),
            delay=None if delay is None else parse_duration(delay, name="delay"),
            regular=regular,
        )
        setattr(build, _MARK, spec)
        return build

    return mark


def load_pipeline(path: str | Path) -> Pipeline:
    """Import the file and collect its queries, in the order they are written."""
    file = Path(path)
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise PipelineError(f"cannot read the pipeline file {file}: {error.strerror}") from error
    module = _import(file, digest)
    marked = (getattr(value, _MARK, None) for value in vars(module).values())
    specs = list({id(spec): spec for spec in marked if isinstance(spec, QuerySpec)}.values())
    if not specs:
        raise PipelineError(
            f"{file} has no query: put @laxity.query(target=...) above a function that takes a "
            f"SparkSession and returns a writeStream"
        )
    names = [spec.name for spec in specs]
    for twice in {n for n in names if names.count(n) > 1}:
        raise PipelineError(f"{file} has two queries named {twice!r}; names are unique")
    return Pipeline(file, tuple(specs), digest)


def _import(file: Path, digest: str) -> ModuleType:
    name = f"laxity_pipeline_{digest}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{file} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that its functions can be pickled for executors
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)  # a pipeline may import what lies beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PipelineError(f"{_where(file, error)}: {_reason(error)}") from error
    finally:
        sys.path.remove(folder)
    return module


def _where(file: Path, error: Exception) -> str:
    """The line of the pipeline file itself at which the import broke."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{file}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).resolve() == file.resolve()]
    return f"{file}:{lines[-1]}" if lines else str(file)


def _reason(error: Exception) -> str:
    if isinstance(error, LaxityError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}"
