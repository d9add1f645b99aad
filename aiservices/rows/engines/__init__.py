"""Other ways to run ``map_rows``: as cheaper batches, or in Ray or Spark worker processes."""

from .batch import BatchEngine
from .clusters import RayEngine, SparkEngine, Udf, UdfSettings, as_udf

__all__ = ["BatchEngine", "RayEngine", "SparkEngine", "Udf", "UdfSettings", "as_udf"]
