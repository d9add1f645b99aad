"""Other ways to run ``map_rows``: on batch services, which cost half, and on workers of Ray and Spark."""

from .batch import BatchEngine
from .ray import RayEngine
from .spark import SparkEngine
from .udf import Udf, UdfSettings, as_udf

__all__ = ["BatchEngine", "RayEngine", "SparkEngine", "Udf", "UdfSettings", "as_udf"]
