"""Cron rules by chance, for properties: sensible ones, and nearly sensible ones."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import reject
from hypothesis import strategies as st

from models.errors import RuleError
from models.expressions.cron import CronExpression

START = datetime(2026, 1, 1, tzinfo=UTC)

_MONTHS = "jan FEB Mar apr may jun jul aug sep oct nov DEC".split()  # noqa: SIM905
_WEEKDAYS = "sun MON Tue wed thu fri SAT".split()  # noqa: SIM905


@st.composite
def _terms(draw: st.DrawFn, low: int, high: int, names: list[str]) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, high - low))
    # A range of one value takes no step.
    stepped = f"{first}-{last}/{step}" if first < last else f"{first}/{step}"

    def word(value: int) -> str:
        if names and value - low < len(names) and draw(st.booleans()):
            return names[value - low]
        return str(value)

    return draw(
        st.sampled_from(
            [
                word(first),
                word(first),
                f"{word(first)}-{word(last)}",
                stepped,
                f"{first}/{step}",
                f"*/{step}",
                "*",
            ]
        )
    )


def _fields(
    low: int, high: int, names: list[str], special: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[str]:
    terms = _terms(low, high, names)
    if special is not None:
        terms = st.one_of(terms, terms, special)
    lists = st.lists(terms, min_size=1, max_size=4).map(",".join)
    return st.one_of(st.just("*"), terms, lists)


_NTH = st.builds("{}#{}".format, st.integers(0, 7), st.integers(1, 5))
_LAST = st.builds("{}L".format, st.integers(0, 7))

_texts = st.builds(
    "{} {} {} {} {}".format,
    _fields(0, 59, []),
    _fields(0, 23, []),
    _fields(1, 31, [], st.sampled_from(["L", "LW"])),
    _fields(1, 12, _MONTHS),
    _fields(0, 7, _WEEKDAYS, st.one_of(_NTH, _LAST)),
)


@st.composite
def cron_rules(draw: st.DrawFn) -> str:
    """Rules of the whole dialect that are due some day."""
    text = draw(_texts)
    error = find_error(text)
    if error is not None:
        assert "never due" in error.message, f"refused {text!r}: {error}"
        reject()
    return text


def find_error(text: str) -> RuleError | None:
    """Return why *text* is no rule; None if it is one."""
    try:
        CronExpression.parse(text)
    except RuleError as error:
        return error
    return None


def words_like_rules() -> st.SearchStrategy[str]:
    """Texts of the characters of rules, most of them wrong."""
    characters = st.text("0123456789*/,-#LW?HRJANMOSU", min_size=1, max_size=6)
    words = st.one_of(
        characters,
        st.sampled_from(["*", "0", "5", "1-5", "*/2", "mon", "L", "7", "1#2", "3L"]),
    )
    return st.lists(words, min_size=4, max_size=6).map(" ".join)
