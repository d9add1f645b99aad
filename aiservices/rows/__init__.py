"""Call a service method for each row of a table, within limits, and resume after an interruption."""

from .engines import BatchEngine, RayEngine, SparkEngine, Udf, UdfSettings, as_udf
from .estimates import Estimate, Range, estimate
from .mapping import AsyncRows, Rows, RowSettings, amap_rows, map_rows
from .row import Progress, Row, RowError, RowsError, Summary

__all__ = [
    "AsyncRows",
    "BatchEngine",
    "Estimate",
    "Progress",
    "Range",
    "RayEngine",
    "Row",
    "RowError",
    "RowSettings",
    "Rows",
    "RowsError",
    "SparkEngine",
    "Summary",
    "Udf",
    "UdfSettings",
    "amap_rows",
    "as_udf",
    "estimate",
    "map_rows",
]
