"""What an executive summary says, before it is put into words. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from operations.domains import Column, Domain, DomainSummary
from operations.mail.summary.column_roles import ColumnRole, find_role
from operations.mail.summary.former import Former

#: Columns of a domain with figures; the others are named.
MOST_FIGURES = 12

#: Rows shown of each domain.
HEAD = 5


@dataclass(frozen=True, slots=True)
class ColumnLabel:
    """How app.json wants a column to be shown; None: it does not say."""

    title: str | None = None
    unit: str | None = None
    sum: bool | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A column with figures, and what they are."""

    column: Column
    role: ColumnRole
    title: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """
    A live domain in a summary.

    Args:
        data: What it holds.
        title: For people.
        description: One or two sentences. None: app.json has none.
        labels: By the name of the column, as app.json has them.
        former: Its figures in the last summary. None: it was in none.
    """

    data: DomainSummary
    title: str
    description: str | None = None
    labels: Mapping[str, ColumnLabel] = field(default_factory=dict)
    former: Former | None = None

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The columns of which numbers are shown, in order; there may be many."""
        return tuple(
            Figure(column, role, self.get_title(column), self._get(column).unit)
            for column in self.data.columns
            if column.minimum is not None
            and (role := self._find_role(column)) is not ColumnRole.NAME
        )

    def get_title(self, column: Column) -> str:
        """Return what people call *column*."""
        return self._get(column).title or column.name

    def get_heading(self, column: Column) -> str:
        """Return its title with its unit, for cells that have bare numbers."""
        title, unit = self.get_title(column), self._get(column).unit
        return f"{title} ({unit})" if unit else title

    def find_role(self, column: Column) -> ColumnRole | None:
        """Return what the numbers of *column* are; None: it has none."""
        return None if column.minimum is None else self._find_role(column)

    def find_warnings(self) -> list[str]:
        """Return a sentence for each column of app.json that the data do not have."""
        known = {column.name for column in self.data.columns}
        return [
            f"Domain {self.data.domain!r} has no column {name!r}, which app.json"
            " describes."
            for name in self.labels
            if name not in known
        ]

    def _get(self, column: Column) -> ColumnLabel:
        return self.labels.get(column.name, ColumnLabel())

    def _find_role(self, column: Column) -> ColumnRole:
        label = self._get(column)
        if label.sum is not None:
            return ColumnRole.QUANTITY if label.sum else ColumnRole.RATE
        return find_role(column, unit=label.unit)


@dataclass(frozen=True, slots=True)
class Summary:
    """
    What is live in a small app.

    Args:
        app_name: As people know it.
        action_name: The action that sends it.
        now: Aware UTC; ages are computed at this instant.
        zone: Of the small app.
        parts: Ordered by name; empty if nothing was ever published.
        unpublished: Titles of domains that were never published.
    """

    app_name: str
    action_name: str
    now: datetime
    zone: ZoneInfo
    parts: tuple[SummaryPart, ...]
    unpublished: tuple[str, ...] = ()

    def find_warnings(self) -> list[str]:
        """Return what app.json says of columns that are not there."""
        return [warning for part in self.parts for warning in part.find_warnings()]


def make_part(
    domain: Domain, data: DomainSummary, former: Former | None
) -> SummaryPart:
    """Return *domain* as a summary shows it, with what app.json says about it."""
    # models/small_app.py checked it when it was stored
    labels: Any = domain.labels
    return SummaryPart(
        data=data,
        title=get_title(domain),
        description=labels.get("description"),
        labels={
            name: ColumnLabel(**label)
            for name, label in labels.get("columns", {}).items()
        },
        former=former,
    )


def make_former(part: SummaryPart, now: datetime) -> dict[str, JsonValue]:
    """Return what the next summary compares itself with, in the form that is stored."""
    sums = {
        figure.column.name: figure.column.total
        for figure in part.figures[:MOST_FIGURES]
        if figure.role is ColumnRole.QUANTITY
        and figure.column.total is not None
        and math.isfinite(figure.column.total)
    }
    return Former(now, part.data.version.rows, sums).as_json()


def get_title(domain: Domain) -> str:
    """Return what people call *domain*."""
    return str(domain.labels.get("title") or domain.name)
