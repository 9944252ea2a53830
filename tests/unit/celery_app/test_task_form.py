"""The arguments of a task as Celery shows them."""

from __future__ import annotations

import pytest
from celery.utils.saferepr import saferepr
from hypothesis import given
from hypothesis import strategies as st

from celery_app.message_form import show_arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES) | st.lists(VALUES))
def test_arguments_are_shown_as_celery_shows_them(values: object):
    """Whatever they are."""
    assert saferepr(values, 1024) == show_arguments(values)


@pytest.mark.parametrize(
    "values",
    [
        {"a": [[{"b": {}}]]},
        {"a": "x" * 1010},
        {"a": "x" * 1030, "b": 1},
        {"it's": 'a "quote"'},
        ["\\", "\n", "\u2028"],
        (),
    ],
)
def test_long_deep_and_quoted_arguments_are_shown_as_celery_shows_them(values: object):
    """Those of which Python's own form would be another."""
    assert saferepr(values, 1024) == show_arguments(values)
