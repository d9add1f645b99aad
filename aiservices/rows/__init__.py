"""Call a service method for each row of a table; an interrupted run can be resumed."""

from .engines import BatchEngine, RayEngine, SparkEngine, Udf, UdfSettings, as_udf
from .mapping import Estimate, Range, Rows, RowSettings, amap_rows, estimate, map_rows
from .row import Progress, Row, RowError, RowsError, Summary

__all__ = [
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
