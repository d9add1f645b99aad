"""Read Arrow data as rows of plain Python values, in small batches."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..models.errors import import_extra
from .row import RowsError

Row: TypeAlias = dict[str, Any]

BATCH_SIZE = 1_000  # rows; small, because a row may hold whole documents


def pyarrow(feature: str, module: str = "pyarrow") -> Any:
    """Import pyarrow or one of its modules; raise MissingExtraError if it is not installed."""
    return import_extra(module, "tables", feature)


def arrow_types(schema: Any) -> dict[str, Any]:
    """Return a dict from a schema's column names to their Arrow types.

    Dictionary-encoded columns have the type of their values. Columns that are always null have no type.
    """
    types = {column.name: _value_type(column.type) for column in schema}
    return {name: tp for name, tp in types.items() if str(tp) != "null"}


def _value_type(tp: Any) -> Any:
    """Replace dictionary and view types in an Arrow type with the plain type of their values."""
    kinds = pyarrow("Arrow types").types
    if kinds.is_dictionary(tp) or kinds.is_run_end_encoded(tp):
        return _value_type(tp.value_type)
    if kinds.is_string_view(tp):
        return pyarrow("Arrow types").string()
    if kinds.is_binary_view(tp):
        return pyarrow("Arrow types").binary()
    return _with_parts(tp, _value_type)


def _microseconds(tp: Any) -> Any:
    """Replace nanoseconds in an Arrow type with microseconds, the finest unit in Python."""
    pa = pyarrow("Arrow types")
    kinds = pa.types
    if getattr(tp, "unit", None) == "ns":
        if kinds.is_timestamp(tp):
            return pa.timestamp("us", tp.tz)
        return pa.duration("us") if kinds.is_duration(tp) else pa.time64("us")
    if kinds.is_dictionary(tp):
        value = _microseconds(tp.value_type)
        return tp if value == tp.value_type else value
    return _with_parts(tp, _microseconds)


def _with_parts(tp: Any, change: Callable[[Any], Any]) -> Any:
    """Return an Arrow struct, map or list type in which a function has replaced the inner types."""
    pa = pyarrow("Arrow types")
    kinds = pa.types
    if kinds.is_struct(tp):
        return pa.struct([part.with_type(change(part.type)) for part in tp])
    if kinds.is_map(tp):
        return pa.map_(change(tp.key_type), change(tp.item_type))
    if kinds.is_fixed_size_list(tp):
        return pa.list_(change(tp.value_type), tp.list_size)
    if kinds.is_large_list(tp):
        return pa.large_list(change(tp.value_type))
    return pa.list_(change(tp.value_type)) if kinds.is_list(tp) else tp


def batch_rows(batches: Iterable[Any], location: str) -> Iterator[Row]:
    """Yield the rows of Arrow record batches as dicts of Python values."""
    with reading(location):
        for large in batches:
            for start in range(0, large.num_rows, BATCH_SIZE):
                batch = large.slice(start, BATCH_SIZE)
                columns = map(_python_values, batch.columns)
                for values in zip(*columns, strict=True):
                    yield dict(zip(batch.schema.names, values, strict=True))


def _python_values(column: Any) -> list[Any]:
    readable = _microseconds(column.type)  # pyarrow gives nanoseconds as objects of pandas
    if readable != column.type:
        column = column.cast(readable, safe=False)  # digits below a microsecond are cut off
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return values


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Context manager that converts errors while reading a table to a RowsError that names the table."""
    try:
        yield
    except UnicodeDecodeError as error:
        message = f"{location}: the file is not UTF-8 text ({error.reason}); convert it to UTF-8"
        raise RowsError(message) from error
    # pyarrow's errors are among these; KeyError: a map that has a key twice
    except (OSError, EOFError, ValueError, KeyError, OverflowError, NotImplementedError, zlib.error) as error:
        raise RowsError(f"{location} cannot be read: {error}") from error
