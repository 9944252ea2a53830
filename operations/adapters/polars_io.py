"""
The only module that uses Polars: from sources to Parquet, from Parquet to figures.

Polars is imported inside functions only: if its threads existed in the parent of the
worker processes, the forked children would hang.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from models.errors import StepError
from models.units import format_bytes
from operations.adapters.sources.json_records import JsonRecordsError, iterate_records
from operations.domains import Column, DomainLimits, Reached, Tell

if TYPE_CHECKING:
    import polars as pl

#: Bytes of a CSV file in which its first row is looked for.
_LONGEST_HEADER = 1 << 20

#: Bytes of the description at the end of a Parquet file; 2,000 columns in a thousand
#: row groups take less.
_LONGEST_FOOTER = 64 << 20

#: Rows that decide which columns look like dates.
_DATED_ROWS = 10_000

#: Records of JSON after which it is told how far they are read.
_TOLD_RECORDS = 1_000


def convert_to_parquet(
    path: Path,
    kind: str,
    target: Path,
    *,
    shown: str,
    limits: DomainLimits,
    tell: Tell | None,
) -> int:
    """
    Convert *path*, of format *kind*, to the Parquet file *target*.

    Args:
        path: Exists; not compressed.
        kind: One of FORMATS in operations/adapters/sources/sources.py.
        target: Written as a stream: memory does not grow with the data. Files beside
            it whose names begin with its name are scratch files.
        shown: What messages call *path*.
        limits: Bounds of rows and columns.
        tell: Called with how far *path* is read, where that is known. None: nobody
            listens.

    Returns:
        The number of rows.

    Raises:
        StepError: Permanent: the content is not of *kind*, or exceeds *limits*.
        OSError: The file system failed.
    """
    with path.open("rb") as file:
        head = file.read(_LONGEST_HEADER)
    if not head:
        raise StepError(f"{shown}: the file is empty.", permanent=True)

    with _explaining(shown, kind):
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        source, read_as = path, kind
        if kind == "csv":
            check_columns(_count_fields(head), shown, limits)
        elif kind == "json":
            source, read_as = make_scratch(target, 0), "ndjson"
            _write_lines(path, source, shown, limits, tell)
        if kind == "parquet":
            check_rows(count_rows(path), shown, limits)
        frame = _scan(source, read_as)
        schema = frame.collect_schema()
        if not schema:
            raise pl.exceptions.NoDataError("no columns")
        check_columns(len(schema), shown, limits)
        if read_as == "csv":
            _sink_csv(source, schema, target, limits)
        else:
            frame.head(limits.rows + 1).sink_parquet(target)
        return check_rows(count_rows(target), shown, limits)


def read_schema(path: Path) -> tuple[tuple[str, str], ...]:
    """
    Return the names and types of the columns of a Parquet file of ours, in order.

    Only the end of the file is read, however large it is, and a bounded part of that.

    Raises:
        OSError: It is gone, or cannot be read.
        StepError: Permanent: it is not such a file, or describes too much.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        length, magic = file.read(4), file.read(4)
    described = int.from_bytes(length, "little")
    if magic != b"PAR1" or not 0 < described <= min(size, _LONGEST_FOOTER):
        msg = f"{path.name} is not a Parquet file whose columns can be read."
        raise StepError(msg, permanent=True)

    with _explaining(path.name, "parquet"):
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        schema = pl.read_parquet_schema(path)
        return tuple((name, str(kind)) for name, kind in schema.items())


def make_scratch(target: Path, number: int) -> Path:
    """Return a file beside *target* that is removed with it."""
    return target.with_name(f"{target.name}.{number}.download")


def check_rows(rows: int, shown: str, limits: DomainLimits) -> int:
    """
    Return *rows*.

    Raises:
        StepError: Permanent: there are more rows than *limits* allow.
    """
    if rows > limits.rows:
        raise _explain_excess(shown, f"{limits.rows:,} rows", "ROWS", "fewer")
    return rows


def check_columns(columns: int, shown: str, limits: DomainLimits) -> None:
    """Refuse more columns than *limits* allow, as ``check_rows`` does."""
    if columns > limits.columns:
        raise _explain_excess(shown, f"{limits.columns:,} columns", "COLUMNS", "fewer")


def explain_too_large(shown: str, limits: DomainLimits) -> StepError:
    """Return the error about a source of more bytes than *limits* allow."""
    most = f"{format_bytes(limits.bytes)} without compression"
    return _explain_excess(shown, most, "BYTES", "less")


def _explain_excess(shown: str, most: str, of: str, read: str) -> StepError:
    msg = (
        f"{shown} has more than {most} (MINUTEHAND_SOURCE_MAX_{of}). Read {read}, or"
        " ask the operator to raise the limit."
    )
    return StepError(msg, permanent=True)


def _count_fields(head: bytes) -> int:
    """Return the number of columns of a CSV file that begins with *head*."""
    text = head.decode("utf-8", errors="replace")
    try:
        return len(next(csv.reader(io.StringIO(text, newline="")), ()))
    except csv.Error:
        # A field longer than this module reads: count what looks like fields.
        return text.partition("\n")[0].count(",") + 1


def _write_lines(
    path: Path, target: Path, shown: str, limits: DomainLimits, tell: Tell | None
) -> None:
    """Write the records of a JSON file as lines, which Polars reads as a stream."""
    names: set[str] = set()
    size = path.stat().st_size
    with path.open("rb") as source, target.open("w", encoding="utf-8") as lines:
        for number, (record, line) in enumerate(iterate_records(source), start=1):
            names.update(record)
            check_columns(len(names), shown, limits)
            check_rows(number, shown, limits)
            lines.write(f"{line}\n")
            if tell is not None and number % _TOLD_RECORDS == 0:
                tell(Reached("read", source.tell(), size, "bytes"))
    if not names:
        raise JsonRecordsError("it holds no records")


def _scan(path: Path, kind: str) -> pl.LazyFrame:
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    # glob=False: a file may be called "sales[2026].csv".
    match kind:
        case "csv":
            # All rows decide the type of a column: a price that is whole in the
            # first thousand rows must not fail in the next.
            return pl.scan_csv(path, infer_schema_length=None, glob=False)
        case "parquet":
            return pl.scan_parquet(path, glob=False)
        case _:
            return pl.scan_ndjson(path, infer_schema_length=None)


def _sink_csv(
    path: Path, schema: pl.Schema, target: Path, limits: DomainLimits
) -> None:
    """
    Write a CSV file of *schema* to *target*, its dates as dates.

    Looking for dates in all rows takes Polars twenty times as long as everything else.
    So the first rows decide which columns look like dates; if a later row is not a
    date, all columns are read without dates.
    """
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    early = pl.scan_csv(
        path, infer_schema_length=_DATED_ROWS, try_parse_dates=True, glob=False
    ).collect_schema()
    dated = {
        name: early[name]
        for name, kind in schema.items()
        if kind == pl.String and name in early and early[name].is_temporal()
    }

    def sink(found: dict[str, pl.DataType]) -> None:
        frame = pl.scan_csv(
            path,
            schema=pl.Schema({**schema, **found}),
            try_parse_dates=True,
            glob=False,
        )
        frame.head(limits.rows + 1).sink_parquet(target)

    try:
        sink(dated)
    except pl.exceptions.ComputeError:
        if not dated:
            raise
        sink({})


def write_batches(
    names: Sequence[str],
    batches: Iterable[Sequence[Sequence[object]]],
    target: Path,
    *,
    shown: str,
    limits: DomainLimits,
) -> int:
    """
    Write rows to the Parquet file *target*, batch by batch; return their number.

    Each batch becomes a file of its own. Then the types in all batches decide the type
    of a column, and the files are joined as a stream.

    Args:
        names: Names of the columns.
        batches: Rows, each as long as *names*; read while the file is written.
        target: As for ``convert_to_parquet``.
        shown: What messages call the source.
        limits: Bounds of bytes, rows and columns.

    Raises:
        StepError: Permanent: Parquet cannot store the columns, or *limits* forbid it.
        OSError: The file system failed.
    """
    check_columns(len(names), shown, limits)

    with _explaining(shown, "table"):
        import polars as pl  # noqa: PLC0415 - see the module's docstring

        parts: list[Path] = []
        schemas: list[pl.Schema] = []
        rows, size = 0, 0
        for batch in batches:
            rows = check_rows(rows + len(batch), shown, limits)
            frame = _make_frame(names, batch)
            size += int(frame.estimated_size())
            if size > limits.bytes:
                raise explain_too_large(shown, limits)
            parts.append(make_scratch(target, len(parts)))
            schemas.append(frame.schema)
            frame.write_parquet(parts[-1])
        if not parts:
            pl.DataFrame(schema=dict.fromkeys(names, pl.String)).write_parquet(target)
            return 0
        whole = {name: _unite([each[name] for each in schemas]) for name in names}
        pl.concat(
            pl.scan_parquet(part, glob=False).select(
                pl.col(name).cast(kind) for name, kind in whole.items()
            )
            for part in parts
        ).sink_parquet(target)
        return rows


def _make_frame(names: Sequence[str], rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    frame = pl.DataFrame(
        [tuple(row) for row in rows],
        schema=list(names),
        orient="row",
        infer_schema_length=None,
        strict=False,
    )
    # Objects such as UUIDs become texts. A column of nothing but NULL keeps its type
    # open: other batches decide it.
    return frame.with_columns(
        pl.Series(
            name,
            [None if value is None else str(value) for value in frame[name]],
            dtype=pl.String,
        )
        for name, kind in frame.schema.items()
        if kind == pl.Object
    )


def _unite(kinds: Sequence[pl.DataType]) -> pl.DataType:
    """Return the common type of a column that has *kinds* in its batches."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    found = list(dict.fromkeys(kind for kind in kinds if kind != pl.Null))
    if not found:
        return pl.String()
    if len(found) == 1:
        return found[0]
    if all(kind.is_integer() for kind in found):
        return pl.Int64() if pl.Int128() not in found else pl.Int128()
    if all(kind.is_decimal() or kind.is_integer() for kind in found):
        scales = [kind.scale for kind in found if isinstance(kind, pl.Decimal)]
        return pl.Decimal(38, max(scales))
    if all(kind.is_numeric() for kind in found):
        return pl.Float64()
    return pl.String()


def count_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file, from its footer."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    counted = pl.scan_parquet(path, glob=False).select(pl.len()).collect()
    return int(counted.item())


def read_figures(
    path: Path, *, head: int
) -> tuple[tuple[Column, ...], tuple[tuple[object, ...], ...]]:
    """
    Return the columns of a Parquet file, with figures, and its first *head* rows.

    Raises:
        StepError: Permanent: the file is damaged.
        OSError: The file system failed.
    """
    with _explaining(f"data version {path}", "parquet"):
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
        ).collect(engine="streaming")
        values = figures.row(0, named=True) if numbers else {}
        columns = tuple(
            _make_column(name, kind, numbers, values) for name, kind in schema.items()
        )
        return columns, tuple(frame.head(head).collect().rows())


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
    return Column(name, str(kind), minimum, maximum, total)


@contextmanager
def _explaining(subject: str, kind: str) -> Iterator[None]:
    """Turn what Polars says of bad content into a permanent StepError."""
    import polars as pl  # noqa: PLC0415 - see the module's docstring

    try:
        yield
    # A panic in Polars' Rust code derives from BaseException; a damaged file must not
    # end the worker.
    except (
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
        *(TypeError, ValueError, OverflowError),
    ) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        # The file system's, such as a full disk, is no matter of the content.
        if found := re.search(r"\(os error (\d+)\)", reason):
            number = int(found[1])
            raise OSError(number, os.strerror(number)) from error
        msg = f"{subject} cannot be read as {kind}: {reason}"
        raise StepError(msg, permanent=True) from error
