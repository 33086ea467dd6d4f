"""The checkpoint of a query as files: which batches it goes back to, copies, and taking it back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from laxity.spark.control import jvm
from laxity.spark.control.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


class CheckpointFiles:
    """Only while no batch is in flight; see Checkpoint.java."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
        self._java = jvm.new(spark, "Checkpoint", conf, root)

    @property
    def exists(self) -> bool:
        return bool(self._java.exists())

    def committed(self) -> list[int]:
        text = str(self._java.committed())
        return [int(batch) for batch in text.split(",")] if text else []

    def conf(self, batch: int) -> dict[str, str]:
        """The settings a batch ran under; Spark keeps to them when the query starts again."""
        for line in self._offsets(batch):
            if '"conf"' in line:
                return dict(json.loads(line)["conf"])
        return {}

    def provider(self, batch: int) -> str:
        """The class of its state store, without the package."""
        return self.conf(batch).get(_PROVIDER, "").rpartition(".")[2]

    def partitions(self, batch: int) -> int:
        return int(self.conf(batch).get(_PARTITIONS, 0))

    def check_goes_back(self, batch: int) -> None:
        """That all is there to go on from the end of this batch."""
        committed = self.committed()
        if isinstance(batch, bool) or not isinstance(batch, int) or batch not in committed:
            there = f"{committed[0]} to {committed[-1]}" if committed else "none yet"
            raise CheckpointError(
                f"the checkpoint has no finished batch {batch!r}; it has {there}. Spark keeps "
                f"spark.sql.streaming.minBatchesToRetain of them"
            )
        lacking = str(self._java.missingState(batch, self.partitions(batch)))
        if lacking:
            raise CheckpointError(
                f"the checkpoint has no state as of batch {batch} any more ({lacking}); choose a "
                f"later batch, or raise spark.sql.streaming.minBatchesToRetain"
            )

    def truncate(self, batch: int, aside: str) -> int:
        """Go back to the end of a batch; what is later is kept below `laxity/<aside>`."""
        sources = self._file_sources(batch)
        moved = int(self._java.truncate(batch, aside))
        for number, entry in sources.items():
            moved += int(self._java.truncateSource(number, entry, aside))
        return moved

    def restore(self, aside: str) -> None:
        self._java.restore(aside)

    def copy_to(self, path: str) -> None:
        self._java.copyTo(path)

    def rename(self) -> str:
        """Give the copy a query id of its own, so that Spark runs it beside the original."""
        return str(self._java.rename())

    def write_values(
        self, batch: int, values: Mapping[str, str | None], functions: Mapping[str, str | None]
    ) -> None:
        """Variables (name → SQL, or None for the default) and versions of functions from a batch
        on; others stay as they are."""
        lines = {line.split("\t")[1]: line for line in str(self._java.control()).splitlines()}
        for kind, key, given in (("V", "sql", values), ("F", "label", functions)):
            for name, value in given.items():
                named = f"name={quote_plus(name)}"
                lines.pop(named, None)
                if value is not None:
                    lines[named] = f"{kind}\t{named}\t{key}={quote_plus(value)}"
        self._java.writeControl(batch, "".join(line + "\n" for line in lines.values()))

    def _offsets(self, batch: int) -> list[str]:
        return str(self._java.read(f"offsets/{batch}")).splitlines()

    def _file_sources(self, batch: int) -> dict[int, int]:
        """Which sources are folders of files, and the last entry of their log that the batch
        had. Of other sources the offsets say all."""
        lines = self._offsets(batch)
        found: dict[int, int] = {}
        after = next((at for at, line in enumerate(lines) if '"conf"' in line), len(lines))
        for number, line in enumerate(lines[after + 1 :]):
            offset: Any = json.loads(line) if line.startswith("{") else {}
            if isinstance(offset, dict) and "logOffset" in offset:
                found[number] = int(offset["logOffset"])
        return found
