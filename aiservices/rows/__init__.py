"""Call a service method for each row of a table, within limits, and go on after an interruption."""

from .engines import BatchEngine, RayEngine, SparkEngine
from .errors import RowError, RowsError
from .estimates import Estimate, Range, estimate
from .mapping import AsyncRows, Rows, RowSettings, amap_rows, map_rows
from .row import Progress, Row, Summary

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
    "amap_rows",
    "estimate",
    "map_rows",
]
