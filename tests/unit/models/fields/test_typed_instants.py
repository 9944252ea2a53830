"""Instants as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import RuleError
from models.fields.instants import parse_typed_instant

#: 00:30 of the next day in Paris.
NOW = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)


@pytest.mark.usefixtures("in_paris")
@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2026-11-23T23:30:00+00:00"),
        ("today", "2026-11-23T23:00:00+00:00"),
        ("yesterday", "2026-11-22T23:00:00+00:00"),
        ("tomorrow", "2026-11-24T23:00:00+00:00"),
        ("-1h", "2026-11-23T22:30:00+00:00"),
        ("+90m", "2026-11-24T01:00:00+00:00"),
        ("-30s", "2026-11-23T23:29:30+00:00"),
        # The clocks went back on 25 October: the hour stays, the offset does not.
        ("-30d", "2026-10-24T22:30:00+00:00"),
        ("-5w", "2026-10-19T22:30:00+00:00"),
        ("2026-12-01T09:00:00+01:00", "2026-12-01T08:00:00+00:00"),
        ("09:00", "2026-11-24T08:00:00+00:00"),
        ("12:15 PM", "2026-11-24T11:15:00+00:00"),
        ("12am", "2026-11-23T23:00:00+00:00"),
        ("yesterday 07:00", "2026-11-23T06:00:00+00:00"),
        ("tomorrow 5pm", "2026-11-25T16:00:00+00:00"),
    ],
)
def test_times_are_typed_in_several_ways(text: str, instant: str):
    """Words, distances and full times name instants; days are those of this host."""
    assert instant == parse_typed_instant(text, now=NOW).isoformat()


@pytest.mark.parametrize("text", ["", "Now", "yesteday", "-1", "1h", "-1y", "--1h"])
def test_hints_are_not_refused_themselves(text: str):
    """What is refused comes with examples, each of which is accepted."""
    with pytest.raises(RuleError) as refused:
        parse_typed_instant(text, now=NOW)

    assert repr(text) in str(refused.value)
    for example in refused.value.hint.removesuffix(".").replace(",", "").split():
        if example[0] in "+-" or example in {"now", "today", "yesterday", "tomorrow"}:
            parse_typed_instant(example, now=NOW)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("yesteday", "Did you mean yesterday"),
        ("1h", r"Write -1h for the past, or \+1h\."),
    ],
)
def test_what_was_meant_is_offered(text: str, hint: str):
    """Of a typo in a word, and of a distance without a sign."""
    with pytest.raises(RuleError, match=hint):
        parse_typed_instant(text, now=NOW)


@pytest.mark.parametrize(
    "text", ["25:00", "13pm", "0am", "9:60", "12/24", "9", "next monday"]
)
def test_what_may_mean_anything_is_told_the_spellings(text: str):
    """No guess is made; every accepted spelling is listed."""
    with pytest.raises(RuleError, match="Write now, today"):
        parse_typed_instant(text, now=NOW)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("today", "2026-11-23T05:00:00+00:00"),
        ("07:00", "2026-11-23T12:00:00+00:00"),
        ("yesterday 07:00", "2026-11-22T12:00:00+00:00"),
        ("2026-03-08T01:30", "2026-03-08T06:30:00+00:00"),
        ("2026-11-23T07:00Z", "2026-11-23T07:00:00+00:00"),
        ("-1h", "2026-11-23T22:30:00+00:00"),
        # The clocks went back on 1 November: the hour stays, the offset does not.
        ("-30d", "2026-10-24T22:30:00+00:00"),
    ],
)
def test_times_may_be_those_of_a_zone(text: str, instant: str):
    """Then it is its clock that is meant, whatever this host's shows."""
    new_york = ZoneInfo("America/New_York")

    assert instant == parse_typed_instant(text, now=NOW, zone=new_york).isoformat()


def test_time_that_a_clock_never_shows_is_refused():
    """With the times before and after the gap."""
    new_york = ZoneInfo("America/New_York")
    night = datetime(2026, 3, 8, 12, tzinfo=UTC)

    with pytest.raises(RuleError, match="does not exist in America/New_York"):
        parse_typed_instant("today 02:30", now=night, zone=new_york)


@given(st.from_regex(r"\A[+-]\d{1,6}[smhdw]\Z"))
def test_every_distance_is_an_instant_or_refused(text: str):
    """No distance ends in anything but an aware instant or a refusal."""
    try:
        instant = parse_typed_instant(text, now=NOW)
    except RuleError:
        return
    assert timedelta(0) == instant.utcoffset()
