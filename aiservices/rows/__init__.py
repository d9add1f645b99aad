"""Call a service method for each row of a table; an interrupted run can be resumed."""

from .engines import BatchEngine, RayEngine, SparkEngine, Udf, UdfSettings, as_udf
from .filtering import FilteredRows, filter_rows
from .mapping import Estimate, Range, Rows, RowSettings, amap_rows, estimate, map_rows
from .row import Progress, Row, RowError, RowsError, Summary

__all__ = [
    "BatchEngine",
    "Estimate",
    "FilteredRows",
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
    "filter_rows",
    "map_rows",
]
