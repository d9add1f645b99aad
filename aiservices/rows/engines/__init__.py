"""Engines for ``map_rows``, which send requests in batches or from Ray or Spark worker processes."""

from .batch import BatchEngine
from .clusters import RayEngine, SparkEngine, Udf, UdfSettings, as_udf

__all__ = ["BatchEngine", "RayEngine", "SparkEngine", "Udf", "UdfSettings", "as_udf"]
