"""Other ways to run ``map_rows``: as cheaper batches, or in Ray or Spark worker processes."""

from .batch import BatchEngine
from .ray import RayEngine
from .spark import SparkEngine
from .udf import Udf, UdfSettings, as_udf

__all__ = ["BatchEngine", "RayEngine", "SparkEngine", "Udf", "UdfSettings", "as_udf"]
