"""What an executive summary says, before it is put into words. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from operations.domains import Column, Domain, DomainSummary


class ColumnRole(StrEnum):
    """What the numbers of a column are."""

    #: Amounts and counts: they have a range and a sum.
    QUANTITY = "quantity"
    #: Rates, averages and places: they have a range.
    RATE = "rate"
    #: Years, months, weeks: they have a range, and are written without separators.
    CALENDAR = "calendar"
    #: Ids and codes: no figure says anything.
    NAME = "name"


#: Words of English and French, by what they make of a column as its first or last
#: word. The first kind that fits counts, so "id_count" and "nb_clients" are quantities.
_ENDS = {
    ColumnRole.QUANTITY: "amount count quantity qty sum total sales montant nb nombre"
    " quantite",
    ColumnRole.NAME: "id ids uid uuid guid code ean gtin isbn sku siren siret zip"
    " zipcode postcode phone telephone identifiant matricule",
    ColumnRole.RATE: "rate ratio percent percentage pct share average avg mean median"
    " latitude lat longitude lon lng temperature taux pourcentage moyenne mediane",
    ColumnRole.CALENDAR: "year yr annee jahr quarter trimestre month mois week semaine"
    " day jour hour heure",
}

#: The same for ids, but only as the last word: "key figures" and "number of sales" are
#: none.
_LAST_OF_IDS = "key no nr num number numero pk fk ref"

_PLAIN = str.maketrans("àâäçéèêëîïôöùûü", "aaaceeeeiioouuu")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def find_role(column: Column, *, unit: str | None = None) -> ColumnRole:
    """
    Return what the numbers of *column* are, by its name and unit.

    Args:
        column: Has figures.
        unit: As app.json gives it. None: it gives none.

    >>> find_role(Column("orderId", "Int64", 17, 4711, 99999))
    <ColumnRole.NAME: 'name'>
    >>> find_role(Column("sales_this_year", "Int64", 17, 4711, 99999))
    <ColumnRole.QUANTITY: 'quantity'>
    """
    words = split_words(column.name)
    ends = {words[0], words[-1]} if words else set()
    by_name = _find_by_name(words, ends)
    if by_name is not None:
        return by_name
    is_rate = unit is not None and unit.startswith(("%", "°"))
    return ColumnRole.RATE if is_rate else ColumnRole.QUANTITY


def _find_by_name(words: list[str], ends: set[str]) -> ColumnRole | None:
    for role, listed in _ENDS.items():
        if not ends.isdisjoint(listed.split()):
            return role
    return ColumnRole.NAME if words and words[-1] in _LAST_OF_IDS.split() else None


def split_words(name: str) -> list[str]:
    """
    Return the words of the name of a column, in lower case and without accents.

    >>> split_words("orderID"), split_words("Année_fiscale"), split_words("2019")
    (['order', 'id'], ['annee', 'fiscale'], [])
    """
    plain = name.translate(_PLAIN).translate(str.maketrans("ÀÂÇÉÈÊÎÔÙ", "AACEEEIOU"))
    return [word.lower() for word in _WORD.findall(plain)]


#: What a summary said, by domain: ``Former`` as it is stored.
Figures = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Former:
    """
    A domain in an earlier summary.

    Args:
        at: When that was sent, aware UTC.
        rows: How many it had.
        sums: By the name of the column.
    """

    at: datetime
    rows: int
    sums: Mapping[str, float]

    def as_json(self) -> dict[str, JsonValue]:
        """Return the form that is stored."""
        return {"at": self.at.isoformat(), "rows": self.rows, "sums": {**self.sums}}


def read_former(stored: Any) -> Former | None:
    """Return what ``as_json`` stored; None: nothing was."""
    if not isinstance(stored, dict):
        return None
    return Former(
        at=datetime.fromisoformat(stored["at"]),
        rows=stored["rows"],
        sums=stored["sums"],
    )


def compare(now: float, before: float) -> tuple[float, float | None]:
    """
    Return how much more a number is now than in the last summary.

    Returns:
        The difference; and the ratio to what it was. None: that cannot be said.
    """
    # The order in which floats are added up leaves a trace that is no change.
    if math.isclose(now, before, rel_tol=1e-9):
        return 0, None
    difference = now - before
    ratio = difference / abs(before) if before else math.inf
    # A sum that was next to nothing makes a percentage that says nothing.
    return difference, ratio if abs(ratio) < 10 else None


#: Columns of a domain with figures; the others are named.
MOST_FIGURES = 12

#: Rows shown of each domain.
HEAD = 5


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """
    A column as a summary shows it, with what app.json says about it.

    Args:
        title: What people call it.
        unit: Stands behind each number. None: it has none.
        role: What its numbers are. None: it has none.
    """

    column: Column
    title: str
    unit: str | None
    role: ColumnRole | None

    @property
    def heading(self) -> str:
        """Its title with its unit, for cells that have bare numbers."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def has_figures(self) -> bool:
        """Whether its range, and perhaps its sum, say anything."""
        return self.role not in {None, ColumnRole.NAME}


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """
    A live domain in a summary.

    Args:
        data: What it holds.
        title: For people.
        description: One or two sentences. None: app.json has none.
        columns: In order.
        unknown: Names of columns that app.json describes, but the data do not have.
        former: Its figures in the last summary. None: it was in none.
    """

    data: DomainSummary
    title: str
    description: str | None
    columns: tuple[ShownColumn, ...]
    unknown: tuple[str, ...]
    former: Former | None

    @property
    def figures(self) -> list[ShownColumn]:
        """The columns of which figures are shown, in order; there may be many."""
        return [each for each in self.columns if each.has_figures]


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
        return [
            f"Domain {part.data.domain!r} has no column {name!r}, which the"
            " app describes."
            for part in self.parts
            for name in part.unknown
        ]


def make_part(
    domain: Domain, data: DomainSummary, former: Former | None
) -> SummaryPart:
    """Return *domain* as a summary shows it, with what app.json says about it."""
    # models/small_app.py checked it when it was stored
    labels: Any = domain.labels
    described = labels.get("columns", {})
    known = {column.name for column in data.columns}
    return SummaryPart(
        data=data,
        title=get_title(domain),
        description=labels.get("description"),
        columns=tuple(
            _show_column(column, described.get(column.name, {}))
            for column in data.columns
        ),
        unknown=tuple(name for name in described if name not in known),
        former=former,
    )


def _show_column(column: Column, label: Mapping[str, Any]) -> ShownColumn:
    unit, is_summed = label.get("unit"), label.get("sum")
    role = None
    if column.minimum is not None:
        role = find_role(column, unit=unit)
        if is_summed is not None:
            role = ColumnRole.QUANTITY if is_summed else ColumnRole.RATE
    return ShownColumn(column, label.get("title") or column.name, unit, role)


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
