"""How times and lengths of time are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cli.output import Output, err, format_both, out
from models.units import format_age

AT = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)


@pytest.mark.usefixtures("in_paris")
@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (AT, "2026-11-24 00:30:00 (2026-11-23 23:30:00Z)"),
        (AT - timedelta(hours=12), "2026-11-23 12:30:00 (11:30:00Z)"),
        (None, "-"),
    ],
    ids=["two days", "one day", "never"],
)
def test_day_in_utc_is_named_where_it_is_another(at: datetime | None, shown: str):
    assert shown == format_both(at)


@pytest.mark.parametrize("console", [out, err])
def test_no_text_commands_a_terminal(console: Callable[[], Console]):
    """Whoever sends to our queues names a task as they like, and doctor shows it."""
    with console().capture() as printed:
        console().print(Text("a\x1b]0;x\x07\x1b[2Jb\x9b31mc\r\x7f\x06d\ne"))

    assert "a]0;x[2Jb31mcd\ne\n" == printed.get()


@pytest.mark.parametrize("console", [out, err])
def test_names_keep_their_colons(console: Callable[[], Console]):
    """What stands between colons in a name is no emoji."""
    with console().capture() as printed:
        console().print("nightly :fire: report", markup=False)

    assert "nightly :fire: report\n" == printed.get()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3725, "1 h 2 min"),
        (86400 * 3, "3 d"),
    ],
)
def test_age_has_its_two_largest_units(seconds: float, shown: str):
    assert shown == format_age(timedelta(seconds=seconds))


ID = "08a93d38-5cf4-56ef-a6e2-06913dd2c173"


LOOSE = "the weekly update of all prices"
AT_BOTH = "2026-11-23 12:30:00 (11:30:00Z)"


def _print(
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    **arguments: Any,
) -> list[str]:
    """Return the lines that ``out().table`` prints on a terminal so wide."""
    out.cache_clear()
    monkeypatch.setattr(out(), "width", width)
    _print_rows(**arguments)
    out.cache_clear()
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def _print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[str]], **options: Any
) -> None:
    out().table(rows, lambda row: dict(zip(columns, row, strict=True)), **options)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (48, f"id{' ' * 36}what\n{ID}  the weekly\n{' ' * 38}update\n"),
        (43, f"id    {ID}\nwhat  the weekly update\n"),
    ],
)
def test_table_that_would_break_words_is_a_block_for_each_row(
    width: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """A terminal that is too narrow for its columns shows names and values instead."""
    rows = [(ID, "the weekly update")]

    lines = _print(width, monkeypatch, capsys, columns=("id", "what"), rows=rows)

    assert shown.splitlines() == lines


def test_narrow_terminal_does_without_some_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """They are left out in their order, and named."""
    lines = _print(
        20,
        monkeypatch,
        capsys,
        columns=("uid", "b", "c", "d"),
        rows=[("u" * 10, "b" * 9, "c" * 9, "d" * 5)],
        spare=("b", "c"),
    )

    assert ["uid         d", f"{'u' * 10}  ddddd"] == lines[:2]
    assert "Not shown for lack of width: b, c" == " ".join(lines[2:])


def test_times_are_folded_between_the_clocks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    rows = [("ab" * 10, AT_BOTH, LOOSE)]

    lines = _print(
        60, monkeypatch, capsys, columns=("uid", "occurrence", "what"), rows=rows
    )

    assert "2026-11-23 12:30:00 " in lines[1]
    assert "(11:30:00Z)" in lines[2]


def test_column_that_is_empty_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A reason that no row has takes no room."""
    lines = _print(
        60, monkeypatch, capsys, columns=("what", "reason"), rows=[("a", ""), ("b", "")]
    )

    assert ["what", "a", "b"] == lines


_ROWS = st.lists(
    st.tuples(*[st.text("ab cé日", max_size=60)] * 3), min_size=1, max_size=4
)


@given(width=st.integers(20, 120), rows=_ROWS)
def test_no_line_is_wider_than_the_terminal(
    width: int, rows: list[tuple[str, str, str]]
):
    """Whatever is in the cells: a table, or blocks, but nothing is cut off."""
    console = Output(file=StringIO(), width=width, highlight=False)
    console.table(rows, lambda row: dict(zip("xyz", row, strict=True)))

    _check_width(console.file.getvalue(), width, rows)  # type: ignore[attr-defined]


def _check_width(printed: str, width: int, rows: list[tuple[str, str, str]]) -> None:
    assert all(cell_len(line) <= width for line in printed.splitlines())
    letters = sorted(c for row in rows for cell in row for c in cell if c in "abcé日")
    assert letters == sorted(c for c in printed if c in "abcé日")


@given(width=st.integers(20, 120) | st.just(80), rows=_ROWS)
def test_no_line_in_a_pipe_is_wider_than_columns_says(
    width: int, rows: list[tuple[str, str, str]]
):
    """A pager, or a terminal that another program feeds, tells its width so."""
    printed = _pipe(rows, COLUMNS=str(width))

    _check_width(printed, width, rows)


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "0"}, {"COLUMNS": "wide"}])
def test_pipe_without_columns_is_200_wide(environment: dict[str, str]):
    """What a program reads has a line for each row, but no line is endless."""
    printed = _pipe([("a " * 120, "b", "c")], **environment)

    assert 3 == len(printed.splitlines())
    assert max(map(len, printed.splitlines())) <= 200


def test_pipe_is_never_narrower_than_20():
    """Nothing can be read in columns of one letter."""
    with _piping({"COLUMNS": "1"}):
        assert 20 == out().width


def _pipe(rows: list[tuple[str, str, str]], **environment: str) -> str:
    with _piping(environment) as pipe:
        _print_rows(("x", "y", "z"), rows)
    return pipe.getvalue()


@contextmanager
def _piping(environment: dict[str, str]) -> Iterator[StringIO]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        pipe = StringIO()
        patch.setattr("sys.stdout", pipe)
        patch.setattr("sys.__stdout__", pipe)  # perhaps a terminal, under pytest -s
        out.cache_clear()
        yield pipe
        out.cache_clear()


def test_json_goes_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]):
    """What is asked of standard error is not among the data, as JSON neither."""
    err().json({"a": 1})

    assert ("", '{"a": 1}\n') == tuple(capsys.readouterr())
