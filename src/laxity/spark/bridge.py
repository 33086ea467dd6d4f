"""The only user of py4j: puts the hooks into Spark's driver, and talks to them.

The Java sources beside this file are compiled by Janino, the compiler Spark itself ships and uses
for generated code: no jar, no javac, nothing on executors. Once for each JVM.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any
from uuid import UUID

from laxity.spark.errors import (
    HookError,
    NotAttachedError,
    SparkConnectError,
    UnsupportedSparkError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUPPORTED = ("4.0", "4.1", "4.2", "4.3")

_CHECKPOINT_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",  # 4.0
)

_loaders: list[tuple[Any, Any]] = []
"""(gateway, class loader) of each JVM the hooks were compiled in."""


def check_session(spark: Any) -> SparkSession:
    """The session, if Laxity can attach to it."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SparkConnectError(
            "this is a Spark Connect session, whose driver is out of reach; attach where the "
            "driver runs, to a classic session: SparkSession.builder.master(...).getOrCreate()"
        )
    if not hasattr(spark, "_jsparkSession"):
        raise SparkConnectError(
            f"attach() needs a SparkSession, got a {type(spark).__name__}; "
            f"make one with SparkSession.builder.getOrCreate()"
        )
    if spark._sc._jsc is None or spark._jsparkSession.sparkContext().isStopped():
        raise NotAttachedError(
            "this Spark session has been stopped; make a new one with "
            "SparkSession.builder.getOrCreate() and attach to that"
        )
    version = ".".join(spark.version.split(".")[:2])
    if version not in SUPPORTED:
        raise UnsupportedSparkError(
            f"Spark {spark.version} is not supported; Laxity works with Spark "
            f"{', '.join(SUPPORTED)}: pip install 'pyspark>={SUPPORTED[0]},<=4.3.*'"
        )
    return spark  # type: ignore[no-any-return]


def _load_classes(spark: SparkSession) -> Any:
    gateway = spark._sc._gateway
    for known, loader in _loaders:
        if known is gateway:
            return loader
    jvm = spark._jvm
    assert jvm is not None
    sources = jvm.java.util.HashMap()
    for file in resources.files("laxity.spark").joinpath("java").iterdir():
        if file.name.endswith(".java"):
            sources.put(f"laxity/{file.name}", bytearray(file.read_bytes()))
    finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader = jvm.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")
    loader.setTargetVersion(8)
    _loaders.append((gateway, loader))
    return loader


class Bridge:
    """The hooks of one attachment. Construct, `install`, `exchange` often, `uninstall`."""

    def __init__(self, spark: SparkSession, *, files: bool, lean: bool = True) -> None:
        self._spark = spark
        self._gateway: Any = spark._sc._gateway
        self._session: Any = spark._jsparkSession
        self._context: Any = self._session.sparkContext()
        self._files = files
        self._stock_files: Any = None
        self._listening = False
        try:
            loader = _load_classes(spark)
            self._loader = loader
            self._shared = self._session.sharedState()
            self._hub = self._new("Hub", self._context, self._shared)
            self._pool = self._new("LaxityPool", self._hub, self._context.taskScheduler())
            self._measures = self._new("Measures", self._hub)
            manager = self._checkpoint_manager() if files else None
            self._arrivals = self._new("Arrivals", self._hub, self._shared, manager)
            cheaper = ("Broadcasts", "ClosureChecks") if lean else ()
            self._replacements = [self._new(name, self._hub) for name in cheaper]
            """Hooks in the place of a part of Spark, which they give back when they go."""
            executor = self._static("TaskThreads", "localExecutor", self._hub)
            if executor is not None:
                self._replacements.append(self._new("TaskThreads", self._hub, executor))
        except HookError:
            raise
        except Exception as error:
            raise HookError(
                f"Laxity's hooks do not fit Spark {spark.version} as it runs here: {cause(error)}"
            ) from error

    def _class(self, name: str) -> Any:
        return self._loader.loadClass(f"laxity.{name}")

    def _new(self, name: str, *arguments: Any) -> Any:
        constructor = self._class(name).getConstructors()[0]
        return constructor.newInstance(self._array(arguments))

    def _array(self, values: tuple[Any, ...]) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def _static(self, name: str, method: str, *arguments: Any) -> Any:
        for candidate in self._class(name).getMethods():
            if candidate.getName() == method:
                return candidate.invoke(None, self._array(arguments))
        raise HookError(f"{name} has no method {method}")

    def _checkpoint_manager(self) -> str | None:
        for name in _CHECKPOINT_MANAGERS:
            try:
                self._loader.loadClass(name)
            except Exception:
                continue
            return name
        return None

    @property
    def driver_cores(self) -> int:
        return int(self._gateway.jvm.java.lang.Runtime.getRuntime().availableProcessors())

    @property
    def driver_pid(self) -> int:
        return int(self._gateway.jvm.java.lang.ProcessHandle.current().pid())

    def install(self) -> None:
        try:
            if self._files:
                self._stock_files = self._static(
                    "LocalFiles", "install", self._context.hadoopConfiguration()
                )
            self._session.streams().addListener(self._arrivals)
            self._context.addSparkListener(self._measures)
            self._listening = True
            self._set_pool(self._pool)
            self._pool.install()
            for hook in self._replacements:
                hook.install()
        except Exception as error:
            self.uninstall()
            raise HookError(f"Spark refused a hook: {cause(error)}") from error

    def _set_pool(self, pool: Any) -> None:
        field = self._class("Hub").getField("pool")
        field.set(self._hub, pool)

    def uninstall(self) -> None:
        """Put everything back as it was. Each step on its own: one that fails stops no other."""
        steps = [self._slots().release, self._pool.uninstall, self._hub.release]
        steps += [hook.uninstall for hook in self._replacements]
        if self._listening:
            steps += [
                lambda: self._context.removeSparkListener(self._measures),
                lambda: self._session.streams().removeListener(self._arrivals),
            ]
        if self._stock_files is not None:
            steps.append(
                lambda: self._static(
                    "LocalFiles",
                    "uninstall",
                    self._context.hadoopConfiguration(),
                    self._stock_files,
                )
            )
        failures = []
        for step in steps:
            try:
                step()
            except Exception as error:
                failures.append(cause(error))
        self._listening = False
        if failures and not self.stopped:
            raise HookError(f"Spark could not be put back as it was: {'; '.join(failures)}")

    def _slots(self) -> Any:
        return self._class("Hub").getField("slots").get(self._hub)

    @property
    def stopped(self) -> bool:
        """Has the application ended under us?"""
        try:
            return bool(self._context.isStopped())
        except Exception:
            return True

    def exchange(self, decisions: str) -> str:
        return str(self._hub.exchange(decisions))

    def execution(self, query_id: str) -> Any:
        """The JVM's StreamExecution of a running query, or None."""
        uuid = self._gateway.jvm.java.util.UUID.fromString(str(UUID(query_id)))
        return self._shared.activeStreamingQueries().get(uuid)

    def add_listener(self, name: str) -> Any:
        """A StreamingQueryListener of ours, made with the shared state; called after those that
        are there already. It goes with the session."""
        listener = self._new(name, self._shared)
        self._session.streams().addListener(listener)
        return listener

    def member(self, target: Any, name: str) -> Any:
        return self._static("Reflect", "get", target, name)

    def inject_fault(self, hook: str) -> None:
        """Make a hook throw (order, submit, moment, size, slots, files, threads,
        broadcasts): for tests."""
        self._hub.setFault(hook)

    def time_sort(self, calls: int) -> float:
        """Seconds the pool takes to order what waits now, for the benchmark."""
        return float(self._pool.timeSort(calls))

    def priorities(self, decisions: str, contexts: str) -> list[float]:
        """What the JVM makes of contexts (see Contract.java): for the contract test."""
        found = self._static("Contract", "priorities", decisions, contexts)
        return [float(line) for line in str(found).splitlines()]

    def order(self, decisions: str, contexts: str) -> list[int]:
        """The numbers of the contexts in the order the JVM would give them slots."""
        found = self._static("Contract", "order", decisions, contexts)
        return [int(line) for line in str(found).splitlines()]


def cause(error: Exception) -> str:
    """The innermost reason of a Java exception, in one line."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.toString()).splitlines()[0]
