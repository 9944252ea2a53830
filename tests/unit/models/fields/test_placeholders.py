"""Placeholders: plain substitution, and nothing else."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from models.errors import RuleError
from models.fields.placeholders import (
    LITERAL,
    PLACEHOLDERS,
    check_placeholders,
    fill,
    find_names,
)
from tests.unit.models.json_values import SCALARS, nest


@given(st.sampled_from(sorted(PLACEHOLDERS)), nest(SCALARS), st.text(" \t", max_size=3))
def test_one_placeholder_keeps_the_type(name: str, value: object, space: str):
    """However much space is around the name."""
    assert value == fill("{{" + space + name + space + "}}", {name: value})  # type: ignore[dict-item]


@given(st.text("{}' ab"))
def test_text_that_is_accepted_is_filled_once(text: str):
    """What a value holds is not looked at again; what is refused is never filled."""
    try:
        check_placeholders(text)
    except RuleError:
        return
    assert () == find_names(text)
    assert re.sub(r"\{\{\s*'\{\{'\s*\}\}", "{{", text) == fill(text, {})


def test_two_braces_can_be_written():
    """As the hints say."""
    assert "a {{ b" == fill(f"a {LITERAL} b", {})


def test_value_is_not_looked_at_again():
    """A name that a user gave to himself does nothing."""
    values = {"user.name": "{{ user.email }}", "user.email": "secret"}

    assert "Hi {{ user.email }}" == fill("Hi {{ user.name }}", dict(values))


def test_unknown_name_stays_as_it_was_stored():
    """A document from before there were placeholders runs as it did."""
    assert ["{{ x }}", "a {{ x }}"] == fill(["{{ x }}", "a {{ x }}"], {"y": 1})


def test_long_text_takes_no_time():
    """Opened and never closed, a hundred thousand times."""
    text = "{{ " * 100_000

    assert text == fill(text, {})
