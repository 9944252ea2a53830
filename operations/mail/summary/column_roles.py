"""
Which numbers mean something when they are added up. Pure.

Years, ids and rates are numbers, too, and a sum of them is nonsense that looks like a
result. docs/steps.md has the rules; app.json has the last word.
"""

from __future__ import annotations

import re
from enum import StrEnum

from operations.domains import Column


class ColumnRole(StrEnum):
    """What the numbers of a column are."""

    #: Amounts and counts: they have a range and a sum.
    QUANTITY = "quantity"
    #: Rates, averages and places: they have a range.
    RATE = "rate"
    #: Years, months, weeks: they have a range, and are written without separators.
    CALENDAR = "calendar"
    #: Ids, codes, running numbers: no figure says anything.
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
}

#: The same for ids, but only as the last word: "key figures" and "number of sales" are
#: none.
_LAST_OF_IDS = "key no nr num number numero pk fk ref"

#: Parts of a date by the first or last word, with the values they may have.
_CALENDAR = {
    "year yr annee jahr": (1000, 3000),
    "quarter trimestre": (1, 4),
    "month mois": (1, 12),
    "week semaine": (1, 53),
    "day jour": (1, 366),
    "hour heure": (0, 24),
}

#: Whole numbers that all lie between these are taken for years whatever their name, if
#: there are at least so many of them.
_YEARS = (1900, 2100)
_FEWEST_YEARS = 3

#: The fewest values of a running number: 1, 2, 3 may be three amounts.
_FEWEST_RUNNING = 10

_PLAIN = str.maketrans("àâäçéèêëîïôöùûü", "aaaceeeeiioouuu")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def find_role(column: Column, *, unit: str | None = None) -> ColumnRole:
    """
    Return what the numbers of *column* are, by its name, type, unit and values.

    Args:
        column: Has figures.
        unit: As app.json gives it. None: it gives none.

    >>> find_role(Column("orderId", "Int64", 17, 4711, 99999, 30))
    <ColumnRole.NAME: 'name'>
    >>> find_role(Column("sales_this_year", "Int64", 17, 4711, 99999, 30))
    <ColumnRole.QUANTITY: 'quantity'>
    """
    words = split_words(column.name)
    ends = {words[0], words[-1]} if words else set()
    by_name = _find_by_name(words, ends)
    if by_name is not None:
        return by_name
    if unit is not None:
        return ColumnRole.RATE if unit.startswith(("%", "°")) else ColumnRole.QUANTITY
    return _find_by_values(column, ends)


def _find_by_name(words: list[str], ends: set[str]) -> ColumnRole | None:
    for role, listed in _ENDS.items():
        if not ends.isdisjoint(listed.split()):
            return role
    return ColumnRole.NAME if words and words[-1] in _LAST_OF_IDS.split() else None


def _find_by_values(column: Column, ends: set[str]) -> ColumnRole:
    low, high = column.minimum, column.maximum
    if low is None or high is None or low != low // 1 or high != high // 1:
        return ColumnRole.QUANTITY
    is_year = column.count >= _FEWEST_YEARS and _YEARS[0] <= low <= high <= _YEARS[1]
    is_part = any(
        first <= low <= high <= last
        for listed, (first, last) in _CALENDAR.items()
        if not ends.isdisjoint(listed.split())
    )
    if is_year or is_part:
        return ColumnRole.CALENDAR
    return ColumnRole.NAME if _is_running(column, low, high) else ColumnRole.QUANTITY


def split_words(name: str) -> list[str]:
    """
    Return the words of the name of a column, in lower case and without accents.

    >>> split_words("orderID"), split_words("Année_fiscale"), split_words("2019")
    (['order', 'id'], ['annee', 'fiscale'], [])
    """
    plain = name.translate(_PLAIN).translate(str.maketrans("ÀÂÇÉÈÊÎÔÙ", "AACEEEIOU"))
    return [word.lower() for word in _WORD.findall(plain)]


def _is_running(column: Column, low: float, high: float) -> bool:
    """Whether each number from the smallest to the largest is there, once."""
    if column.count < _FEWEST_RUNNING:
        return False
    # Without looking at each value: as many as there is room for, and their sum is that
    # of a series. Others of which both is true are not worth a second look.
    return high - low + 1 == column.count and (
        column.total == (low + high) * column.count / 2
    )
