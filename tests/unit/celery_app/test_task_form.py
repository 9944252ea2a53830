"""Tasks in forms: their arguments as Celery shows them, and what Redis refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from celery.utils.saferepr import saferepr
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from celery_app.message_form import push_texts, show_arguments
from tests.unit.models.json_values import SCALARS, nest

VALUES = nest(SCALARS | st.floats())


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


class FullRedis:
    """A channel, its client and a pipeline; there is room for what comes first."""

    def __init__(self) -> None:
        """Have been given nothing."""
        self.given = 0

    @contextmanager
    def conn_or_acquire(self) -> Iterator[FullRedis]:
        """Give the client."""
        yield self

    @contextmanager
    def pipeline(self, *, transaction: bool) -> Iterator[FullRedis]:
        """Give the pipeline."""
        assert not transaction
        yield self

    def lpush(self, _key: str, *_values: str) -> None:
        """Be given values."""
        self.given += 1

    def execute(self, *, raise_on_error: bool) -> list[object]:
        """Answer each time that values were given."""
        assert not raise_on_error
        return [1, *[ResponseError("OOM command not allowed")] * (self.given - 1)]


def test_what_was_taken_of_a_queue_is_not_refused():
    """Or it would be sent again, when there is room for the rest."""
    texts = [str(number) for number in range(150)]

    refused = push_texts(FullRedis(), {"reports": texts})

    assert set(texts[100:]) == refused.keys()
