"""
What mails say in the language of their reader: sentences, numbers, dates. Pure.

The sentences are in languages/, one file for each language, and reviewed as prose is;
how a language writes numbers, dates and plurals is known to Babel (Unicode CLDR). To
add a language, add a file: a test finds what it lacks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache, lru_cache
from importlib import resources
from typing import Literal

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_timedelta
from babel.numbers import format_decimal, format_percent

#: For readers without a locale, and for languages without a file.
FALLBACK = "en"

#: A sentence, or its forms by the plural rule of the language ("one", "other", ...).
Sentence = str | Mapping[str, str]

_UNITS: tuple[tuple[Literal["day", "hour", "minute"], int], ...] = (
    ("day", 86400),
    ("hour", 3600),
    ("minute", 60),
)

#: Beyond it, a float no longer counts one by one, and digits would pretend it does.
_EXACT = 1e15

#: Beyond it, a whole number takes more digits than Babel reckons with.
_LONGEST_WHOLE = 10**24

_NO_VALUE = "–"  # noqa: RUF001 - a dash that says "no value"


@dataclass(frozen=True, slots=True)
class Words:
    """
    A language, the zone of its reader, and what is said in both.

    Args:
        locale: With a country or without one, such as fr-CH.
        sentences: Of the file of its language.
        zone: In which instants are told.
    """

    locale: Locale
    sentences: Mapping[str, Sentence]
    zone: tzinfo

    @property
    def tag(self) -> str:
        """The language tag, for the ``lang`` of HTML."""
        return str(self.locale).replace("_", "-")

    def say(self, key: str, count: float | None = None, **values: object) -> str:
        """
        Return the sentence *key*.

        Args:
            key: As in the files of languages/.
            count: Chooses the plural; it is ``{count}`` in the sentence.
            values: The other names in the sentence.

        Raises:
            KeyError: There is no such sentence, or it names another value.
        """
        sentence = self.sentences[key]
        if count is not None:
            values["count"] = self.number(count)
        if not isinstance(sentence, str):
            form = self.locale.plural_form(0 if count is None else count)
            sentence = sentence.get(form, sentence["other"])
        return sentence.format_map(values)

    def number(self, number: float | None, *, grouped: bool = True) -> str:
        """
        Return *number* with two decimals if any, and its thousands apart.

        Args:
            number: None: there is no value.
            grouped: False for what only looks like a quantity, such as a year.
        """
        if number is None:
            return _NO_VALUE
        if not math.isfinite(number):
            return str(number)
        size = abs(number)
        if size < (_EXACT if isinstance(number, float) else _LONGEST_WHOLE) and (
            number == int(number)
        ):
            pattern, number = ("#,##0" if grouped else "0"), int(number)
        elif 0.01 <= size < _EXACT:
            pattern = "#,##0.00" if grouped else "0.00"
        elif 1e-6 <= size < 0.01:
            # Three digits that count, wherever they begin.
            pattern, number = "0.########", float(f"{number:.3g}")
        else:
            return f"{number:.6g}"
        return format_decimal(number, format=pattern, locale=self.locale)

    def signed(self, number: float) -> str:
        """Return *number* with its sign; what is unchanged has none."""
        return f"+{self.number(number)}" if number > 0 else self.number(number)

    def signed_percent(self, ratio: float) -> str:
        """Return *ratio* (0.05) as a percentage with its sign and a decimal (+5.0%)."""
        pattern = str(self.locale.percent_formats[None].pattern)
        # CLDR puts the sign where the language does; it only needs a decimal more.
        shown = format_percent(
            ratio, format=pattern.replace("0", "0.0"), locale=self.locale
        )
        return f"+{shown}" if ratio > 0 else shown

    def day(self, instant: datetime) -> str:
        """Return the local day of *instant* (aware), such as ``23 novembre 2026``."""
        return format_date(instant.astimezone(self.zone), "long", locale=self.locale)

    def short_day(self, instant: datetime) -> str:
        """Return the local day of *instant* (aware), such as ``23 nov. 2026``."""
        return format_date(instant.astimezone(self.zone), "medium", locale=self.locale)

    def instant(self, instant: datetime) -> str:
        """Return *instant* (aware) with its local minute, on a clock of 24 hours."""
        local = instant.astimezone(self.zone)
        return f"{self.short_day(instant)}, {local:%H:%M}"

    def age(self, since: datetime, *, now: datetime) -> str:
        """
        Return how long ago *since* was, in its largest unit.

        Args:
            since: Aware.
            now: Aware; before *since* (clocks differ) counts as now.
        """
        seconds = int((now - since).total_seconds())
        for unit, size in _UNITS:
            if seconds >= size:
                whole = timedelta(seconds=seconds // size * size)
                # No threshold is reached, so it is told in this unit and no larger one.
                return format_timedelta(
                    -whole,
                    granularity=unit,
                    threshold=math.inf,
                    add_direction=True,
                    locale=self.locale,
                )
        return self.say("now")


def find_words(tag: str, *, zone: tzinfo) -> Words:
    """
    Return how to speak to a reader.

    Args:
        tag: A language tag such as ``fr-CH`` or ``fr_CH``; empty: none is known. What
            nobody has translated is told in English, numbers and dates as well.
        zone: Of their small app.
    """
    locale = _find_locale(tag)
    return Words(locale, read_sentences(locale.language), zone)


@lru_cache(maxsize=1000)
def _find_locale(tag: str) -> Locale:
    """Return the locale that Babel knows for *tag*, in a language that we have."""
    parts = tag.replace("_", "-").split("-")
    while parts:
        try:
            found = Locale.parse("-".join(parts), sep="-")
        except (ValueError, UnknownLocaleError):
            # A country or a script that nobody knows: the language may do.
            parts.pop()
            continue
        return found if found.language in find_languages() else Locale(FALLBACK)
    return Locale(FALLBACK)


@cache
def find_languages() -> frozenset[str]:
    """Return the languages that have a file."""
    files = resources.files(__package__).joinpath("languages").iterdir()
    return frozenset(
        each.name.removesuffix(".json") for each in files if each.name.endswith(".json")
    )


@cache
def read_sentences(language: str) -> Mapping[str, Sentence]:
    """Return the sentences of *language*, which has a file."""
    path = resources.files(__package__).joinpath("languages", f"{language}.json")
    found: dict[str, Sentence] = json.loads(path.read_text(encoding="utf-8"))
    return found
