"""The benchmarks' own Java, compiled in the driver by the compiler that Spark ships."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

CLASSES = ("Ticks", "TaskLog")

_loaders: list[tuple[Any, Any]] = []
"""(gateway, class loader) of each JVM they were compiled in."""


def new_object(spark: Any, name: str) -> Any:
    return (
        _loader(spark)
        .loadClass(f"laxity.bench.{name}")
        .getConstructors()[0]
        .newInstance(spark._sc._gateway.new_array(spark._jvm.java.lang.Object, 0))
    )


@contextmanager
def findable(spark: Any) -> Iterator[None]:
    """Spark looks for a source's class in the class loader of the thread that asks for it."""
    thread = spark._jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(_loader(spark))
    try:
        yield
    finally:
        thread.setContextClassLoader(before)


def _loader(spark: Any) -> Any:
    gateway = spark._sc._gateway
    for known, loader in _loaders:
        if known is gateway:
            return loader
    jvm = spark._jvm
    sources = jvm.java.util.HashMap()
    for name in CLASSES:
        file = resources.files("laxity.bench").joinpath("java", f"{name}.java")
        sources.put(f"laxity/bench/{name}.java", bytearray(file.read_bytes()))
    finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader = jvm.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")
    loader.setTargetVersion(8)
    _loaders.append((gateway, loader))
    return loader
