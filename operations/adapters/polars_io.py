"""
The only module that touches Polars: sources into Parquet, Parquet into figures.

Every import of Polars is inside a function: its threads must never exist in the
parent of the worker processes, or the forked children hang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from pydantic import JsonValue

from models.errors import StepError
from operations.data import Column

if TYPE_CHECKING:
    import polars as pl

FORMATS = ("csv", "json", "ndjson", "parquet")

#: By suffix of a file or of an address.
_SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}

#: By Content-Type, where an address has no suffix that says it.
_MEDIA_TYPES = {
    "text/csv": "csv",
    "application/csv": "csv",
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/vnd.apache.parquet": "parquet",
}

T = TypeVar("T")


def find_format(
    source: Mapping[str, JsonValue], name: str, media_type: str = ""
) -> str:
    """
    Return which of FORMATS a source has: as it says, by suffix, by media type.

    Raises:
        StepError: Permanent: none of them tells.
    """
    given = source.get("format")
    if isinstance(given, str) and given in FORMATS:
        return given
    by_suffix = _SUFFIXES.get(PurePosixPath(name).suffix.lower())
    by_type = _MEDIA_TYPES.get(media_type.partition(";")[0].strip().lower())
    found = None if given is not None else by_suffix or by_type
    if found is None:
        msg = (
            f"source {name!r}: format {given!r} is not known. "
            f'Write "format": one of {", ".join(FORMATS)}.'
        )
        raise StepError(msg, permanent=True)

    return found


def convert_to_parquet(
    path: Path, kind: str, target: Path, *, shown: str | None = None
) -> int:
    """
    Convert *path*, of format *kind*, to the Parquet file *target*.

    Args:
        path: Exists.

        kind: One of FORMATS.

        target: Written as a stream, so that memory does not grow with the data.

        shown: What messages call *path*. None: its path.

    Returns:
        The number of rows.

    Raises:
        StepError: Permanent: the content is not of *kind*.

        OSError: Of the file system.
    """
    with path.open("rb") as file:
        empty = not file.read(1)
    if empty:
        msg = f"source {shown or path}: the file is empty."
        raise StepError(msg, permanent=True)

    def convert() -> int:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        frame = _scan(path, kind)
        if not frame.collect_schema():
            raise pl.exceptions.NoDataError("no columns")
        frame.sink_parquet(target)
        return count_rows(target)

    return _explaining(f"source {shown or path}", kind, convert)


def _scan(path: Path, kind: str) -> pl.LazyFrame:
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    # glob=False: a file may be called "sales[2026].csv".
    match kind:
        case "csv":
            # All rows decide the type of a column: a price that is whole in the
            # first thousand rows must not fail in the next.
            return pl.scan_csv(
                path, infer_schema_length=None, try_parse_dates=True, glob=False
            )
        case "parquet":
            return pl.scan_parquet(path, glob=False)
        case "ndjson":
            return pl.scan_ndjson(path, infer_schema_length=None)
        case _:
            return pl.read_json(path, infer_schema_length=None).lazy()


def write_query(
    query: str, connection: sa.Connection, target: Path, *, shown: str
) -> int:
    """
    Write the result of *query* to the Parquet file *target*; return its rows.

    Raises:
        StepError: Permanent: the result has columns Parquet cannot hold.

        SQLAlchemyError: Of the database.
    """

    def write() -> int:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        # exec_driver_sql: a colon or a percent sign is the query's own affair.
        result = connection.execution_options(stream_results=True).exec_driver_sql(
            query
        )
        names = list(result.keys())
        rows = [tuple(row) for row in result]
        frame = pl.DataFrame(
            rows, schema=names, orient="row", infer_schema_length=None, strict=False
        )
        # A column of nothing but NULL, and objects such as UUIDs, as texts.
        frame = frame.with_columns(
            pl.Series(
                name,
                [None if value is None else str(value) for value in frame[name]],
                dtype=pl.String,
            )
            for name, kind in frame.schema.items()
            if kind in (pl.Object, pl.Null)
        )
        frame.write_parquet(target)
        return frame.height

    return _explaining(f"source database {shown}", "table", write)


def count_rows(path: Path) -> int:
    """Return the rows of a Parquet file, from its footer."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    counted = pl.scan_parquet(path, glob=False).select(pl.len()).collect()
    return int(counted.item())


def read_figures(
    path: Path, *, head: int
) -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...]]:
    """
    Return the columns of a Parquet file, with figures, and its first *head* rows.

    Raises:
        StepError: Permanent: the file is damaged.

        OSError: Of the file system.
    """

    def read() -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...]]:
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        frame = pl.scan_parquet(path, glob=False)
        schema = frame.collect_schema()
        numbers = [name for name, kind in schema.items() if kind.is_numeric()]
        figures = frame.select(
            expression
            for index, name in enumerate(numbers)
            for expression in (
                pl.col(name).min().cast(pl.Float64).alias(f"{index} min"),
                pl.col(name).max().cast(pl.Float64).alias(f"{index} max"),
                pl.col(name).cast(pl.Float64).sum().alias(f"{index} sum"),
            )
        ).collect()
        values = figures.row(0, named=True) if numbers else {}
        columns = tuple(
            _make_column(name, kind, numbers, values) for name, kind in schema.items()
        )
        rows = frame.head(head).collect().rows()
        shown = tuple(tuple(_show(value) for value in row) for row in rows)
        return columns, shown

    return _explaining(f"data version {path}", "parquet", read)


def _make_column(
    name: str, kind: pl.DataType, numbers: list[str], values: Mapping[str, float | None]
) -> Column:
    if name not in numbers:
        return Column(name=name, kind=str(kind))
    index = numbers.index(name)
    figures = [values[f"{index} {which}"] for which in ("min", "max", "sum")]
    if kind.is_integer():
        figures = [None if figure is None else int(figure) for figure in figures]
    minimum, maximum, total = figures
    return Column(name, str(kind), minimum=minimum, maximum=maximum, total=total)


def _show(value: object) -> str:
    return "" if value is None else str(value)


def _explaining(subject: str, kind: str, work: Callable[[], T]) -> T:
    """Turn what Polars says of bad content into a permanent StepError."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    try:
        return work()
    # A panic of its Rust side derives from BaseException; a damaged file must not
    # take the worker down.
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        TypeError,
        ValueError,
        OverflowError,
    ) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        msg = f"{subject} cannot be read as {kind}: {reason}"
        raise StepError(msg, permanent=True) from error
