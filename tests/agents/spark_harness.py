"""A fleet of real Spark applications on this machine, for tests."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

from agents.harness import Fleet

PIPELINE = """
import json, os, time
from pathlib import Path
import laxity

ROOT = Path({root!r})

def knob(name):
    file = ROOT / "knobs.json"
    if not file.exists():
        return 0.0
    return json.loads(file.read_text()).get(os.environ.get("NODE"), {{}}).get(name, 0.0)

@laxity.query(target="5s")
def copy(spark):
    from pyspark.sql import functions as f
    time.sleep(knob("prepare_seconds"))
    source = str(ROOT / "in" / "copy")
    rows = spark.readStream.schema("n LONG").option("maxFilesPerTrigger", 1).json(source)
    slow = knob("batch_seconds")
    if slow:
        rows = rows.withColumn("n", f.udf(lambda n: (time.sleep(slow / 10), n)[1], "long")("n"))
    return rows.writeStream.format("json").option("path", str(ROOT / "out" / "copy"))
"""


class SparkFleet(Fleet):
    """Agents with one executor thread each. The pipeline may be another than the file-to-file
    copy; it is told where the fleet's folder is."""

    def __init__(
        self, root: Path, queries: tuple[str, ...] = ("copy",), pipeline: str = ""
    ) -> None:
        super().__init__(root, list(queries))
        self.pipeline.write_text((pipeline or PIPELINE).format(root=str(root), names=list(queries)))

    def agent(self, name: str, *arguments: str, cpu: int | None = None) -> None:
        command = [] if cpu is None else [shutil.which("taskset") or "taskset", "-c", str(cpu)]
        command += [sys.executable, "-m", "laxity", "agent", "--name", name, "--master", "local[1]"]
        command += ["--memory", "512m", "--ttl", "4s", "--period", "300ms"]
        command += ["--state-dir", str(self.state), "--checkpoints", str(self.store)]
        self.spawn(name, [*command, *arguments], NODE=name)

    def feed(self, query: str, files: int = 1, rows: int = 10) -> None:
        for _ in range(files):
            first = self.fed[query]
            self.fed[query] += rows
            draft = self.root / "in" / query / f".{first:09}"
            draft.write_text("\n".join(json.dumps({"n": n}) for n in range(first, first + rows)))
            draft.rename(draft.with_name(f"{first:09}.json"))

    def committed(self, query: str = "copy") -> list[int]:
        """What a reader of Spark's file sink sees: the files its log lists."""
        log = self.root / "out" / query / "_spark_metadata"
        files: set[str] = set()
        for entry in log.iterdir() if log.exists() else ():
            name = entry.name.removesuffix(".compact")
            if name.isdigit():
                for line in entry.read_text().splitlines()[1:]:
                    files.add(json.loads(line)["path"])
        rows: list[int] = []
        for path in files:
            text = Path(path.removeprefix("file://")).read_text()
            rows += [json.loads(line)["n"] for line in text.splitlines()]
        return rows


def exactly_once(fleet: SparkFleet, query: str = "copy") -> None:
    fed = fleet.fed
    fleet.wait(lambda: len(fleet.committed(query)) >= fed[query], "all rows in the sink", 180)
    counts = Counter(fleet.committed(query))
    assert sorted(counts) == list(range(fed[query]))
    assert set(counts.values()) == {1}


def runs_once(fleet: SparkFleet, query: str = "copy", seconds: float = 120.0) -> None:
    fleet.wait(
        lambda: (
            [query in node["runs"] for node in fleet.show()["nodes"]].count(True) == 1
            and fleet.runs(query)
        ),
        f"{query} runs exactly once",
        seconds,
    )
