"""Sort letters in worker processes: ``python -m samples.workers ray`` or ``spark``.

It needs the extra ``ray`` or ``spark``, and Spark needs Java 17. The model is that of AISERVICES_MODEL, else
one that makes up its answers.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from enum import Enum
from typing import Any, Protocol

from aiservices import Limits, create, user_message
from aiservices.rows import RayEngine, SparkEngine, as_udf, map_rows


class Team(Enum):
    BILLING = "billing"
    SHIPPING = "shipping"


class Desk(Protocol):
    @user_message("Which team answers this letter?\n\n{{text}}")
    def team(self, text: str) -> Team: ...


LETTERS = [{"id": number, "text": f"Letter {number}: where is my parcel?"} for number in range(200)]


def with_map_rows(desk: Desk, engine: RayEngine | SparkEngine) -> None:
    rows = map_rows(desk.team, LETTERS, key="id", engine=engine, limits=Limits(max_concurrency=50))
    teams = Counter(row.value.value for row in rows if row.error is None)
    print(f"{rows.summary.rows} rows, {rows.summary.errors} errors, {teams.total()} teams")


def with_ray_data(desk: Desk) -> None:
    import ray  # type: ignore[import-not-found,unused-ignore]  # an optional package

    letters = ray.data.from_items(LETTERS)
    answers = letters.map_batches(as_udf(desk.team), batch_format="pyarrow", batch_size=100)
    print(answers.count(), "rows with the columns", ", ".join(answers.columns() or []))


def with_spark(desk: Desk, spark: Any) -> None:
    letters = spark.createDataFrame(LETTERS)
    team = as_udf(desk.team)
    answers = letters.mapInArrow(team, team.spark_schema(letters)).cache()
    print(answers.count(), "rows with the columns", ", ".join(answers.columns))


def main() -> None:
    desk = create(Desk, os.environ.get("AISERVICES_MODEL", "fake"))
    if sys.argv[1:] == ["ray"]:
        with_map_rows(desk, RayEngine(workers=2))
        with_ray_data(desk)
    elif sys.argv[1:] == ["spark"]:
        from pyspark.sql import SparkSession  # type: ignore[import-not-found,unused-ignore]

        spark = SparkSession.builder.master("local[2]").getOrCreate()
        with_map_rows(desk, SparkEngine(spark))
        with_spark(desk, spark)
    else:
        raise SystemExit("usage: python -m samples.workers ray|spark")


if __name__ == "__main__":
    main()
