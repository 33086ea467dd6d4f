"""Laxity changes when things run, never what comes out: the same input gives the same output with
and without it, alone and among others, and across restarts from one checkpoint."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

Attach = Callable[..., "Laxity"]
Rows = list[tuple[Any, ...]]

EPOCH = 1_700_000_000
DELAY = "10 seconds"  # more than events are out of order: what is late never depends on batches


def events(seed: int, files: int = 5, per_file: int = 60) -> list[list[tuple[float, str, int]]]:
    """Two minutes of events, up to six seconds out of order, one in ten of them twice."""
    source = random.Random(seed)
    made = []
    for number in range(files):
        rows = []
        for i in range(per_file):
            at = (number * per_file + i) * 120 / (files * per_file)
            row = (EPOCH + at - source.uniform(0, 6), source.choice("abcd"), source.randrange(100))
            rows += [row] * (2 if source.random() < 0.1 else 1)
        made.append(rows)
    return made


class Inputs:
    def __init__(self, spark: SparkSession, left: Any, right: Any) -> None:
        self.spark, self._left, self._right = spark, left, right

    @property
    def left(self) -> DataFrame:
        return self._left.read(self.spark, maxFilesPerTrigger=2).withWatermark("ts", DELAY)

    @property
    def right(self) -> DataFrame:
        return self._right.read(self.spark, maxFilesPerTrigger=2).withWatermark("ts", DELAY)


def tumbling(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as sf

    grouped = inputs.left.groupBy(sf.window("ts", "10 seconds"), "key")
    return grouped.agg(sf.count("*").alias("n"), sf.sum("value").alias("total"))


def sliding(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as sf

    return inputs.left.groupBy(sf.window("ts", "20 seconds", "5 seconds")).agg(sf.sum("value"))


def joined(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as sf

    left, right = inputs.left.alias("l"), inputs.right.alias("r")
    near = sf.expr("l.key = r.key AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 3 SECONDS")
    return (
        left.join(right, near)
        .select("l.ts", "l.key", "l.value", "r.ts", "r.value")
        .toDF("left_ts", "key", "left_value", "right_ts", "right_value")
    )


def deduplicated(inputs: Inputs) -> DataFrame:
    return inputs.left.dropDuplicates(["ts", "key", "value"])


def chained(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as sf

    small = inputs.left.groupBy(sf.window("ts", "5 seconds"), "key").agg(sf.count("*").alias("n"))
    large = small.groupBy(sf.window(sf.window_time("window"), "20 seconds"))
    return large.agg(sf.max("n").alias("most"), sf.sum("n").alias("n"))


def with_udf(inputs: Inputs) -> DataFrame:
    from pyspark.sql import functions as sf

    shout = sf.udf(lambda key, value: f"{key.upper()}{value}", "string")
    return inputs.left.select("ts", shout("key", "value").alias("word"))


def with_pandas(inputs: Inputs) -> DataFrame:
    def double(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            yield frame.assign(value=2 * frame["value"])

    return inputs.left.mapInPandas(double, "ts TIMESTAMP, key STRING, value LONG")


def stateful_pandas(inputs: Inputs) -> DataFrame:
    """Running totals; how many of them come out depends on batches, the largest does not."""
    import pandas as pd
    from pyspark.sql.streaming.state import GroupStateTimeout

    def total(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        so_far = state.get[0] if state.exists else 0
        so_far += sum(int(frame["value"].sum()) for frame in frames)
        state.update((so_far,))
        yield pd.DataFrame({"key": [key[0]], "total": [so_far]})

    return inputs.left.groupBy("key").applyInPandasWithState(
        total, "key STRING, total LONG", "total LONG", "update", GroupStateTimeout.NoTimeout
    )


def plain(inputs: Inputs) -> DataFrame:
    return inputs.left.where("value % 2 = 0")


# Into Spark's file sink, or, in update mode, by foreachBatch into a folder a batch.
_FILED = (tumbling, sliding, joined, deduplicated, chained, with_udf, with_pandas)
TO_FILES = {f.__name__: f for f in _FILED}
TO_BATCHES = {f.__name__: f for f in (stateful_pandas, plain)}
WORKLOADS = (*TO_FILES, *TO_BATCHES)
RESTARTED = ("tumbling", "joined", "deduplicated", "stateful_pandas")


class Place:
    """Where one run of the workloads keeps its output and checkpoints."""

    def __init__(self, inputs: Inputs, folder: Path) -> None:
        self._inputs, self.folder = inputs, folder

    def writer(self, name: str) -> DataStreamWriter:
        out = self.folder / name / "out"
        if name in TO_FILES:
            writer = TO_FILES[name](self._inputs).writeStream.format("parquet")
            writer = writer.option("path", str(out)).outputMode("append")
        else:

            def keep(frame: DataFrame, batch: int) -> None:
                frame.write.mode("overwrite").parquet(str(out / f"batch={batch}"))

            writer = TO_BATCHES[name](self._inputs).writeStream.foreachBatch(keep)
            writer = writer.outputMode("update")
        return writer.option("checkpointLocation", str(self.checkpoint(name)))

    def checkpoint(self, name: str) -> Path:
        return self.folder / name / "checkpoint"

    def output(self, name: str) -> Rows:
        frame = self._inputs.spark.read.parquet(str(self.folder / name / "out")).drop("batch")
        if name == "stateful_pandas":
            frame = frame.groupBy("key").max("total")
        return sorted((tuple(row) for row in frame.collect()), key=repr)


def run_stock(place: Place, names: tuple[str, ...]) -> None:
    """All at once, as stock Spark does it."""
    queries = [place.writer(n).trigger(availableNow=True).start() for n in names]
    for query in queries:
        assert query.awaitTermination(200)


def run_under(lx: Laxity, place: Place, names: tuple[str, ...]) -> None:
    """All at once with targets from a second to an hour and triggers that the gate holds."""
    targets = ("1s", "1h", None)
    queries = [
        lx.start(place.writer(name), name=name, target=targets[i % len(targets)])
        for i, name in enumerate(names)
    ]
    for query in queries:
        query.processAllAvailable()
    for query in queries:
        model = lx.model(query.id)
        assert model.batches
        assert model.unmanaged is None
        query.stop()
    assert lx.status().notices == ()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, feed_at: Callable[[Path], Any]) -> list[Any]:
    feeds = [feed_at(tmp_path_factory.mktemp("input") / side) for side in ("left", "right")]
    for seed, feed in enumerate(feeds):
        for rows in events(seed):
            feed.add(rows)
    return feeds


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, files: list[Any]) -> Inputs:
    return Inputs(spark, *files)


@pytest.fixture(scope="module")
def expected(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    place = Place(inputs, tmp_path_factory.mktemp("stock"))
    run_stock(place, WORKLOADS)
    found = {name: place.output(name) for name in WORKLOADS}
    assert all(len(rows) >= 4 for rows in found.values())
    return found


@pytest.mark.parametrize("name", WORKLOADS)
def test_alone(
    inputs: Inputs, expected: dict[str, Rows], attach: Attach, tmp_path: Path, name: str
) -> None:
    place = Place(inputs, tmp_path)
    run_under(attach(), place, (name,))
    assert place.output(name) == expected[name]


@pytest.mark.parametrize("policy", ["llf", "token"])
def test_among_others(
    inputs: Inputs, expected: dict[str, Rows], attach: Attach, tmp_path: Path, policy: str
) -> None:
    place = Place(inputs, tmp_path)
    lx = attach(policy, quantum="10ms", max_hold="5s")
    lx.set_cap("default", 1)
    run_under(lx, place, WORKLOADS)
    for name in WORKLOADS:
        assert place.output(name) == expected[name], name


def test_left_alone(
    inputs: Inputs, expected: dict[str, Rows], attach: Attach, tmp_path: Path
) -> None:
    """Triggers that Laxity does not touch, in a session it is attached to."""
    place = Place(inputs, tmp_path)
    attach()
    run_stock(place, ("tumbling", "plain"))
    for name in ("tumbling", "plain"):
        assert place.output(name) == expected[name]


@pytest.mark.parametrize("first", ["with", "without"])
def test_restarts_with_and_without(
    spark: SparkSession,
    expected: dict[str, Rows],
    files: list[Any],
    attach: Attach,
    feed_at: Callable[[Path], Any],
    tmp_path: Path,
    first: str,
) -> None:
    """Three runs from one checkpoint, each with more input, in turns with and without Laxity."""
    feeds = [feed_at(tmp_path / side) for side in ("left", "right")]
    place = Place(Inputs(spark, *feeds), tmp_path / "place")
    under = first == "with"
    for chunk in (slice(0, 2), slice(2, 3), slice(3, 5)):
        for seed, feed in enumerate(feeds):
            for rows in events(seed)[chunk]:
                feed.add(rows)
        if under:
            with attach() as lx:
                run_under(lx, place, RESTARTED)
        else:
            run_stock(place, RESTARTED)
        under = not under
    for name in RESTARTED:
        assert place.output(name) == expected[name], name
        assert _checked_files(spark, place.checkpoint(name)) > 5


def _checked_files(spark: SparkSession, folder: Path) -> int:
    """Read every file that has a checksum as stock Spark would, which verifies it."""
    jvm: Any = spark._jvm
    hadoop = spark._jsparkSession.sparkContext().hadoopConfiguration()
    stock = jvm.org.apache.hadoop.fs.LocalFileSystem()
    stock.initialize(jvm.java.net.URI.create("file:///"), hadoop)
    checked = 0
    for sums in folder.rglob(".*.crc"):
        file = sums.with_name(sums.name[1:-4])
        if not file.exists():
            continue  # stock Spark leaves the sums of renamed temporary files behind
        stream = stock.open(jvm.org.apache.hadoop.fs.Path(str(file)))
        try:
            read = jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream)
        finally:
            stream.close()
        assert len(read) == file.stat().st_size
        checked += 1
    return checked


def test_local_checkpoints_are_written_without_forking(
    inputs: Inputs, attach: Attach, tmp_path: Path
) -> None:
    key = "spark.sql.streaming.checkpointFileManagerClass"

    def managers(query: Any) -> set[str]:
        """What the state stores are told, and what the two logs really use."""
        execution = query._jsq.streamingQuery()
        told = execution.sparkSessionForStream().conf().get(key, "stock")
        used = [
            _field(log, "fileManager") for log in (execution.offsetLog(), execution.commitLog())
        ]
        return {str(told), *(str(manager.getClass().getName()) for manager in used)}

    place = Place(inputs, tmp_path)
    for files in (True, False):
        with attach(files=files) as lx:
            query = lx.start(place.writer("tumbling"), name=f"files {files}", target="10s")
            query.processAllAvailable()
            fork_free = {
                m.endswith("FileSystemBasedCheckpointFileManager") for m in managers(query)
            }
            assert fork_free == {files}
            query.stop()
    assert inputs.spark.conf.get(key, "stock") == "stock"


def _field(target: Any, name: str) -> Any:
    """A field of a JVM object, wherever in its class hierarchy it is declared."""
    declaring = target.getClass()
    while declaring is not None:
        for field in declaring.getDeclaredFields():
            if field.getName() == name:
                field.setAccessible(True)
                return field.get(target)
        declaring = declaring.getSuperclass()
    raise AssertionError(f"no field {name}")
