"""Ways to run ``map_rows`` elsewhere: as cheaper batches, or in worker processes of Ray and Spark."""

from .batch import BatchEngine
from .ray import RayEngine
from .spark import SparkEngine
from .udf import Udf, UdfSettings, as_udf

__all__ = ["BatchEngine", "RayEngine", "SparkEngine", "Udf", "UdfSettings", "as_udf"]
