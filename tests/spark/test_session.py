"""The fixture all Spark tests stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_session_is_a_small_classic_one(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark._jsparkSession is not None
    assert spark.range(5).count() == 5
