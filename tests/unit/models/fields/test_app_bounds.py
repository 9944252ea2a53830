"""The bounds of small apps, as an operator writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from models.errors import RuleError
from models.fields.app_bounds import AppBounds, get_bounds, read_app_bounds


def test_an_app_has_its_own_bounds_and_those_of_all():
    """What its own do not say, those of all say; without any, nothing is bounded."""
    text = '{"*": {"actions": 5, "shortest_interval": "P1D"}, "shop": {"actions": 0}}'
    by_app = read_app_bounds(text)

    assert AppBounds(0, timedelta(days=1)) == get_bounds(by_app, "shop")
    assert AppBounds(5, timedelta(days=1)) == get_bounds(by_app, "news")
    assert AppBounds() == get_bounds({}, "shop")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7", "has something else at ''"),
        ("{", "is not JSON."),
        ('{"shop": 7}', "has something else at 'shop'"),
        ('{"shop": {"action": 7}}', "has something else at 'shop.action'"),
        ('{"shop": {"actions": -1}}', "has something else at 'shop.actions'"),
        ('{"shop": {"shortest_interval": "5m"}}', "at 'shop.shortest_interval'"),
    ],
)
def test_what_is_no_bound_is_refused(text: str, message: str):
    """The message names the place, and the hint has an example."""
    with pytest.raises(RuleError) as error:
        read_app_bounds(text)

    assert message in error.value.message
    assert '"runs_an_hour": 500' in error.value.hint
