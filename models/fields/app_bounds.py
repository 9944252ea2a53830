"""What the actions of one small app may be together, as an operator bounds it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, with_config

from models.fields.duration import Duration
from models.fields.field_types import AppOrAll
from models.fields.sql_connection import EVERY_APP
from models.fields.strict_model import read_setting

_EXAMPLE = (
    'Write, for instance, {"*": {"actions": 100, "shortest_interval": "PT5M",'
    ' "runs_an_hour": 500}, "shop": {"actions": 1000}}.'
)


def _read_interval(value: object) -> timedelta:
    if not isinstance(value, str):
        msg = "is no ISO 8601 duration, such as PT5M"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports no other
    duration = Duration.parse(value)
    return duration.elapsed + duration.months * timedelta(days=30)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class AppBounds:
    """
    Bounds of one small app; None is no bound.

    Args:
        actions: The most actions that it may have.
        shortest_interval: The least that may lie between two occurrences of an action.
        runs_an_hour: The most occurrences of all its actions in any clock hour.
    """

    actions: Annotated[int, Field(ge=0)] | None = None
    shortest_interval: Annotated[timedelta, BeforeValidator(_read_interval)] | None = (
        None
    )
    runs_an_hour: Annotated[int, Field(ge=0)] | None = None


NO_BOUNDS = AppBounds()

NOTHING_BOUND: Mapping[str, AppBounds] = MappingProxyType({})

_ADAPTER = TypeAdapter(dict[AppOrAll, AppBounds])


def read_app_bounds(text: str) -> dict[str, AppBounds]:
    """
    Return the bounds in a JSON object, by the uids of small apps; "*" is all others.

    Raises:
        RuleError: It is not such an object.
    """
    return read_setting(_ADAPTER, text, _EXAMPLE)


def get_bounds(by_app: Mapping[str, AppBounds], app: str) -> AppBounds:
    """Return those of *app*: its own, and for what these do not say, all apps'."""
    own = by_app.get(app, NO_BOUNDS)
    other = by_app.get(EVERY_APP, NO_BOUNDS)
    return AppBounds(
        other.actions if own.actions is None else own.actions,
        own.shortest_interval or other.shortest_interval,
        other.runs_an_hour if own.runs_an_hour is None else own.runs_an_hour,
    )
